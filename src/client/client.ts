// The typed client: `client.exec.start({ ... })` for each row of the table of operations, over any transport. Safe for a browser.

import type { Call } from '../model/call.ts'
import { operations, type CallName, type Events, type EventsName, type Input, type Name, type Output, type StreamName } from '../protocol/operation/index.ts'
import type { Operation } from '../protocol/operation/operation.ts'
import type { Transport } from './transport.ts'

export type CallOptions = {
  /** Gives up when aborted. */
  readonly signal?: AbortSignal
  /** Gives up after this many milliseconds; left out: never. */
  readonly timeoutMs?: number
}

type Method<N extends Name> = N extends EventsName
  ? (input: Input<N>, options?: CallOptions) => AsyncIterable<Events<N>>
  : N extends StreamName
    ? (input: Input<N>, bytes: AsyncIterable<Uint8Array>, options?: CallOptions) => Promise<Output<N>>
    : (input: Input<N>, options?: CallOptions) => Promise<Output<N>>

type Noun = Name extends `${infer N}.${string}` ? N : never
type VerbOf<N extends Noun> = Name extends infer Full ? (Full extends `${N}.${infer V}` ? V : never) : never

/** One object a noun, one method an operation: `client.sandbox.create(...)`. */
export type Client = { readonly [N in Noun]: { readonly [V in VerbOf<N>]: Method<`${N}.${V}` & Name> } }

export const createClient = (transport: Transport): Client => {
  const nouns = new Map<string, { [verb: string]: unknown }>()
  for (const operation of Object.values<Operation>(operations)) {
    const [noun, verb] = operation.name.split('.') as [string, string]
    let methods = nouns.get(noun)
    if (methods === undefined) nouns.set(noun, (methods = {}))
    methods[verb] = methodOf(transport, operation)
  }
  return Object.fromEntries(nouns) as Client
}

const methodOf = (transport: Transport, operation: Operation): unknown => {
  if (operation.events !== undefined) {
    const name = operation.name as EventsName
    return (input: Input<typeof name>, options?: CallOptions) => transport.events(name, input, callOf(options))
  }
  if (operation.stream !== undefined) {
    const name = operation.name as StreamName
    return (input: Input<typeof name>, bytes: AsyncIterable<Uint8Array>, options?: CallOptions) => transport.send(name, input, bytes, callOf(options))
  }
  const name = operation.name as CallName
  return (input: Input<typeof name>, options?: CallOptions) => transport.call(name, input, callOf(options))
}

// Ids only have to differ: they tell the lines of one record apart.
const prefix = Math.random().toString(36).slice(2, 8)
let calls = 0

const callOf = ({ signal, timeoutMs }: CallOptions = {}): Call => ({
  id: `${prefix}-${++calls}`,
  deadlineMs: timeoutMs === undefined ? undefined : Date.now() + timeoutMs,
  signal,
})
