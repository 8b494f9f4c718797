// The engine killed with -9 at random moments: a second later nothing of it is left, and the next one sweeps what is on disk.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createEngine } from '../../src/index.ts'

const ROUNDS = Number(process.env['SANDLOT_KILL_ROUNDS'] ?? 12)
const state = mkdtempSync(join(tmpdir(), 'sandlot-killed-'))
after(() => rmSync(state, { recursive: true, force: true }))

const index = new URL('../../src/index.ts', import.meta.url).href
const program = (mark: string): string => `
  const { createEngine } = await import(${JSON.stringify(index)})
  const engine = createEngine({ stateDirectory: ${JSON.stringify(state)} })
  process.stdout.write('go\\n')
  for (;;) {
    const boxes = await Promise.all([engine.create({}), engine.create({})])
    for (const box of boxes) await box.exec(['/bin/sh', '-c', 'setsid sleep 1${mark} & sleep 2${mark}'])
    await boxes[0].destroy()
  }`

const alive = (mark: string): string[] =>
  readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(mark)
    } catch {
      return false
    }
  })

const launchers = (): string[] => {
  try {
    return readdirSync(join(state, 'launcher'))
  } catch {
    return []
  }
}

test(`after kill -9 of the engine at ${ROUNDS} random moments no process and no mount is left a second later`, async (t) => {
  const seed = Number(process.env['SANDLOT_SEED'] ?? Date.now() % 100_000)
  t.diagnostic(`seed ${seed} (SANDLOT_SEED)`)
  let random = seed
  for (let round = 0; round < ROUNDS; round++) {
    const mark = `${String(process.pid).padStart(7, '0')}${String(round).padStart(3, '0')}`
    const engine = spawn(process.execPath, ['--input-type=module', '-e', program(mark)], { stdio: ['ignore', 'pipe', 'inherit'] })
    await new Promise((resolve) => engine.stdout.once('data', resolve))
    random = (random * 1_103_515_245 + 12_345) % 2 ** 31
    await sleep(random % 400)
    engine.kill('SIGKILL')
    await new Promise((resolve) => engine.once('exit', resolve))
    const deadline = performance.now() + 1000
    let left = alive(mark)
    while (left.length > 0 && performance.now() < deadline) {
      await sleep(20)
      left = alive(mark)
    }
    assert.deepEqual(left, [], `round ${round}: processes left`)
    assert.ok(!readFileSync('/proc/self/mountinfo', 'utf8').includes(state), `round ${round}: a mount is left`)
  }
})

test('the next engine sweeps the directories that a killed launcher left', async () => {
  await using engine = createEngine({ stateDirectory: state })
  const box = await engine.create({})
  await box.run(['true'])
  const deadline = performance.now() + 10_000
  // The sweep goes on in the background: what remains is the one launcher that lives, and its one box.
  while ((launchers().length > 1 || readdirSync(join(state, 'box')).length > 1) && performance.now() < deadline) await sleep(20)
  assert.equal(launchers().length, 1)
  assert.equal(readdirSync(join(state, 'box')).length, 1)
})
