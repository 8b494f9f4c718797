// Flags from a table: what they are called, what they take, where they go. Types, docs and defaults come from the operation's fields; the help text and the
// completions are made of the same table. What only some flags or a mistake need is loaded then: most calls of `run` have neither.

import { SandlotError } from '../model/error.ts'
import { fieldsOf, type Field } from '../protocol/fields.ts'
import { operations, type Name } from '../protocol/operation/index.ts'

/** `switch`: there or not. `list`, `pairs`: may be given several times. */
export type Kind = 'switch' | 'text' | 'list' | 'pairs' | 'duration' | 'bytes' | 'integer' | 'choice'

export type Flag = {
  /** The field of an operation's input that it fills, `exec.start.deadlineMs`; left out where it is the CLI's alone. */
  readonly field?: string
  /** One letter. */
  readonly short?: string
  /** What its value is called in the help text. */
  readonly value?: string
  /** Left out: the field's. */
  readonly doc?: string
  /** Left out: what the field's type asks for. */
  readonly kind?: Kind
  /** Left out: those of the field. */
  readonly values?: readonly string[]
  /** Heading in the help text. */
  readonly group?: string
  /** What a shell completes its value with; left out: nothing. */
  readonly complete?: 'file' | 'directory' | 'variable'
}

export type FlagTable = { readonly [name: string]: Flag }

/** What every verb has. */
export const commonFlags = {
  json: { kind: 'switch', doc: 'answer as JSON, errors too' },
  help: { kind: 'switch', short: 'h', doc: 'print this' },
} as const satisfies FlagTable

export type CommonFlags = typeof commonFlags

/** A flag with all that its field says. */
export type KnownFlag = Flag & {
  readonly name: string
  readonly kind: Kind
  readonly doc: string
  readonly values: readonly string[]
  readonly min: number
  readonly default: unknown
}

export type Parsed<T extends FlagTable> = {
  has(name: keyof T): boolean
  /** Of a `switch`: true, false as `--no-NAME`, undefined where it was not given. */
  on(name: keyof T): boolean | undefined
  text(name: keyof T): string | undefined
  /** Of `duration` (milliseconds), `bytes` and `integer`. */
  number(name: keyof T): number | undefined
  list(name: keyof T): readonly string[]
  readonly rest: readonly string[]
}

export const knownFlag = (name: string, flag: Flag): KnownFlag => {
  const field = flag.field === undefined ? undefined : fieldAt(flag.field)
  const kind = flag.kind ?? (field === undefined ? 'switch' : kindOf(field))
  const doc = (flag.doc ?? field?.doc ?? '').replaceAll('`', '')
  return {
    ...flag,
    name,
    kind,
    // What is on by itself can only be wished away: it is spelled --no-NAME.
    doc: kind === 'switch' && field?.default === true ? `do not ${doc}` : doc,
    values: flag.values ?? (field?.shape.type === 'choice' ? field.shape.values : []),
    min: field !== undefined && 'min' in field.shape ? (field.shape.min ?? 0) : 0,
    default: field?.default,
  }
}

/** The field named by `exec.start.deadlineMs`. Throws `internal` for a name that is not there. */
export const fieldAt = (path: string): Field => {
  const at = path.lastIndexOf('.')
  const operation = path.slice(0, at)
  const found = Object.hasOwn(operations, operation) ? fieldsOf(operation as Name).find((field) => field.name === path.slice(at + 1)) : undefined
  if (found === undefined) throw new SandlotError('internal', `no field ${path}`)
  return found
}

const kindOf = (field: Field): Kind => {
  switch (field.shape.type) {
    case 'boolean':
      return 'switch'
    case 'integer':
    case 'number':
      return field.shape.unit === 'ms' ? 'duration' : field.shape.unit === 'bytes' ? 'bytes' : 'integer'
    case 'choice':
      return 'choice'
    case 'list':
      return 'list'
    case 'record':
      return 'pairs'
    default:
      return 'text'
  }
}

/**
 * Takes `argv` apart. With `command` the first word that is no flag, or what follows `--`, begins a command whose flags are its own; without it, words and
 * flags may be mixed. Throws `argument.unknown`, naming the nearest flag, and `argument.invalid`.
 */
