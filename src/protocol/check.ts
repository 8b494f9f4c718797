// Does a value fit a shape? For callers in process whose compiler did not look: plain JavaScript, options put together at run time. Where input comes over a
// wire validate.ts does this with a library; here the first sandbox of a program should not wait fifty milliseconds for one.

import { SandlotError } from '../model/error.ts'
import { fieldsOf, type Field, type Shape } from './fields.ts'
import { nearest } from './nearest.ts'
import type { Name } from './operation/index.ts'

/** Throws `argument.invalid` or `argument.unknown`, naming the place in `input` and what it may be. */
export const checkInput = (name: Name, input: unknown): void => {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) throw invalid(name, 'an object', input)
  checkFields(input, fieldsOf(name), '')
}

const checkFields = (value: object, fields: readonly Field[], path: string): void => {
  for (const key of Object.keys(value)) {
    if (fields.some((field) => field.name === key)) continue
    const close = nearest(
      key,
      fields.map((field) => field.name),
    )
    throw new SandlotError('argument.unknown', `there is no ${join(path, key)}`, {
      hint: close === undefined ? `there is: ${fields.map((field) => field.name).join(', ')}` : `did you mean ${close}?`,
    })
  }
  for (const field of fields) {
    const given: unknown = (value as { readonly [key: string]: unknown })[field.name]
    if (given !== undefined) check(given, field.shape, join(path, field.name))
    else if (!field.optional) throw invalid(join(path, field.name), describe(field.shape), given)
  }
}

const check = (value: unknown, shape: Shape, path: string): void => {
  const refuse = (): never => {
    throw invalid(path, describe(shape), value)
  }
  switch (shape.type) {
    case 'string':
      if (typeof value !== 'string' || value.length < shape.minLength) refuse()
      return
    case 'integer':
    case 'number':
      if (typeof value !== 'number' || Number.isNaN(value) || (shape.type === 'integer' && !Number.isSafeInteger(value))) refuse()
      if ((value as number) < (shape.min ?? -Infinity) || (value as number) > (shape.max ?? Infinity)) refuse()
      return
    case 'boolean':
      if (typeof value !== 'boolean') refuse()
      return
    case 'bytes':
      if (!(value instanceof Uint8Array)) refuse()
      return
    case 'choice':
      if (typeof value !== 'string' || !shape.values.includes(value)) refuse()
      return
    case 'literal':
      if (value !== shape.value) refuse()
      return
    case 'list':
      if (!Array.isArray(value) || value.length < shape.minLength) return refuse()
      for (const [index, each] of value.entries()) check(each, shape.of, `${path}[${index}]`)
      return
    case 'record':
      if (typeof value !== 'object' || value === null || Array.isArray(value)) return refuse()
      for (const [key, each] of Object.entries(value)) check(each, shape.of, join(path, key))
      return
    case 'object':
      if (typeof value !== 'object' || value === null || Array.isArray(value)) return refuse()
      return checkFields(value, shape.fields, path)
    case 'union': {
      const tag: unknown = typeof value === 'object' && value !== null ? (value as { readonly [key: string]: unknown })[shape.tag] : undefined
      const member = shape.members.find(
        (each) =>
          each.type === 'object' && each.fields.some((field) => field.name === shape.tag && field.shape.type === 'literal' && field.shape.value === tag),
      )
      if (member === undefined) return refuse()
      return check(value, member, path)
    }
  }
}

const join = (path: string, key: string): string => (path === '' ? key : `${path}.${key}`)

const describe = (shape: Shape): string => {
  switch (shape.type) {
    case 'choice':
      return `one of ${shape.values.join(', ')}`
    case 'literal':
      return JSON.stringify(shape.value)
    case 'integer':
    case 'number': {
      const what = shape.type === 'integer' ? 'a whole number' : 'a number'
      const unit = shape.unit === undefined ? '' : shape.unit === 'bytes' ? ' of bytes' : shape.unit === 'ms' ? ' of milliseconds' : ' of microseconds'
      return `${what}${unit}${shape.min === undefined ? '' : `, at least ${shape.min}`}${shape.max === undefined ? '' : `, at most ${shape.max}`}`
    }
    case 'list':
      return shape.minLength > 0 ? 'a list that is not empty' : 'a list'
    case 'string':
      return shape.minLength > 0 ? 'a text that is not empty' : 'a text'
    case 'bytes':
      return 'a Uint8Array'
    case 'boolean':
      return 'true or false'
    case 'record':
    case 'object':
      return 'an object'
    case 'union':
      return `an object with a known ${shape.tag}`
  }
}

const invalid = (path: string, wanted: string, value: unknown): SandlotError => {
  const given =
    value === undefined
      ? 'nothing'
      : typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' || value === null
        ? JSON.stringify(value)
        : Array.isArray(value)
          ? 'a list'
          : `a ${typeof value}`
  return new SandlotError('argument.invalid', `${path} must be ${wanted}, not ${given}`, { hint: `give ${wanted}` })
}
