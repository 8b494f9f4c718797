// bench filter: what it costs to load the system-call filter, which every command pays once. Beside it the same decisions as a chain of comparisons.
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

import { encode, op } from '../src/policy/bpf.ts'
import type { Insn } from '../src/policy/bpf.ts'
import { filterFor, verdicts } from '../src/policy/seccomp.ts'
import { scratch } from './build.ts'
import type { Bench } from './figure.ts'
import { floor } from './floor.ts'
import { inTurns, summary } from './sample.ts'

const arch = process.arch === 'arm64' ? 'arm64' : 'x64'

/** One comparison a number, in order: what a filter looks like that nobody has arranged. */
const chain = (): Uint8Array => {
  const program: Insn[] = [[op.load, 0, 0, 0]]
  for (const number of verdicts(arch).keys()) program.push([op.equal, 0, 1, number], [op.give, 0, 0, 0x0005_0001])
  program.push([op.give, 0, 0, 0x7fff_0000])
  return encode(program)
}

export const bench: Bench = {
  doc: 'loading the system-call filter, beside a chain of comparisons',
  async *run({ effort }) {
    const directory = await scratch()
    const tree = filterFor(arch)
    await writeFile(join(directory, 'tree'), tree)
    await writeFile(join(directory, 'chain'), chain())
    const sides = { tree: await floor(['filter', join(directory, 'tree')]), chain: await floor(['filter', join(directory, 'chain')]) }
    try {
      const times = await inTurns({ tree: sides.tree.side, chain: sides.chain.side }, { rounds: Math.ceil(40 * effort), block: 10 })
      yield { name: 'instructions x64', value: filterFor('x64').length / 8, unit: '' }
      yield { name: 'instructions arm64', value: filterFor('arm64').length / 8, unit: '' }
      yield { name: 'load p50', value: summary(times.tree).p50 * 1000, unit: 'us', goal: { atMost: 120 } }
      yield { name: 'load p95', value: summary(times.tree).p95 * 1000, unit: 'us' }
      yield { name: 'load p50 as a chain', value: summary(times.chain).p50 * 1000, unit: 'us' }
    } finally {
      sides.tree.close()
      sides.chain.close()
      await rm(directory, { recursive: true, force: true })
    }
  },
}
