// What happens to signals while a command runs: the first one is passed on to all that came of it, the second ends it, the third leaves at once.

const numbers = { SIGHUP: 1, SIGINT: 2, SIGQUIT: 3, SIGTERM: 15 } as const

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
  for (const [name, number] of Object.entries(numbers)) {
    process.on(name, () => {
      last = number
      count++
      if (target === undefined || count > 2) process.exit(128 + number)
      if (count === 1) target.signal(number)
      else target.end()
    })
  }
  return {
    get last() {
      return last
    },
    to: (next) => {
      target = next
    },
  }
}
