// The small language in which the inputs, outputs and events of operations are written, once. A schema is a function of a builder, `s => s.object({ ... })`,
// so loading the table of operations loads no library: `validate.ts` runs it over zod, `fields.ts` over a recorder that gives flags and defaults.

declare const given: unique symbol
declare const accepted: unique symbol
declare const may: unique symbol

/** What a value must be: `T` as our code sees it, `I` as a caller may give it (without what has a default). Opaque; every builder makes its own. */
export type Schema<T, I = T> = { readonly [given]: T; readonly [accepted]: I }

/** A field that may be left out. */
export type Optional<T, I = T> = Schema<T, I> & { readonly [may]: 'absent' }

/** A field that a caller may leave out and that our code always sees. */
export type Defaulted<T, I = T> = Schema<T, I> & { readonly [may]: 'default' }

export type AnySchema = Schema<unknown, unknown>
export type FieldSchemas = { readonly [name: string]: AnySchema }

/** The type of a schema as our code sees it. */
export type Infer<S> = S extends { readonly [given]: infer T } ? T : never
/** The type of a schema as a caller may give it. */
export type InferInput<S> = S extends { readonly [accepted]: infer I } ? I : never

type Flat<T> = { [K in keyof T]: T[K] }
type IsOptional<S> = S extends { readonly [may]: 'absent' } ? true : false
type MayBeLeftOut<S> = S extends { readonly [may]: 'absent' | 'default' } ? true : false

export type ObjectOf<F extends FieldSchemas> = Flat<
  { readonly [K in keyof F as IsOptional<F[K]> extends true ? never : K]: Infer<F[K]> } & {
    readonly [K in keyof F as IsOptional<F[K]> extends true ? K : never]?: Infer<F[K]>
  }
>
export type ObjectInputOf<F extends FieldSchemas> = Flat<
  { readonly [K in keyof F as MayBeLeftOut<F[K]> extends true ? never : K]: InferInput<F[K]> } & {
    readonly [K in keyof F as MayBeLeftOut<F[K]> extends true ? K : never]?: InferInput<F[K]>
  }
>

/** What a number counts; tells the CLI how people write it ("30s", "512MiB"). */
export type Unit = 'ms' | 'us' | 'bytes'

export type NumberOptions = { readonly min?: number; readonly max?: number; readonly unit?: Unit }
/** `name`: under which it stands in an OpenAPI document. */
export type Named = { readonly name?: string; readonly doc?: string }

export type Build = {
  string(doc: string, options?: { readonly minLength?: number }): Schema<string>
  integer(doc: string, options?: NumberOptions): Schema<number>
  number(doc: string, options?: NumberOptions): Schema<number>
  boolean(doc: string): Schema<boolean>
  /** `Uint8Array` in process, base64 in JSON. */
  bytes(doc: string): Schema<Uint8Array>
  /** One of a few strings. */
  choice<const V extends string>(doc: string, values: readonly V[]): Schema<V>
  /** One string: tells the members of a union apart. */
  literal<const V extends string>(value: V): Schema<V>
  list<T, I>(of: Schema<T, I>, doc: string, options?: { readonly minLength?: number }): Schema<readonly T[], readonly I[]>
  record<T, I>(of: Schema<T, I>, doc: string): Schema<{ readonly [key: string]: T }, { readonly [key: string]: I }>
  object<F extends FieldSchemas>(fields: F, named?: Named): Schema<ObjectOf<F>, ObjectInputOf<F>>
  /** Objects told apart by the literal in the field `tag`. */
  union<const M extends readonly AnySchema[]>(tag: string, members: M, named?: Named): Schema<Infer<M[number]>, InferInput<M[number]>>
  /** The field may be left out. */
  optional<T, I>(of: Schema<T, I>): Optional<T, I>
  /** The field is there in process, as undefined where there is no value; in JSON it is left out. */
  maybe<T, I>(of: Schema<T, I>): Schema<T | undefined, I | undefined>
  /** A caller may leave the field out, which means `value`. */
  default<T, I>(of: Schema<T, I>, value: NoInfer<I>): Defaulted<T, I>
}

/** A schema as it is written down. */
export type Written<T = unknown, I = unknown> = (s: Build) => Schema<T, I>
