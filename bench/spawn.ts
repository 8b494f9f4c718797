// Spawned programs as a side of a comparison. Node forks to spawn, which costs more the larger the process is, so whoever is measured through a spawn is
// spawned from a small process of its own and not from a bench that has an engine and its samples in memory.
import { fork } from 'node:child_process'
import { join } from 'node:path'

import type { Side } from './sample.ts'

type Answer = { readonly times: readonly number[]; readonly residentBytes: number; readonly failed?: string }

export type Spawner = {
  /** A side that spawns this command, both of its outputs read to the end. */
  side(argv: readonly string[]): Side
  /** Largest resident set seen after a block of runs. */
  residentBytes(): number
  close(): void
}

/** Starts a spawner with the environment given; one block of runs at a time. */
export const spawner = (env: NodeJS.ProcessEnv): Spawner => {
  const child = fork(join(import.meta.dirname, 'spawner.js'), { env, execArgv: [] })
  let resident = 0
  return {
    side: (argv) => (count, pauseMs) =>
      new Promise((resolve, reject) => {
        const lost = (): void => reject(new Error('the spawner ended'))
        child.once('exit', lost)
        child.once('message', (answer: Answer) => {
          child.off('exit', lost)
          resident = Math.max(resident, answer.residentBytes)
          if (answer.failed === undefined) resolve(answer.times)
          else reject(new Error(answer.failed))
        })
        child.send({ argv, count, pauseMs })
      }),
    residentBytes: () => resident,
    close: () => child.disconnect(),
  }
}
