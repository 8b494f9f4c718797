import type { Code } from '../../model/error.ts'
import type { Written } from '../schema.ts'

/** What a driver must be able to do for an operation to work at all; the names are those of the driver contract. */
export type Capability = 'hostRoot' | 'directoryRoot' | 'grants' | 'overlays' | 'users' | 'memoryLimit' | 'attach'

/** One row of the table. With `events` it yields them and returns after the last one; with `stream.in` it takes bytes beside its input; else it answers once. */
export type Operation = {
  readonly name: string
  /** One sentence, then what a caller has to know. */
  readonly doc: string
  readonly input: Written
  /** Absent: it answers nothing. */
  readonly output?: Written
  readonly events?: Written
  readonly stream?: { readonly in: 'bytes' }
  /** What it may fail with, beside `argument.invalid`, `argument.unknown` and `internal`, which every operation may. */
  readonly errors: readonly Code[]
  readonly capability?: Capability
}
