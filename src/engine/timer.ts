// A timer for any span. Node's own fires at once when it is asked for more than 24.8 days (2^31 milliseconds).

const LONGEST_MS = 2 ** 31 - 1

/** Calls `act` after `ms`; does not keep the process running. Returns how to call it off. */
export const after = (ms: number, act: () => void): (() => void) => {
  let timer: NodeJS.Timeout
  const arm = (left: number): void => {
    timer = setTimeout(() => (left > LONGEST_MS ? arm(left - LONGEST_MS) : act()), Math.min(left, LONGEST_MS))
    timer.unref()
  }
  arm(ms)
  return () => clearTimeout(timer)
}
