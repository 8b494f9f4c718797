// What holds around a sandbox and by which layer; what does not.

export type Report = {
  readonly driver: string
  readonly level: 'process' | 'container' | 'kernel' | 'machine'
  /** How ids are mapped: a private range, the caller's subordinate range, the caller's own id only. */
  readonly identity: 'range' | 'subordinate' | 'single'
  /** Layers in force, e.g. `{ layer: 'seccomp', holds: 'system calls' }`. */
  readonly enforced: readonly { readonly layer: string; readonly holds: string }[]
  /** What was wished for and is not there, with the reason. */
  readonly missing: readonly { readonly layer: string; readonly reason: string }[]
}
