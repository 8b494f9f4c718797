// bench churn: sandboxes come and go, and nothing stays: no process, mount, cgroup, network namespace, directory or open file. Once beside an engine at
// rest that has worked before, once beside no engine at all.
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'

import { createEngine } from '../src/index.ts'
import { scratch } from './build.ts'
import type { Bench, Figure } from './figure.ts'
import { atRest, launchersOf, settle } from './leftover.ts'
import type { Inventory, Kind } from './leftover.ts'

// What a launcher keeps only while there is work goes after a second of rest.
const restMs = 3000

const figures = (when: string, left: Inventory): Figure[] =>
  (Object.keys(left) as Kind[]).map((kind) => {
    const names = left[kind]
    return {
      name: `${when}: ${kind} left`,
      value: names.length,
      unit: '',
      goal: { atMost: 0 },
      ...(names.length === 0 ? {} : { note: names.slice(0, 3).join(', ') }),
    }
  })

export const bench: Bench = {
  doc: '300 times create, exec, destroy: nothing is left',
  async *run({ effort }) {
    // Places of its own, so that nobody else's comings and goings are counted.
    const directory = await scratch()
    const state = join(directory, 'state')
    process.env['TMPDIR'] = join(directory, 'tmp')
    for (const path of [state, process.env['TMPDIR']]) await mkdir(path, { mode: 0o700 })
    try {
      // What Node opens once and keeps is no engine's leftover: there was one before.
      const earlier = createEngine({ stateDirectory: state })
      await earlier.create()
      await earlier.close()
      const none = await atRest({ state })
      const engine = createEngine({ stateDirectory: state })
      let launchers: readonly string[] = []
      try {
        const cycle = async (): Promise<void> => {
          const sandbox = await engine.create()
          const { outcome } = await sandbox.run(['/bin/true'])
          if (outcome.kind !== 'exited' || outcome.code !== 0) throw new Error(`/bin/true inside: ${JSON.stringify(outcome)}`)
          await sandbox.destroy()
        }
        for (let index = 0; index < 10; index++) await cycle()
        launchers = await launchersOf(state)
        const before = await atRest({ state })

        const count = Math.ceil(300 * effort)
        const start = performance.now()
        for (let index = 0; index < count; index++) await cycle()
        yield { name: 'cycles', value: count, unit: '' }
        yield { name: 'rate, one at a time', value: count / ((performance.now() - start) / 1000), unit: '/s' }
        yield* figures('engine at rest', await settle(before, { state }, restMs))
      } finally {
        await engine.close()
      }
      yield* figures('engine closed', await settle(none, { state, launchers }, 1000))
    } finally {
      await rm(directory, { recursive: true, force: true })
    }
  },
}
