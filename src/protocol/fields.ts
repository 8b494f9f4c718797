// The plain shape of a schema: what the CLI makes flags of, and where a call in process gets its defaults. Loads no library.

import type { Code } from '../model/error.ts'
import type { Name } from './operation/index.ts'
import { operations } from './operation/index.ts'
import type { AnySchema, Build, Unit, Written } from './schema.ts'

export type Shape =
  | { readonly type: 'string'; readonly doc: string; readonly minLength: number }
  | {
      readonly type: 'integer' | 'number'
      readonly doc: string
      readonly min: number | undefined
      readonly max: number | undefined
      readonly unit: Unit | undefined
    }
  | { readonly type: 'boolean'; readonly doc: string }
  | { readonly type: 'bytes'; readonly doc: string }
  | { readonly type: 'choice'; readonly doc: string; readonly values: readonly string[] }
  | { readonly type: 'literal'; readonly doc: string; readonly value: string }
  | { readonly type: 'list'; readonly doc: string; readonly of: Shape; readonly minLength: number }
  | { readonly type: 'record'; readonly doc: string; readonly of: Shape }
  | { readonly type: 'object'; readonly doc: string; readonly name: string | undefined; readonly fields: readonly Field[] }
  | { readonly type: 'union'; readonly doc: string; readonly name: string | undefined; readonly tag: string; readonly members: readonly Shape[] }

/** One field of an object. `default` is undefined where there is none. */
export type Field = { readonly name: string; readonly doc: string; readonly optional: boolean; readonly default: unknown; readonly shape: Shape }

type Recorded = { readonly shape: Shape; readonly optional: boolean; readonly default: unknown }

/** The shape of a schema. */
export const shapeOf = (written: Written): Shape => plain(written(recorder)).shape

/** The fields of an operation's input, in the order of the table. */
export const fieldsOf = (name: Name): readonly Field[] => {
  const shape = shapeOf(operations[name].input)
  return shape.type === 'object' ? shape.fields : []
}

/** `input` with what it left out and has a default. Only the uppermost fields have any. */
export const withDefaults = (name: Name, input: object): object => ({ ...defaultsOf(name), ...input })

/** What every operation may fail with. */
export const commonErrors = ['argument.invalid', 'argument.unknown', 'internal'] as const satisfies readonly Code[]

const known = new Map<Name, { readonly [key: string]: unknown }>()

const defaultsOf = (name: Name): { readonly [key: string]: unknown } => {
  let found = known.get(name)
  if (found === undefined) {
    found = Object.fromEntries(fieldsOf(name).flatMap((field) => (field.default === undefined ? [] : [[field.name, field.default]])))
    known.set(name, found)
  }
  return found
}

const plain = (schema: AnySchema): Recorded => schema as unknown as Recorded
const record = (shape: Shape, optional = false, value?: unknown): never => ({ shape, optional, default: value }) as never

const numeric =
  (type: 'integer' | 'number'): Build['integer'] =>
  (doc, { min, max, unit } = {}) =>
    record({ type, doc, min, max, unit })

const recorder: Build = {
  string: (doc, { minLength = 0 } = {}) => record({ type: 'string', doc, minLength }),
  integer: numeric('integer'),
  number: numeric('number'),
  boolean: (doc) => record({ type: 'boolean', doc }),
  bytes: (doc) => record({ type: 'bytes', doc }),
  choice: (doc, values) => record({ type: 'choice', doc, values }),
  literal: (value) => record({ type: 'literal', doc: '', value }),
  list: (of, doc, { minLength = 0 } = {}) => record({ type: 'list', doc, of: plain(of).shape, minLength }),
  record: (of, doc) => record({ type: 'record', doc, of: plain(of).shape }),
  object: (fields, named) =>
    record({
      type: 'object',
      doc: named?.doc ?? '',
      name: named?.name,
      fields: Object.entries(fields).map(([name, schema]) => {
        const { shape, optional, default: value } = plain(schema)
        return { name, doc: shape.doc, optional, default: value, shape }
      }),
    }),
  union: (tag, members, named) =>
    record({ type: 'union', doc: named?.doc ?? '', name: named?.name, tag, members: members.map((member) => plain(member).shape) }),
  optional: (of) => record(plain(of).shape, true),
  maybe: (of) => record(plain(of).shape, true),
  default: (of, value) => record(plain(of).shape, true, value),
}
