// Sampling and statistics. Absolute times drift from minute to minute, by a quarter on a small machine, so what is compared is measured in turns.

export type Summary = { readonly count: number; readonly min: number; readonly p50: number; readonly p95: number }

/** The value below which `share` of them lie, e.g. `quantile(values, 0.5)` for the median; NaN of none. */
export const quantile = (values: readonly number[], share: number): number => {
  const sorted = values.toSorted((one, other) => one - other)
  const at = (sorted.length - 1) * share
  const [low, high] = [sorted[Math.floor(at)] ?? NaN, sorted[Math.ceil(at)] ?? NaN]
  return low + (high - low) * (at - Math.floor(at))
}

export const median = (values: readonly number[]): number => quantile(values, 0.5)

export const summary = (values: readonly number[]): Summary => ({
  count: values.length,
  min: quantile(values, 0),
  p50: median(values),
  p95: quantile(values, 0.95),
})

/** Does `count` runs back to back, each after `pauseMs`, and gives the milliseconds of each. */
export type Side = (count: number, pauseMs: number) => Promise<readonly number[]>

export type Turns = {
  readonly rounds: number
  /** Runs of one side before the next side has its turn. */
  readonly block: number
  /** Milliseconds of rest before each run, default none. */
  readonly pauseMs?: number
}

/** Lets the sides take turns, a round at a time and each round beginning with another side, so that drift and neighbours hit all of them alike. */
export const inTurns = async <Name extends string>(sides: Readonly<Record<Name, Side>>, turns: Turns): Promise<Record<Name, number[]>> => {
  const names = Object.keys(sides) as Name[]
  const samples = Object.fromEntries(names.map((name) => [name, [] as number[]])) as Record<Name, number[]>
  for (let round = 0; round < turns.rounds; round++) {
    for (let turn = 0; turn < names.length; turn++) {
      const name = names[(round + turn) % names.length]!
      samples[name].push(...(await sides[name](turns.block, turns.pauseMs ?? 0)))
    }
  }
  return samples
}

/** Median of `one[i] - other[i]`; for samples taken in turns of one run each. */
export const medianDifference = (one: readonly number[], other: readonly number[]): number => {
  if (one.length !== other.length) throw new Error(`pairs of ${one.length} and ${other.length} samples`)
  return median(one.map((value, index) => value - other[index]!))
}

/** A side made of a function that does one run; the function is timed from call to resolution, `after` is not timed. */
export const timed =
  <Made>(run: () => Promise<Made>, after?: (made: Made) => Promise<unknown>): Side =>
  async (count, pauseMs) => {
    const times: number[] = []
    for (let index = 0; index < count; index++) {
      if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs))
      const start = performance.now()
      const made = await run()
      times.push(performance.now() - start)
      await after?.(made)
    }
    return times
  }
