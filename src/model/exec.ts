import type { Outcome } from './outcome.ts'

/** starting -> running -> exited (first process over, leftovers live) -> ended (no process left); or starting -> unstarted. */
export type ExecState = 'starting' | 'running' | 'exited' | 'ended' | 'unstarted'

export type Channel = 'stdout' | 'stderr'

/** At the log's bound: `hold` lets the producer wait for the slowest attached reader, `drop` lets the oldest bytes go. */
export type Overflow = 'hold' | 'drop'

export type ExecInfo = {
  readonly id: string
  readonly sandbox: string
  readonly argv: readonly string[]
  readonly cwd: string
  readonly user: string
  readonly state: ExecState
  /** Process id inside; 0 before it started. */
  readonly pid: number
  /** Milliseconds since the epoch. */
  readonly startedAtMs: number
  /** Bytes of output so far, both channels. */
  readonly outputBytes: number
  /** First byte still kept. */
  readonly outputFirst: number
  readonly outcome: Outcome | undefined
}

/** What a reader of an exec's output sees. `offset` is the position of the first byte, over both channels in order of arrival. */
export type OutputEvent =
  | { readonly kind: 'data'; readonly channel: Channel; readonly offset: number; readonly bytes: Uint8Array }
  /** The first process is over; output of leftovers may follow. */
  | { readonly kind: 'exit'; readonly offset: number; readonly outcome: Outcome }
  /** Both channels have ended and the outcome is known. The last event. */
  | { readonly kind: 'end'; readonly offset: number; readonly outcome: Outcome }