export const parseFlags = async <const T extends FlagTable>(
  table: T,
  argv: readonly string[],
  options: { readonly command?: boolean; readonly usage: string },
): Promise<Parsed<T>> => {
  const values = new Map<string, (string | number | boolean)[]>()
  const rest: string[] = []
  const refuse = (message: string, hint: string): never => {
    throw new SandlotError('argument.invalid', message, { hint })
  }

  let at = 0
  const take = async (flag: KnownFlag, spelled: string, given: string | undefined): Promise<void> => {
    let value = given
    if (value === undefined) {
      const next = argv[at]
      const flagLike = next !== undefined && (next === '--' || (next.startsWith('--') && Object.hasOwn(table, nameIn(next))))
      if (next === undefined || flagLike) refuse(`${spelled} needs a value`, `${spelled} ${flag.value ?? 'VALUE'}: ${flag.doc}`)
      value = next!
      at++
    }
    const list = values.get(flag.name)
    if (list === undefined) values.set(flag.name, [await converted(flag, spelled, value)])
    else if (flag.kind === 'list' || flag.kind === 'pairs') list.push(await converted(flag, spelled, value))
    else refuse(`${spelled} is given twice`, 'give it once')
  }

  while (at < argv.length) {
    const word = argv[at++]!
    if (word === '--') {
      rest.push(...argv.slice(at))
      break
    }
    if (word.startsWith('--')) {
      const equals = word.indexOf('=')
      const name = nameIn(word)
      const given = equals < 0 ? undefined : word.slice(equals + 1)
      const negated = name.startsWith('no-') ? name.slice(3) : undefined
      if (Object.hasOwn(table, name)) {
        const flag = knownFlag(name, table[name]!)
        if (flag.kind !== 'switch') await take(flag, `--${name}`, given)
        else if (given === undefined) values.set(name, [true])
        else refuse(`--${name} takes no value`, `write --${name} alone`)
      } else if (negated !== undefined && Object.hasOwn(table, negated) && knownFlag(negated, table[negated]!).kind === 'switch') {
        if (given !== undefined) refuse(`--${name} takes no value`, `write --${name} alone`)
        values.set(negated, [false])
      } else await unknown(table, `--${name}`, options.usage)
    } else if (word.startsWith('-') && word !== '-') {
      const found = Object.entries(table).find(([, flag]) => flag.short === word[1])
      if (found === undefined) await unknown(table, word, options.usage)
      const flag = knownFlag(...found!)
      const given = word.slice(2).replace(/^=/, '')
      if (flag.kind !== 'switch') await take(flag, word.slice(0, 2), word.length > 2 ? given : undefined)
      else if (word.length === 2) values.set(flag.name, [true])
      else await unknown(table, word, options.usage)
    } else {
      rest.push(word)
      if (options.command === true) {
        rest.push(...argv.slice(at))
        break
      }
    }
  }

  const first = (name: keyof T): string | number | boolean | undefined => values.get(String(name))?.[0]
  return {
    has: (name) => values.has(String(name)),
    on: (name) => first(name) as boolean | undefined,
    text: (name) => first(name) as string | undefined,
    number: (name) => first(name) as number | undefined,
    list: (name) => (values.get(String(name)) ?? []) as string[],
    rest,
  }
}

const nameIn = (word: string): string => {
  const equals = word.indexOf('=')
  return equals < 0 ? word.slice(2) : word.slice(2, equals)
}

const converted = async (flag: KnownFlag, spelled: string, value: string): Promise<string | number> => {
  try {
    // An empty value is a variable of a script that was not set; as a path it would mean the current directory.
    if (value === '') throw new SandlotError('argument.invalid', 'its value is empty', { hint: `${spelled} ${flag.value ?? 'VALUE'}: ${flag.doc}` })
    switch (flag.kind) {
      case 'duration': {
        const { formatDuration, parseDuration } = await import('../model/unit.ts')
        return atLeast(flag.min, parseDuration(value), formatDuration)
      }
      case 'bytes': {
        const { formatBytes, parseBytes } = await import('../model/unit.ts')
        return atLeast(flag.min, parseBytes(value), formatBytes)
      }
      case 'integer':
        if (!/^\d{1,15}$/.test(value)) throw new SandlotError('argument.invalid', `${JSON.stringify(value)} is no whole number`, { hint: flag.doc })
        return Number(value)
      case 'choice':
        if (!flag.values.includes(value))
          throw new SandlotError('argument.invalid', `${JSON.stringify(value)} is none of ${flag.values.join(', ')}`, { hint: flag.doc })
        return value
      default:
        return value
    }
  } catch (error) {
    if (error instanceof SandlotError) throw new SandlotError(error.code, `${spelled}: ${error.message}`, { hint: error.hint })
    throw error
  }
}

const atLeast = (min: number, value: number, format: (value: number) => string): number => {
  if (value >= min) return value
  throw new SandlotError('argument.invalid', `${format(value)} is too little`, { hint: `at least ${format(min)}` })
}

const unknown = async (table: FlagTable, spelled: string, usage: string): Promise<never> => {
  const { nearest } = await import('../protocol/nearest.ts')
  const names = Object.entries(table).flatMap(([name, flag]) =>
    knownFlag(name, flag).kind === 'switch' && flag.field !== undefined ? [name, `no-${name}`] : [name],
  )
  const meant = spelled.startsWith('--') ? nearest(spelled.slice(2), names) : undefined
  throw new SandlotError('argument.unknown', `there is no flag ${spelled}`, { hint: meant === undefined ? usage : `did you mean --${meant}?` })
}
