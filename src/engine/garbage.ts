// Output passes through as buffers that are dropped at once. V8 counts their bytes beside its heap and only looks for dropped ones when some 64 MiB have come
// together, so a long output would make this process that much larger. So the young generation, where they all are, is swept after every few MiB: half a
// millisecond each time.

type Collect = (options: { type: 'minor' }) => void

let collect: Collect | undefined

/** Sweeps the young generation. */
export const sweepYoung = (): void => {
  collect ??= collector()
  collect({ type: 'minor' })
}

// The only door to a collection of the young generation alone is the `gc` that V8 gives to a context made while this flag is set.
const collector = (): Collect => {
  const v8 = process.getBuiltinModule('node:v8')
  v8.setFlagsFromString('--expose-gc')
  const gc = process.getBuiltinModule('node:vm').runInNewContext('gc') as Collect
  v8.setFlagsFromString('--no-expose-gc')
  return gc
}
