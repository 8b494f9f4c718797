// The C floor as a side of a comparison: one process a phase, told over stdin how many runs to make, so that its runs can take turns with others.
import { execFileSync, spawn } from 'node:child_process'
import { copyFile, mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'

import { build } from './build.ts'
import type { Side } from './sample.ts'

export type Floor = { readonly side: Side; close(): void }

/** Starts one phase of `bench/floor/floor.c`, e.g. `floor(['exec', '/bin/true'])`. Its times are taken inside it. */
export const floor = async (phase: readonly string[]): Promise<Floor> => {
  const child = spawn(await build('floor'), phase, { stdio: ['pipe', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    async side(count, pauseMs) {
      child.stdin.write(`${count} ${pauseMs}\n`)
      const times: number[] = []
      while (times.length < count) {
        const { value, done } = await lines.next()
        if (done) throw new Error(`the floor ended in phase ${phase[0]}`)
        times.push(Number(value) / 1000)
      }
      return times
    },
    close() {
      child.stdin.end()
    },
  }
}

/** A root file system with one dynamic program and what it is linked to, at the paths of the host. */
export const smallRoot = async (root: string, program: string): Promise<void> => {
  const libraries = execFileSync('ldd', [program], { encoding: 'utf8' }).match(/\/\S+/g) ?? []
  for (const file of [program, ...libraries]) {
    await mkdir(join(root, dirname(file)), { recursive: true })
    await copyFile(file, join(root, file))
  }
}
