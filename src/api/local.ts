// The call in process: an operation is a function call. Input is filled with the table's defaults and not validated, since the compiler did that.

import type { Call } from '../model/call.ts'
import { beginLocal, type LocalOptions } from '../engine/begin.ts'
import { withDefaults } from '../protocol/fields.ts'
import type { Handlers } from '../protocol/handlers.ts'
import type { CallName, Events, EventsName, Given, Input, Name, Output, StreamName } from '../protocol/operation/index.ts'

/** What the client calls a transport; floors keep this file from naming it. */
export type LocalTransport = {
  call<N extends CallName>(name: N, input: Input<N>, call: Call): Promise<Output<N>>
  events<N extends EventsName>(name: N, input: Input<N>, call: Call): AsyncIterable<Events<N>>
  send<N extends StreamName>(name: N, input: Input<N>, bytes: AsyncIterable<Uint8Array>, call: Call): Promise<Output<N>>
}

/** A transport to an engine in this process. */
export const toLocalTransport = (handlers: Handlers): LocalTransport => ({
  call: (name, input, call) => (handlers[name] as unknown as Unary<typeof name>)(given(name, input), call),
  events: (name, input, call) => (handlers[name] as unknown as Streaming<typeof name>)(given(name, input), call),
  send: (name, input, bytes, call) => (handlers[name] as unknown as Taking<typeof name>)(given(name, input), bytes, call),
})

// `Handlers` says which of these a name has; the compiler cannot see that through a type parameter.
type Unary<N extends Name> = (input: Given<N>, call: Call) => Promise<Output<N>>
type Streaming<N extends EventsName> = (input: Given<N>, call: Call) => AsyncIterable<Events<N>>
type Taking<N extends Name> = (input: Given<N>, bytes: AsyncIterable<Uint8Array>, call: Call) => Promise<Output<N>>

const given = <N extends Name>(name: N, input: Input<N>): Given<N> => withDefaults(name, input as object) as Given<N>

export type ConnectOptions = LocalOptions & {
  /** A sandbox will be wanted: its launcher starts while the engine is still being loaded. */
  readonly soon?: boolean
}

/** A transport to an engine of its own in this process, with the state directory of the caller. Without `soon` nothing is started before it is needed. */
export const connectLocal = async ({ soon = false, ...options }: ConnectOptions = {}): Promise<LocalTransport> => {
  const beginning = beginLocal(options)
  const launcher = soon ? beginning.launch() : undefined
  // Who asks for a sandbox hears of it.
  launcher?.catch(() => {})
  const { createLocalEngine } = await import('../engine/local.ts')
  return toLocalTransport(createLocalEngine(options, beginning, launcher).handlers)
}
