// What happens to signals while a command runs. One that asks to end is passed on to all that came of it; the second ends it, the third leaves at once.
// Those that only tell something are passed on each time. Stopping us stops the command, and going on lets it go on.

const ending = { SIGHUP: 1, SIGINT: 2, SIGQUIT: 3, SIGTERM: 15 } as const
const telling = { SIGUSR1: 10, SIGUSR2: 12, SIGALRM: 14, SIGCONT: 18 } as const
const SIGSTOP = 19

export type Target = {
  /** Passes a signal on. */
  signal(number: number): void
  /** Ends everything. */
  end(): void
}

export type Signals = {
  /** The last one that arrived. */
  readonly last: number | undefined
  /** From now on they go there. Before, the first one leaves at once: nothing has been started. */
  to(target: Target): void
}

export const catchSignals = (): Signals => {
  let last: number | undefined
  let count = 0
  let target: Target | undefined
  for (const [name, number] of Object.entries(ending)) {
    process.on(name, () => {
      last = number
      count++
      if (target === undefined || count > 2) process.exit(128 + number)
      if (count === 1) target.signal(number)
      else target.end()
    })
  }
  for (const [name, number] of Object.entries(telling)) process.on(name, () => target?.signal(number))
  process.on('SIGTSTP', () => {
    target?.signal(SIGSTOP)
    // A moment for the frame to leave before we stop ourselves.
    setTimeout(() => process.kill(process.pid, 'SIGSTOP'), 5)
  })
  return {
    get last() {
      return last
    },
    to: (next) => {
      target = next
    },
  }
}
