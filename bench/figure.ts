// One form for every bench: a figure is a name, a value, a unit and a goal, printed as one line or as data.

export type Goal = { readonly atMost: number } | { readonly atLeast: number }

export type Figure = {
  readonly name: string
  /** undefined = not measured; `note` says why. */
  readonly value: number | undefined
  readonly unit: string
  /** Without one the figure is printed and not judged. */
  readonly goal?: Goal
  readonly note?: string
}

/** What a bench yields: figures, or one sentence why this run must not be judged. */
export type Finding = Figure | { readonly refused: string }

export type Options = {
  /** Multiplies the number of samples; 1 is what a promise is judged by. */
  readonly effort: number
}

export type Bench = {
  readonly doc: string
  run(options: Options): AsyncIterable<Finding>
}

export type State = 'ok' | 'MISSED' | 'not measured' | 'printed'

export const isFigure = (finding: Finding): finding is Figure => 'name' in finding

/** Whether a figure meets its goal. A goal without a value is not met by saying nothing: `not measured`. */
export const state = ({ value, goal }: Figure): State => {
  if (value === undefined || Number.isNaN(value)) return 'not measured'
  if (goal === undefined) return 'printed'
  return ('atMost' in goal ? value <= goal.atMost : value >= goal.atLeast) ? 'ok' : 'MISSED'
}

const number = (value: number): string => (Number.isInteger(value) ? String(value) : value.toFixed(Math.abs(value) < 10 ? 2 : 1))

/** `exec / floor   1.87 x   <= 2.20   ok` */
export const line = (figure: Figure): string => {
  const { name, value, unit, goal, note } = figure
  const how = state(figure)
  if (how === 'not measured') return `${name.padEnd(50)} not measured: ${note ?? 'no value'}`
  const wanted = goal === undefined ? '' : 'atMost' in goal ? `<= ${goal.atMost}` : `>= ${goal.atLeast}`
  const measured = `${number(value!).padStart(10)} ${unit}`
  return `${name.padEnd(50)} ${measured.padEnd(16)} ${wanted.padEnd(10)} ${how === 'printed' ? '' : how}${note === undefined ? '' : `  (${note})`}`.trimEnd()
}
