// One sandbox: its state, its box, its execs. Nothing else: what an exec is stands in exec.ts, what a box is in the driver.
//
//   creating -> ready -> ending -> ended

import type { Box } from '../driver/contract.ts'
import { SandlotError } from '../model/error.ts'
import type { Report } from '../model/report.ts'
import type { SandboxInfo, SandboxState } from '../model/sandbox.ts'
import type { Exec } from './exec.ts'
import type { InitConnection } from './init.ts'
import { after } from './timer.ts'
import type { User } from './user.ts'

export type Sandbox = {
  readonly id: string
  readonly box: Box
  readonly init: InitConnection
  readonly execs: Map<string, Exec>
  /** What an exec has unless it asks for something else. */
  readonly defaults: {
    readonly cwd: string
    readonly user: User
    readonly env: ReadonlyMap<string, string>
    /** What a person should know about a program that is not there. */
    readonly explainAbsent?: (program: string) => Promise<string | undefined>
  }
  info(): SandboxInfo
  /** Throws `sandbox.lost` unless commands can be started. */
  requireReady(): void
  /** Ends everything in it; resolves when the last resource is removed. Idempotent. */
  destroy(why?: SandlotError): Promise<void>
  readonly ended: Promise<void>
  /** The number of the next exec. */
  nextExec(): number
}

export type SandboxSpec = {
  readonly id: string
  readonly driver: string
  readonly root: string
  readonly labels: { readonly [key: string]: string }
  readonly createdAtMs: number
  /** Milliseconds; 0 = for ever. */
  readonly ttlMs: number
  readonly defaults: Sandbox['defaults']
  readonly notes: readonly string[]
}

/** Resolves when the init is ready. Rejects, with nothing left behind, when the sandbox could not be made. */
export const bringUp = async (spec: SandboxSpec, box: Box, init: InitConnection): Promise<Sandbox> => {
  const execs = new Map<string, Exec>()
  const ended = Promise.withResolvers<void>()
  let execNumber = 0
  let state: SandboxState = 'creating'
  let report: Report | undefined
  let why: SandlotError | undefined
  let destroyed: Promise<void> | undefined

  const destroy = (reason?: SandlotError): Promise<void> =>
    (destroyed ??= (async () => {
      why = reason
      state = 'ending'
      callOff()
      init.close()
      await box.destroy()
      state = 'ended'
      ended.resolve()
    })())

  const callOff = spec.ttlMs > 0 ? after(spec.ttlMs, () => void destroy(new SandlotError('sandbox.lost', 'its time-to-live is over'))) : () => {}

  void init.ended.then((error) => destroy(error))
  init.hold()
  try {
    report = await box.report(await init.welcome)
    state = 'ready'
  } catch (error) {
    await destroy()
    throw error
  } finally {
    init.unhold()
  }

  const finalReport = report
  return {
    id: spec.id,
    box,
    init,
    execs,
    defaults: spec.defaults,
    info: () => ({
      id: spec.id,
      state,
      driver: spec.driver,
      root: spec.root,
      labels: spec.labels,
      createdAtMs: spec.createdAtMs,
      expiresAtMs: spec.ttlMs > 0 ? spec.createdAtMs + spec.ttlMs : undefined,
      report: finalReport,
      notes: spec.notes,
    }),
    requireReady: () => {
      if (state !== 'ready') throw why ?? new SandlotError('sandbox.lost', `the sandbox ${spec.id} has ended`)
    },
    destroy,
    ended: ended.promise,
    nextExec: () => ++execNumber,
  }
}
