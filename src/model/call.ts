// One object a request, from the caller down to the driver: who asked, until when, and whether it is still wanted.

export type Call = {
  readonly id: string
  /** When to give up, milliseconds since the epoch; undefined = never. */
  readonly deadlineMs: number | undefined
  readonly signal: AbortSignal | undefined
}
