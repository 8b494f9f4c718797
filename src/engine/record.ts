// What was done, one line an operation: appended, hash-chained per engine, written off the hot path (and at the latest when the process exits).
// Values of variables are left out: a record is read by people who were not meant to see them.

import { appendFileSync, existsSync, mkdirSync, readdirSync, unlinkSync } from '../host/node-fs.ts'
import { join } from 'node:path'

export type RecordEntry = {
  /** Name of the operation. */
  readonly operation: string
  /** Milliseconds since the epoch when it began. */
  readonly atMs: number
  readonly durationMs: number
  readonly input: unknown
  /** What came of it: an outcome, an id, or the code of our refusal. */
  readonly result: unknown
}

export type Record = {
  append(entry: RecordEntry): void
  /** Writes what waits. */
  flush(): void
  close(): void
}

const FLUSH_MS = 250
const KEEP_DAYS = 30

/** `directory`: ours, 0700. `engine`: id of the engine, part of every line. A record that cannot be written ends nothing: `onFailure` hears of it once. */
export const openRecord = (directory: string, engine: string, onFailure: (cause: unknown) => void = () => {}): Record => {
  let waiting: RecordEntry[] = []
  let timer: NodeJS.Timeout | undefined
  let previous = ''
  let sequence = 0
  let failed = false

  /** `seal`: chain the lines by their hashes. A process that ends before the first flush writes its few lines unsealed: the hash would cost it more than all else. */
  const write = (seal: boolean): void => {
    clearTimeout(timer)
    timer = undefined
    if (waiting.length === 0 || failed) return
    let lines = ''
    for (const entry of waiting) {
      const line = { engine, sequence: sequence++, at: new Date(entry.atMs).toISOString(), ...entry }
      if (!seal) {
        lines += `${JSON.stringify(line)}\n`
        continue
      }
      const body = JSON.stringify({ ...line, previous })
      previous = process.getBuiltinModule('node:crypto').hash('sha256', body)
      lines += `${body.slice(0, -1)},"hash":"${previous}"}\n`
    }
    waiting = []
    const today = new Date().toISOString().slice(0, 10)
    const file = join(directory, `${today}.jsonl`)
    try {
      if (!existsSync(file)) {
        mkdirSync(directory, { recursive: true, mode: 0o700 })
        forgetOld(directory)
      }
      appendFileSync(file, lines, { mode: 0o600 })
    } catch (cause) {
      failed = true
      onFailure(cause)
    }
  }

  const flush = (): void => write(true)
  const atExit = (): void => write(previous !== '')
  process.on('exit', atExit)
  return {
    append: (entry) => {
      waiting.push(entry)
      timer ??= setTimeout(flush, FLUSH_MS).unref()
    },
    flush,
    close: () => {
      flush()
      process.removeListener('exit', atExit)
    },
  }
}

const forgetOld = (directory: string): void => {
  const oldest = new Date(Date.now() - KEEP_DAYS * 86_400_000).toISOString().slice(0, 10)
  for (const name of readdirSync(directory)) {
    if (/^\d{4}-\d\d-\d\d\.jsonl$/.test(name) && name.slice(0, 10) < oldest) unlinkSync(join(directory, name))
  }
}

/** The input of an operation as it may stand in a record: names of variables, not their values. */
export const recordable = (input: unknown): unknown => {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) return input
  return Object.fromEntries(
    Object.entries(input).map(([key, value]) => [key, key === 'env' && typeof value === 'object' && value !== null ? Object.keys(value) : value]),
  )
}
