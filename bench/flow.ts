// bench flow: a producer much faster than its reader. The reader is held at 1 MiB/s for 30 s and then let go; neither the engine nor the init may grow by
// more than 32 MiB, and every byte has to arrive.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'

import { createEngine } from '../src/index.ts'
import type { Bench } from './figure.ts'
import { below } from './leftover.ts'

const MiB = 2 ** 20
const size = 2 ** 30

// Every position has its own content, ten bytes a number, so that a lost, doubled or exchanged piece shows in the hash.
const producer = (bytes: number): string[] => ['/bin/sh', '-c', `seq 100000000 299999999 | head -c ${bytes}`]
const producing = new Set(['sh', 'seq', 'head'])

/** The hash of what the producer prints, from the same command on the host. */
const expected = async (bytes: number): Promise<string> => {
  const [file, ...args] = producer(bytes)
  const hash = createHash('sha256')
  for await (const piece of spawn(file!, args, { stdio: ['ignore', 'pipe', 'inherit'] }).stdout) hash.update(piece)
  return hash.digest('hex')
}

const residentBytes = async (pid: number): Promise<number> => {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1024
}

/** Memory of everything of ours below the engine: launcher, inits, supervisors; not of what the producer is made of. */
const nativeBytes = async (): Promise<number> => {
  const ours = (await below(process.pid)).filter(({ name }) => !producing.has(name))
  return (await Promise.all(ours.map(({ pid }) => residentBytes(pid)))).reduce((sum, bytes) => sum + bytes, 0)
}

export const bench: Bench = {
  doc: '1 GiB against a reader held at 1 MiB/s for 30 s: memory stays flat, every byte arrives',
  async *run({ effort }) {
    const heldMs = 30_000 * Math.min(effort, 1)
    const alone = performance.now()
    const wanted = await expected(size)
    const aloneSeconds = (performance.now() - alone) / 1000
    const engine = createEngine()
    try {
      const sandbox = await engine.create()
      await sandbox.run(['/bin/true'])
      const before = { engine: process.memoryUsage.rss(), native: await nativeBytes() }
      const peak = { engine: 0, held: 0, native: 0 }
      const look = async (): Promise<void> => {
        peak.engine = Math.max(peak.engine, process.memoryUsage.rss())
        peak.native = Math.max(peak.native, await nativeBytes())
      }
      const watch = setInterval(() => void look(), 100)

      const handle = await sandbox.exec(producer(size), { overflow: 'hold', reserveReader: true })
      const hash = createHash('sha256')
      const start = performance.now()
      let [bytes, held] = [0, 0]
      for await (const event of handle.output()) {
        if (event.kind !== 'data') continue
        hash.update(event.bytes)
        bytes += event.bytes.length
        const elapsed = performance.now() - start
        if (elapsed > heldMs) continue
        held = bytes
        peak.held = Math.max(peak.held, process.memoryUsage.rss())
        const due = Math.min((bytes / MiB) * 1000, heldMs)
        if (due > elapsed) await new Promise((resolve) => setTimeout(resolve, due - elapsed))
      }
      const seconds = (performance.now() - start) / 1000
      clearInterval(watch)
      await look()

      yield { name: 'read while held', value: held / MiB, unit: 'MiB', note: `in ${heldMs / 1000} s` }
      yield {
        name: 'rate after release',
        value: (bytes - held) / MiB / (seconds - heldMs / 1000),
        unit: 'MiB/s',
        note: `without a sandbox ${(size / MiB / aloneSeconds).toFixed(0)}`,
      }
      yield { name: 'growth of the engine while held', value: (peak.held - before.engine) / MiB, unit: 'MiB' }
      yield { name: 'growth of the engine', value: (peak.engine - before.engine) / MiB, unit: 'MiB', goal: { atMost: 32 } }
      yield { name: 'growth of launcher and inits', value: (peak.native - before.native) / MiB, unit: 'MiB', goal: { atMost: 32 } }
      yield { name: 'bytes missing', value: Math.abs(size - bytes), unit: 'B', goal: { atMost: 0 } }
      yield { name: 'bytes arrived as sent', value: hash.digest('hex') === wanted ? 1 : 0, unit: 'of 1', goal: { atLeast: 1 } }
    } finally {
      await engine.close()
    }
  },
}
