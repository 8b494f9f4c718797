// Says what is wrong with a value that a schema does not take: where, what was found, what it may be.

import { SandlotError } from '../model/error.ts'
import { shapeOf, type Shape } from './fields.ts'
import { nearest } from './nearest.ts'
import type { Written } from './schema.ts'

/** What a validator found: where, and the names of fields that should not be there. */
export type Issue = { readonly path: readonly PropertyKey[]; readonly code?: string | undefined; readonly keys?: readonly string[]; readonly message: string }

export const refusal = (written: Written, issue: Issue, value: unknown): SandlotError => {
  const found = lookup(shapeOf(written), issue.path, value)
  const place = pathOf(issue.path)
  const [unknown] = issue.keys ?? []
  if (issue.code === 'unrecognized_keys' && unknown !== undefined) {
    const names = found.shape?.type === 'object' ? found.shape.fields.map((field) => field.name) : []
    const meant = nearest(unknown, names)
    return new SandlotError('argument.unknown', `${place === '' ? 'the input' : place} has no field ${excerpt(unknown)}`, {
      hint: meant === undefined ? `it may have ${names.length === 0 ? 'none' : names.join(', ')}` : `did you mean ${meant}?`,
      detail: { path: [...issue.path, unknown].join('.') },
    })
  }
  const wants = found.shape === undefined ? issue.message : mayBe(found.shape)
  const doc = found.shape?.doc ?? ''
  return new SandlotError(
    'argument.invalid',
    `${place === '' ? 'the input' : place} ${found.value === undefined ? 'is missing' : `is ${excerpt(found.value)}`}; it must be ${wants}`,
    {
      ...(doc !== '' && { hint: doc }),
      detail: { path: issue.path.join('.') },
    },
  )
}

type Found = { readonly shape: Shape | undefined; readonly value: unknown }

const lookup = (shape: Shape, path: readonly PropertyKey[], value: unknown): Found => {
  let at: Found = { shape, value }
  for (const step of path) at = { shape: inner(at.shape, step, at.value), value: property(at.value, step) }
  return at
}

const property = (value: unknown, key: PropertyKey): unknown =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, key) ? (value as never)[key] : undefined

const inner = (shape: Shape | undefined, step: PropertyKey, value: unknown): Shape | undefined => {
  switch (shape?.type) {
    case 'list':
    case 'record':
      return shape.of
    case 'object':
      return shape.fields.find((field) => field.name === step)?.shape
    case 'union': {
      if (step === shape.tag) return { type: 'choice', doc: shape.doc, values: shape.members.map((member) => tagOf(member, shape.tag)) }
      return inner(
        shape.members.find((member) => tagOf(member, shape.tag) === property(value, shape.tag)),
        step,
        value,
      )
    }
    default:
      return undefined
  }
}

const tagOf = (member: Shape, tag: string): string => {
  const shape = member.type === 'object' ? member.fields.find((field) => field.name === tag)?.shape : undefined
  return shape?.type === 'literal' ? shape.value : ''
}

const mayBe = (shape: Shape): string => {
  switch (shape.type) {
    case 'string':
      return shape.minLength > 0 ? 'a string that is not empty' : 'a string'
    case 'integer':
    case 'number': {
      const what = shape.type === 'integer' ? 'a whole number' : 'a number'
      const unit = shape.unit === undefined ? '' : shape.unit === 'bytes' ? ' of bytes' : shape.unit === 'ms' ? ' of milliseconds' : ' of microseconds'
      if (shape.min !== undefined && shape.max !== undefined) return `${what}${unit} from ${shape.min} to ${shape.max}`
      return shape.min !== undefined ? `${what}${unit}, at least ${shape.min}` : shape.max !== undefined ? `${what}${unit}, at most ${shape.max}` : what + unit
    }
    case 'boolean':
      return 'true or false'
    case 'bytes':
      return 'bytes in base64'
    case 'choice':
      return shape.values.length === 1 ? shape.values[0]! : `one of ${shape.values.join(', ')}`
    case 'literal':
      return shape.value
    case 'list':
      return shape.minLength > 0 ? 'a list that is not empty' : 'a list'
    case 'record':
      return 'an object of names and values'
    case 'object':
      return shape.fields.length === 0
        ? 'an object'
        : `an object with ${shape.fields.map((field) => (field.optional ? `${field.name}?` : field.name)).join(', ')}`
    case 'union':
      return `an object whose ${shape.tag} is one of ${shape.members.map((member) => tagOf(member, shape.tag)).join(', ')}`
  }
}

const pathOf = (path: readonly PropertyKey[]): string =>
  path
    .map((step, at) =>
      typeof step === 'number'
        ? `[${step}]`
        : /^[A-Za-z_]\w*$/.test(String(step))
          ? `${at === 0 ? '' : '.'}${String(step)}`
          : `[${JSON.stringify(String(step))}]`,
    )
    .join('')

const excerpt = (value: unknown): string => {
  if (typeof value === 'object' && value !== null) return !Array.isArray(value) ? 'an object' : value.length === 0 ? 'an empty list' : 'a list'
  const text = JSON.stringify(value) ?? typeof value
  return text.length > 60 ? `${text.slice(0, 57)}...` : text
}
