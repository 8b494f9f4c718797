// What became of a command. A value, never thrown: a program that fails has done what it was asked.

/** Why a program did not start. */
export type UnstartedReason = 'not_found' | 'not_executable' | 'too_large' | 'no_cwd' | 'no_user' | 'no_resources'

/** What the first process and what it waited for used. */
export type Usage = {
  /** CPU time in user mode, microseconds. */
  readonly userUs: number
  /** CPU time in the kernel, microseconds. */
  readonly systemUs: number
  /** Largest resident set of one process, bytes. */
  readonly peakBytes: number
}

export type Outcome =
  | { readonly kind: 'exited'; readonly code: number; readonly usage: Usage }
  | { readonly kind: 'signalled'; readonly signal: number; readonly usage: Usage }
  /** Our deadline ended the whole tree. */
  | { readonly kind: 'timeout'; readonly afterMs: number; readonly usage: Usage }
  /** A limit ended it. */
  | { readonly kind: 'limit'; readonly which: 'memory' | 'cpu' | 'disk' | 'output' | 'processes'; readonly usage: Usage }
  /** The fence ended it. */
  | { readonly kind: 'denied'; readonly what: string; readonly usage: Usage }
  /** The caller ended the whole tree. */
  | { readonly kind: 'cancelled'; readonly usage: Usage }
  | { readonly kind: 'unstarted'; readonly reason: UnstartedReason; readonly errno: number; readonly message: string }
  /** The sandbox ended under it. */
  | { readonly kind: 'lost'; readonly message: string }

/** Exit code as shells give it: the command's own, 128+n for signal n, 124 for our deadline, 126 and 127 for a program that did not start, 125 for our failure. */
export const exitCode = (outcome: Outcome): number => {
  switch (outcome.kind) {
    case 'exited':
      return outcome.code
    case 'signalled':
      return 128 + outcome.signal
    case 'timeout':
      return 124
    case 'cancelled':
      return 130
    case 'limit':
      return 137
    case 'denied':
      return 159
    case 'unstarted':
      return outcome.reason === 'not_found' ? 127 : outcome.reason === 'no_cwd' || outcome.reason === 'no_user' ? 125 : 126
    case 'lost':
      return 125
  }
}
