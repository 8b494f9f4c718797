import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { createLog, type Reader } from '../../src/engine/log.ts'
import { isSandlotError } from '../../src/model/error.ts'
import { WINDOW } from '../../src/protocol/frame.ts'

const bytes = (size: number, start = 0): Uint8Array => Uint8Array.from({ length: size }, (_, i) => (start + i) % 251)

const drain = (reader: Reader): number[] => {
  const out: number[] = []
  for (let entry = reader.poll(); entry !== undefined; entry = reader.poll()) out.push(...entry.bytes)
  return out
}

test('a reader that comes late reads every byte from the first', () => {
  const log = createLog('drop', WINDOW)
  log.append('stdout', 0, bytes(10))
  log.append('stderr', 10, bytes(5, 10))
  assert.deepEqual(drain(log.read(0)), [...bytes(15)])
})

test('a reader may start at any byte, in the middle of what arrived as one piece too', () => {
  const log = createLog('drop', WINDOW)
  log.append('stdout', 0, bytes(100))
  log.append('stdout', 100, bytes(100, 100))
  for (const from of [0, 1, 99, 100, 101, 199, 200]) assert.deepEqual(drain(log.read(from)), [...bytes(200)].slice(from))
})

test('with `drop` the oldest bytes go at the bound and a read below answers output.gone with the first kept byte', () => {
  const log = createLog('drop', WINDOW)
  for (let at = 0; at < 3 * WINDOW; at += 1024) log.append('stdout', at, bytes(1024))
  assert.equal(log.first, 2 * WINDOW)
  assert.throws(
    () => log.read(0),
    (error) => isSandlotError(error) && error.code === 'output.gone' && error.detail['first'] === 2 * WINDOW,
  )
  assert.equal(log.read(log.first).poll()?.offset, 2 * WINDOW)
})

test('a reader that is overtaken learns so instead of skipping bytes', () => {
  const log = createLog('drop', WINDOW)
  log.append('stdout', 0, bytes(1024))
  const reader = log.read(0)
  for (let at = 1024; at < 3 * WINDOW; at += 1024) log.append('stdout', at, bytes(1024))
  assert.throws(
    () => reader.poll(),
    (error) => isSandlotError(error) && error.code === 'output.gone',
  )
})

test('with `hold` the limit stands still until the slowest reader has moved', () => {
  const log = createLog('hold', WINDOW)
  const slow = log.read(0)
  const fast = log.read(0)
  assert.equal(log.limit, WINDOW)
  log.append('stdout', 0, bytes(1024))
  log.append('stdout', 1024, bytes(1024))
  drain(fast)
  assert.equal(log.limit, WINDOW)
  slow.poll()
  assert.equal(log.limit, WINDOW, 'what was handed out counts as read only when more is asked for')
  slow.poll()
  assert.equal(log.limit, WINDOW + 1024)
})

test('with `hold` and no reader the oldest bytes go, unless a reader is reserved', () => {
  const free = createLog('hold', WINDOW)
  for (let at = 0; at < 2 * WINDOW; at += 1024) free.append('stdout', at, bytes(1024))
  assert.equal(free.first, WINDOW)
  const reserved = createLog('hold', WINDOW)
  reserved.reserve()
  assert.equal(reserved.limit, WINDOW)
  reserved.append('stdout', 0, bytes(1024))
  assert.equal(reserved.limit, WINDOW)
})

test('room is announced when a held reader moves or leaves', () => {
  const log = createLog('hold', WINDOW)
  let told = 0
  log.onRoom(() => told++)
  const reader = log.read(0)
  log.append('stdout', 0, bytes(10))
  reader.poll()
  assert.equal(told, 0)
  reader.poll()
  assert.equal(told, 1)
  reader.detach()
  assert.equal(told, 2)
})

test('a piece that arrives again after a reconnect is not doubled', () => {
  const log = createLog('drop', WINDOW)
  log.append('stdout', 0, bytes(10))
  log.append('stdout', 5, bytes(10, 5))
  assert.deepEqual(drain(log.read(0)), [...bytes(15)])
})

test('whatever the pieces, readers at random positions see the same bytes (property)', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.boolean(), fc.uint8Array({ minLength: 1, maxLength: 5000 })), { maxLength: 60 }), fc.nat(), (pieces, seed) => {
      const log = createLog('hold', WINDOW)
      log.reserve()
      const all: number[] = []
      for (const [toStdout, piece] of pieces) {
        log.append(toStdout ? 'stdout' : 'stderr', all.length, piece)
        all.push(...piece)
      }
      const kept = all.slice(log.first)
      const from = kept.length === 0 ? 0 : seed % kept.length
      assert.deepEqual(drain(log.read(log.first + from)), kept.slice(from))
    }),
  )
})
