// The table of operations. In-process calls, CLI flags, the typed client and the OpenAPI document are maps over it.

import type { Infer, InferInput } from '../schema.ts'
import { execEnd, execGet, execInput, execList, execOutput, execSignal, execStart, execWait } from './exec.ts'
import type { Operation } from './operation.ts'
import { sandboxChanges, sandboxCreate, sandboxDestroy, sandboxGet, sandboxList } from './sandbox.ts'
import { systemDoctor, systemVersion } from './system.ts'

export const operations = {
  'sandbox.create': sandboxCreate,
  'sandbox.get': sandboxGet,
  'sandbox.list': sandboxList,
  'sandbox.destroy': sandboxDestroy,
  'sandbox.changes': sandboxChanges,
  'exec.start': execStart,
  'exec.get': execGet,
  'exec.list': execList,
  'exec.wait': execWait,
  'exec.output': execOutput,
  'exec.input': execInput,
  'exec.signal': execSignal,
  'exec.end': execEnd,
  'system.doctor': systemDoctor,
  'system.version': systemVersion,
} as const satisfies { readonly [N in string]: Operation & { readonly name: N } }

type Table = typeof operations

export type Name = keyof Table
/** Operations that yield events. */
export type EventsName = { [N in Name]: Table[N] extends { readonly events: unknown } ? N : never }[Name]
/** Operations that take bytes beside their input. */
export type StreamName = { [N in Name]: Table[N] extends { readonly stream: unknown } ? N : never }[Name]
/** Operations that answer once. */
export type CallName = Exclude<Name, EventsName | StreamName>

type Result<F> = F extends (...args: never) => infer R ? R : never

/** What a caller gives. */
export type Input<N extends Name> = InferInput<Result<Table[N]['input']>>
/** What a handler sees: the defaults are filled in. */
export type Given<N extends Name> = Infer<Result<Table[N]['input']>>
export type Output<N extends Name> = Table[N] extends { readonly output: infer F } ? Infer<Result<F>> : void
export type Events<N extends EventsName> = Table[N] extends { readonly events: infer F } ? Infer<Result<F>> : never
