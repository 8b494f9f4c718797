// What was done, one line an operation: appended, hash-chained per engine, written off the hot path (and at the latest when the process exits).
// Values of variables are left out: a record is read by people who were not meant to see them.

import { appendFileSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from '../host/node-fs.ts'
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
// A file is set aside at this size, and so many are kept: the record of a busy engine does not fill the disk.
const FILE_BYTES = 16 * 1024 * 1024
const KEEP_FILES = 16
// What of one text and one list is kept.
const KEEP_TEXT = 1000
const KEEP_ITEMS = 100

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
      const line = { engine, sequence: sequence++, at: utc(entry.atMs), ...entry }
      if (!seal) {
        lines += `${JSON.stringify(line)}\n`
        continue
      }
      const body = JSON.stringify({ ...line, previous })
      previous = process.getBuiltinModule('node:crypto').hash('sha256', body)
      lines += `${body.slice(0, -1)},"hash":"${previous}"}\n`
    }
    waiting = []
    const today = utc(Date.now()).slice(0, 10)
    const file = join(directory, `${today}.jsonl`)
    try {
      const size = statSync(file, { throwIfNoEntry: false })?.size
      if (size === undefined) mkdirSync(directory, { recursive: true, mode: 0o700 })
      else if (size > FILE_BYTES) renameSync(file, join(directory, `${today}.${utc(Date.now()).slice(11).replaceAll(':', '')}.jsonl`))
      if (size === undefined || size > FILE_BYTES) forgetOld(directory)
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
  const oldest = utc(Date.now() - KEEP_DAYS * 86_400_000).slice(0, 10)
  const files = readdirSync(directory)
    .filter((name) => /^\d{4}-\d\d-\d\d(\.[\w.]+)?\.jsonl$/.test(name))
    .toSorted()
  for (const [index, name] of files.entries()) {
    if (name.slice(0, 10) < oldest || index < files.length - KEEP_FILES) rmSync(join(directory, name), { force: true })
  }
}

/** The input of an operation as it may stand in a record: names of variables and not their values, and of what is very long the beginning. */
export const recordable = (input: unknown): unknown => {
  if (typeof input !== 'object' || input === null) return shortened(input)
  return Object.fromEntries(
    Object.entries(input).map(([key, value]) => [key, shortened(key === 'env' && typeof value === 'object' && value !== null ? Object.keys(value) : value)]),
  )
}

const shortened = (value: unknown): unknown => {
  if (typeof value === 'string') return value.length > KEEP_TEXT ? `${value.slice(0, KEEP_TEXT)}... (${value.length} characters)` : value
  if (!Array.isArray(value)) return value
  const kept = value.slice(0, KEEP_ITEMS).map(shortened)
  return value.length > KEEP_ITEMS ? [...kept, `... (${value.length} altogether)`] : kept
}

/** `2026-11-29T18:01:02.003Z`. Reckoned by hand: a Date makes the runtime read the time zone first, which a command that is over in milliseconds would feel. */
export const utc = (ms: number): string => {
  const days = Math.floor(ms / 86_400_000)
  const rest = ms - days * 86_400_000
  // Days to a date as Howard Hinnant's civil_from_days does it, in years that begin in March.
  const shifted = days + 719_468
  const era = Math.floor(shifted / 146_097)
  const day = shifted - era * 146_097
  const year = Math.floor((day - Math.floor(day / 1460) + Math.floor(day / 36_524) - Math.floor(day / 146_096)) / 365)
  const ofYear = day - (365 * year + Math.floor(year / 4) - Math.floor(year / 100))
  const march = Math.floor((5 * ofYear + 2) / 153)
  const month = march < 10 ? march + 3 : march - 9
  const date = [year + era * 400 + (month <= 2 ? 1 : 0), month, ofYear - Math.floor((153 * march + 2) / 5) + 1]
  const time = [Math.floor(rest / 3_600_000), Math.floor(rest / 60_000) % 60, Math.floor(rest / 1000) % 60]
  const two = (value: number): string => String(value).padStart(2, '0')
  return `${date.map(two).join('-')}T${time.map(two).join(':')}.${String(rest % 1000).padStart(3, '0')}Z`
}
