// Schemas over zod: what comes from outside is validated here, and JSON Schema is made here. Loaded only where input comes from outside.

import * as z from 'zod'
import { refusal } from './refusal.ts'
import type { AnySchema, Build, Infer, NumberOptions, Schema, Unit, Written } from './schema.ts'

/**
 * The JSON of a caller becomes what a schema describes: bytes from base64, defaults filled in.
 * Throws `argument.invalid`, or `argument.unknown` for a field that is not there, naming the path and what it may be.
 */
export const decodeInput = <W extends Written>(written: W, json: unknown): Infer<ReturnType<W>> => decode(strict, written, json)

/** The JSON of an answer or event; fields that a later version added are left out. Throws `argument.invalid`. */
export const decodeAnswer = <W extends Written>(written: W, json: unknown): Infer<ReturnType<W>> => decode(lenient, written, json)

/** An answer or event as JSON has it. */
export const encode = <W extends Written>(written: W, value: Infer<ReturnType<W>>): unknown => z.encode(strict.schemaOf(written), value)

/** JSON Schema (2020-12) of what crosses the wire. What has a name is put into `components` and referred to. */
export const jsonSchemaOf = (written: Written, use: 'input' | 'answer', components: Map<string, object>): object => {
  const builder = use === 'input' ? strict : lenient
  // `io: input` is the wire's side of a codec for both: what decoding takes is what encoding gives.
  const made = z.toJSONSchema(builder.schemaOf(written), { io: 'input', metadata: builder.registry }) as {
    $defs?: { [name: string]: object }
    $schema?: unknown
    id?: unknown
  }
  const { $schema: _, $defs = {}, ...schema } = JSON.parse(JSON.stringify(made), referInComponents) as typeof made
  for (const [name, definition] of Object.entries($defs)) components.set(name, withoutId(definition))
  if (typeof schema.id !== 'string') return schema
  components.set(schema.id, withoutId(schema))
  return { $ref: `#/components/schemas/${schema.id}` }
}

const referInComponents = (key: string, value: unknown): unknown =>
  key === '$ref' && typeof value === 'string' ? value.replace('#/$defs/', '#/components/schemas/') : value

const withoutId = ({ id: _, ...schema }: { id?: unknown }): object => schema

const decode = <W extends Written>(builder: ZodBuilder, written: W, json: unknown): Infer<ReturnType<W>> => {
  const result = z.safeDecode(builder.schemaOf(written), json as never)
  if (!result.success) throw refusal(written, result.error.issues[0]!, json)
  return result.data as Infer<ReturnType<W>>
}

type Meta = { id?: string; description?: string }
type ZodBuilder = { readonly registry: z.core.$ZodRegistry<Meta>; schemaOf(written: Written): z.ZodType }

const units: { readonly [U in Unit]: string } = { ms: 'milliseconds', us: 'microseconds', bytes: 'bytes' }

// Schemas are opaque outside of a builder: only this file knows that these are zod's.
const toZod = (schema: AnySchema): z.ZodType => schema as unknown as z.ZodType
const fromZod = (schema: z.ZodType): never => schema as never

const createBuilder = (objectOf: (fields: z.core.$ZodLooseShape) => z.ZodObject): ZodBuilder => {
  // Documentation is kept in a registry of our own: zod's global one is shared with whoever else uses zod in this process.
  const registry = z.registry<Meta>()
  // One schema a name, however many operations use it, so that it is one component of an OpenAPI document.
  const named = new Map<string, z.ZodType>()
  const built = new WeakMap<Written, z.ZodType>()

  const documented = (schema: z.ZodType, doc: string): never => {
    registry.add(schema, { description: doc })
    return fromZod(schema)
  }

  const nameable = (name: string | undefined, doc: string | undefined, make: () => z.ZodType): never => {
    const known = name === undefined ? undefined : named.get(name)
    if (known !== undefined) return fromZod(known)
    const schema = make()
    registry.add(schema, { ...(name !== undefined && { id: name }), ...(doc !== undefined && { description: doc }) })
    if (name !== undefined) named.set(name, schema)
    return fromZod(schema)
  }

  const numeric = (schema: z.ZodNumber, doc: string, { min, max, unit }: NumberOptions = {}): Schema<number> => {
    let out = schema
    if (min !== undefined) out = out.min(min)
    if (max !== undefined) out = out.max(max)
    return documented(out, unit === undefined ? doc : `${doc} (${units[unit]})`)
  }

  const bytesOf = (): z.ZodType =>
    z.codec(z.base64(), z.instanceof(Uint8Array), { decode: (text) => z.util.base64ToUint8Array(text), encode: (bytes) => z.util.uint8ArrayToBase64(bytes) })

  const build: Build = {
    string: (doc, { minLength } = {}) => documented(minLength === undefined ? z.string() : z.string().min(minLength), doc),
    integer: (doc, options) => numeric(z.int(), doc, options),
    number: (doc, options) => numeric(z.number(), doc, options),
    boolean: (doc) => documented(z.boolean(), doc),
    bytes: (doc) => documented(bytesOf(), doc),
    choice: (doc, values) => documented(z.enum([...values]), doc),
    literal: (value) => fromZod(z.literal(value)),
    list: (of, doc, { minLength } = {}) => documented(minLength === undefined ? z.array(toZod(of)) : z.array(toZod(of)).min(minLength), doc),
    record: (of, doc) => documented(z.record(z.string(), toZod(of)), doc),
    object: (fields, { name, doc } = {}) =>
      nameable(name, doc, () => objectOf(Object.fromEntries(Object.entries(fields).map(([key, field]) => [key, toZod(field)])))),
    union: (tag, members, { name, doc } = {}) => nameable(name, doc, () => z.discriminatedUnion(tag, members.map(toZod) as never)),
    optional: (of) => fromZod(z.exactOptional(toZod(of))),
    maybe: (of) => fromZod(z.optional(toZod(of))),
    default: (of, value) => fromZod(z.prefault(toZod(of), value)),
  }

  return {
    registry,
    schemaOf: (written) => {
      let schema = built.get(written)
      if (schema === undefined) {
        schema = toZod(written(build))
        built.set(written, schema)
      }
      return schema
    },
  }
}

const strict = createBuilder((fields) => z.strictObject(fields))
const lenient = createBuilder((fields) => z.object(fields))
