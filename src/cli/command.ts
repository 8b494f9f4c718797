import type { Client } from '../client/client.ts'
import type { CommonFlags, FlagTable, Parsed } from './flags.ts'
import type { Output } from './stdio.ts'

/** What a verb may use. */
export type Context = {
  readonly verbs: Verbs
  readonly stdout: Output
  readonly stderr: Output
  /** A client of an engine in this process. The engine ends with the process, and does nothing before it is asked something unless a sandbox is wanted `soon`. */
  client(soon?: boolean): Promise<Client>
}

/** One verb. Its file is loaded only when it is asked for. */
export type Command<T extends FlagTable = FlagTable> = {
  /** What follows `sandlot`. */
  readonly usage: string
  /** The first line is the summary. */
  readonly about: string
  readonly examples: readonly (readonly [command: string, what: string])[]
  /** Beside `--help` and `--json`, which every verb has. */
  readonly flags: T
  /** Left out: 0 and 125. */
  readonly exits?: readonly (readonly [code: string, meaning: string])[]
  /** The words it takes: `command` is a program with arguments of its own; else how many, and which a shell can complete. */
  readonly words: 'command' | { readonly most: number; readonly values: readonly string[] | 'verbs' }
  /** Resolves to the exit code. */
  run(parsed: Parsed<T & CommonFlags>, context: Context): Promise<number>
}

export type Verbs = { readonly [name: string]: { readonly summary: string; load(): Promise<{ readonly command: Command }> } }
