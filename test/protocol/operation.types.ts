// Compiled, never run: the types that the table of operations gives are those of the model.

import type { Capabilities } from '../../src/driver/contract.ts'
import type { ExecInfo, OutputEvent } from '../../src/model/exec.ts'
import type { Outcome } from '../../src/model/outcome.ts'
import type { Changes, Grant, SandboxInfo } from '../../src/model/sandbox.ts'
import type { CallName, Events, EventsName, Given, Input, Output, StreamName } from '../../src/protocol/operation/index.ts'
import type { Capability } from '../../src/protocol/operation/operation.ts'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const equal = <A, B>(_: Equal<A, B>): void => {}

equal<Output<'sandbox.create'>, SandboxInfo>(true)
equal<Output<'sandbox.get'>, SandboxInfo>(true)
equal<Output<'sandbox.list'>['sandboxes'][number], SandboxInfo>(true)
equal<Output<'sandbox.destroy'>, void>(true)
equal<Output<'sandbox.changes'>, Changes>(true)
equal<Given<'sandbox.create'>['grants'][number], Grant>(true)
equal<Output<'exec.start'>, ExecInfo>(true)
equal<Output<'exec.list'>['execs'][number], ExecInfo>(true)
equal<Output<'exec.wait'>, Outcome>(true)
equal<Output<'exec.end'>, Outcome>(true)
equal<Events<'exec.output'>, OutputEvent>(true)
equal<Capability, keyof Capabilities>(true)

equal<EventsName, 'exec.output'>(true)
equal<StreamName, 'exec.input'>(true)
equal<Extract<CallName, EventsName | StreamName>, never>(true)

// A default may be left out by a caller and is there for a handler; an optional field may be left out for both, and is not undefined.
equal<Input<'exec.wait'>, { readonly sandbox: string; readonly exec: string; readonly until?: 'exited' | 'ended' }>(true)
equal<Given<'exec.wait'>, { readonly sandbox: string; readonly exec: string; readonly until: 'exited' | 'ended' }>(true)
equal<Given<'exec.output'>['channel'], 'stdout' | 'stderr' | undefined>(true)
// @ts-expect-error an absent field is absent, not undefined
export const refused: Given<'exec.output'> = { sandbox: 's', exec: 'e', from: 0, follow: true, channel: undefined }
