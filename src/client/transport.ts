import type { Call } from '../model/call.ts'
import type { CallName, Events, EventsName, Input, Output, StreamName } from '../protocol/operation/index.ts'

/** What carries operations to an engine: a call in process, HTTP, a WebSocket. */
export type Transport = {
  call<N extends CallName>(name: N, input: Input<N>, call: Call): Promise<Output<N>>
  /** Nothing is asked for before the first `next`; leaving the loop ends it on the other side too. */
  events<N extends EventsName>(name: N, input: Input<N>, call: Call): AsyncIterable<Events<N>>
  /** Takes of `bytes` only what the other side is ready for. */
  send<N extends StreamName>(name: N, input: Input<N>, bytes: AsyncIterable<Uint8Array>, call: Call): Promise<Output<N>>
}
