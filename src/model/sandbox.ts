import type { Report } from './report.ts'

export type SandboxState = 'creating' | 'ready' | 'ending' | 'ended'

/** A directory of the host and where it shows inside. */
export type Grant = {
  /** Absolute path on the host. */
  readonly source: string
  /** Absolute path inside; default: the same path. */
  readonly target?: string
  /** `read`: read-only. `write`: writes are real. `overlay`: writes are kept aside and dropped at the end. */
  readonly access: 'read' | 'write' | 'overlay'
}

export type SandboxInfo = {
  readonly id: string
  readonly state: SandboxState
  readonly driver: string
  readonly root: string
  readonly labels: { readonly [key: string]: string }
  /** Milliseconds since the epoch. */
  readonly createdAtMs: number
  /** When its time-to-live ends it, milliseconds since the epoch; undefined = never. */
  readonly expiresAtMs: number | undefined
  readonly report: Report
  /** What a person should know about what is visible, e.g. that the home directory is not. */
  readonly notes: readonly string[]
}

/** Files a guest has changed, per overlay. */
export type Changes = { readonly total: number; readonly overlays: readonly { readonly name: string; readonly files: number }[] }
