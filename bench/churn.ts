// bench churn: sandboxes come and go, and nothing stays: no process, mount, cgroup, network namespace, directory or open file, a second after the last.
import { rm } from 'node:fs/promises'

import { createEngine } from '../src/index.ts'
import { scratch } from './build.ts'
import type { Bench } from './figure.ts'
import { inventory, settle } from './leftover.ts'
import type { Kind } from './leftover.ts'

export const bench: Bench = {
  doc: '300 times create, exec, destroy: nothing is left',
  async *run({ effort }) {
    // A state directory of its own, so that nobody else's comings and goings are counted.
    const state = await scratch()
    const engine = createEngine({ stateDirectory: state })
    const cycle = async (): Promise<void> => {
      const sandbox = await engine.create()
      try {
        const { outcome } = await sandbox.run(['/bin/true'])
        if (outcome.kind !== 'exited' || outcome.code !== 0) throw new Error(`/bin/true inside: ${JSON.stringify(outcome)}`)
      } finally {
        await sandbox.destroy()
      }
    }
    try {
      for (let index = 0; index < 10; index++) await cycle()
      const before = await inventory(state)
      const count = Math.ceil(300 * effort)
      const start = performance.now()
      for (let index = 0; index < count; index++) await cycle()
      const seconds = (performance.now() - start) / 1000
      const left = await settle(before, state, 1000)
      yield { name: 'cycles', value: count, unit: '' }
      yield { name: 'rate, one at a time', value: count / seconds, unit: '/s' }
      for (const kind of Object.keys(left) as Kind[]) {
        const names = left[kind]
        const note = names.length === 0 ? {} : { note: names.slice(0, 3).join(', ') }
        yield { name: `${kind} left`, value: names.length, unit: '', goal: { atMost: 0 }, ...note }
      }
    } finally {
      await engine.close()
      await rm(state, { recursive: true, force: true })
    }
  },
}
