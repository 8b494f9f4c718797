import assert from 'node:assert/strict'
import { test } from 'node:test'

import { line, state } from '../../bench/figure.ts'
import { leftover } from '../../bench/leftover.ts'
import type { Inventory } from '../../bench/leftover.ts'
import { inTurns, medianDifference, quantile, summary } from '../../bench/sample.ts'

test('a figure is judged by its goal, and one that was not measured does not pass', () => {
  const figure = { name: 'exec / floor', unit: 'x', goal: { atMost: 2.2 } }
  assert.equal(state({ ...figure, value: 2.2 }), 'ok')
  assert.equal(state({ ...figure, value: 2.21 }), 'MISSED')
  assert.equal(state({ ...figure, value: undefined }), 'not measured')
  assert.equal(state({ ...figure, value: NaN }), 'not measured')
  assert.equal(state({ ...figure, value: 3, goal: { atLeast: 3 } }), 'ok')
  assert.equal(state({ ...figure, value: 2.9, goal: { atLeast: 3 } }), 'MISSED')
  assert.equal(state({ name: 'p50', unit: 'ms', value: 3 }), 'printed')
})

test('a line has name, value, unit, goal and verdict', () => {
  const words = (text: string): string => text.replace(/ +/g, ' ')
  assert.equal(words(line({ name: 'exec / floor', value: 1.871, unit: 'x', goal: { atMost: 2.2 } })), 'exec / floor 1.87 x <= 2.2 ok')
  assert.equal(words(line({ name: 'exec / floor', value: 2.5, unit: 'x', goal: { atMost: 2.2 } })), 'exec / floor 2.50 x <= 2.2 MISSED')
  assert.equal(words(line({ name: 'cycles', value: 300, unit: '' })), 'cycles 300')
  assert.equal(words(line({ name: 'a', value: undefined, unit: 'x', note: 'bubblewrap is not installed' })), 'a not measured: bubblewrap is not installed')
})

test('quantiles lie between the samples', () => {
  assert.equal(quantile([4, 1, 3, 2], 0.5), 2.5)
  assert.deepEqual(summary([5, 1, 2, 3, 4]), { count: 5, min: 1, p50: 3, p95: 4.8 })
  assert.ok(Number.isNaN(quantile([], 0.5)))
  assert.equal(medianDifference([10, 20, 31], [1, 10, 20]), 10)
  assert.throws(() => medianDifference([1], [1, 2]), /pairs of 1 and 2/)
})

test('sides take turns, each round beginning with another', async () => {
  const order: string[] = []
  const side = (name: string) => (count: number) => {
    order.push(name)
    return Promise.resolve(Array.from({ length: count }, () => 1))
  }
  const samples = await inTurns({ a: side('a'), b: side('b') }, { rounds: 3, block: 2 })
  assert.equal(order.join(''), 'abbaab')
  assert.deepEqual(samples, { a: [1, 1, 1, 1, 1, 1], b: [1, 1, 1, 1, 1, 1] })
})

test('what is left is what came and did not go, counted and by name', () => {
  const none: Inventory = { 'processes': [], 'mounts': [], 'cgroups': [], 'network namespaces': [], 'directories': [], 'open files': [] }
  const before = { ...none, 'mounts': ['8:1 / /'], 'open files': ['1 socket', '1 socket'] }
  const after = { ...none, 'mounts': ['8:1 / /', '8:1 / /'], 'open files': ['1 socket'], 'directories': ['box/a'] }
  assert.deepEqual(leftover(before, after), { ...none, mounts: ['8:1 / /'], directories: ['box/a'] })
})
