// What every kind of isolation must be able to do. A driver makes the boundary and hands out a channel to an init inside it;
// what is said over the channel is the engine's, and the same for every driver.

import type { Call } from '../model/call.ts'
import type { MountPlan } from '../model/mount.ts'
import type { Report } from '../model/report.ts'
import type { Changes } from '../model/sandbox.ts'

/** What a driver can do here and now. Asking for an absent one fails with `unsupported` before any effect. */
export type Capabilities = {
  /** Show the host's own /usr and toolchains (root `host`). */
  readonly hostRoot: boolean
  /** Use a directory as the lowest layer (root `dir`). */
  readonly directoryRoot: boolean
  /** Directories of the host, writable for real. */
  readonly grants: boolean
  /** Directories whose writes are kept aside. */
  readonly overlays: boolean
  /** More than one user id inside. */
  readonly users: boolean
  /** A limit of memory that holds for a whole sandbox. */
  readonly memoryLimit: boolean
  /** A sandbox can be reached again after its engine ended. */
  readonly attach: boolean
}

export type BoxSpec = {
  /** Letters and digits, at most 32, unique for the driver. */
  readonly id: string
  readonly hostname: string
  readonly plan: MountPlan
  /** Classic BPF for this architecture, or undefined for none. */
  readonly filter: Uint8Array | undefined
}

/** A byte stream to an init that speaks the guest protocol. Reading is pulled: while paused, nothing is taken from the kernel. */
export type Channel = {
  write(bytes: Uint8Array): boolean
  /** Resolves when what was written has left; at once if it has. */
  drained(): Promise<void>
  onData(listener: (bytes: Uint8Array) => void): void
  /** Called once when the stream ends, with the cause if it was an error; an error of ours is what the caller shall hear. */
  onEnd(listener: (cause: Error | undefined) => void): void
  pause(): void
  resume(): void
  /** While false, an open channel alone does not keep the process running. */
  keepAlive(wanted: boolean): void
  close(): void
}

/** How a sandbox ended. */
export type Gone = { readonly reason: 'destroyed' | 'init_died' | 'driver_died'; readonly message: string }

/** What the init said when it was ready. */
export type Welcome = { readonly features: readonly string[]; readonly missing: readonly string[] }

export type Box = {
  /** Names one incarnation: a sandbox that is reset or restored gets a new box. */
  readonly id: string
  /** The channel to the init. The first call gives the one that `create` opened; later ones connect anew where the driver can attach. */
  connect(): Promise<Channel>
  /** What holds, from what this driver set up and what the init said. */
  report(welcome: Welcome): Promise<Report>
  /** What the guest has changed, counted by a confined process; works until `destroy`. */
  changes(): Promise<Changes>
  /** Resolves when the last resource is removed. Idempotent. */
  destroy(): Promise<void>
  readonly gone: Promise<Gone>
}

export type Driver = {
  readonly name: string
  readonly level: 'process' | 'container' | 'kernel' | 'machine'
  /** Has no effect on any sandbox; may start what the driver needs to look. */
  capabilities(): Promise<Capabilities>
  /** Starts what the first `create` would have to wait for; may be called at any time and again. */
  prepare(): Promise<void>
  /** Resolves when the order is on its way, before the init has answered, so that the engine may say HELLO and EXEC at once. The engine alone
   * reads the channel: REFUSED and WELCOME arrive there. */
  create(spec: BoxSpec, call: Call): Promise<Box>
  /** Ends every sandbox of this driver and removes what it holds. */
  close(): Promise<void>
}
