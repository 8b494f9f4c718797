import type { Call } from '../model/call.ts'
import type { EventsName, Events, Given, Name, Output, StreamName } from './operation/index.ts'

/** What an engine provides: one function an operation. A missing one fails the type check. */
export type Handlers = {
  readonly [N in Name]: N extends EventsName
    ? (input: Given<N>, call: Call) => AsyncIterable<Events<N>>
    : N extends StreamName
      ? (input: Given<N>, bytes: AsyncIterable<Uint8Array>, call: Call) => Promise<Output<N>>
      : (input: Given<N>, call: Call) => Promise<Output<N>>
}
