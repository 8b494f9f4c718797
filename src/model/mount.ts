// The mount plan: what a sandbox can see, as data. Made by policy/view.ts, carried out by the launcher.

/** How owners on the host show inside. `system`: host 0 is inside 0. `owner`: the source's owner is `user`. Only where ids are mapped per sandbox. */
export type Ids = 'system' | 'owner'

/** A directory of the host as it was when it was decided on: the launcher refuses another one under the same name. */
export type Source = {
  /** Absolute, without symbolic links; `''` is the skeleton. */
  readonly path: string
  readonly ids: Ids
  /** Device and inode seen at the decision; absent = any. */
  readonly seen?: { readonly dev: number; readonly ino: number }
}

export type Upper = { readonly kind: 'disk' } | { readonly kind: 'memory'; readonly bytes: number }

export type MountStep =
  /** First step of every plan. Topmost layer first. Writes go to the sandbox's own upper. */
  | { readonly step: 'root'; readonly layers: readonly Source[]; readonly upper: Upper }
  | {
      readonly step: 'bind'
      readonly source: Source
      readonly target: string
      readonly readonly: boolean
      readonly recursive?: boolean
      readonly optional?: boolean
      readonly noexec?: boolean
    }
  /** A directory whose writes go to an upper of its own, called `name` (letters and digits). */
  | { readonly step: 'overlay'; readonly layers: readonly Source[]; readonly upper: Upper; readonly target: string; readonly name: string }
  | { readonly step: 'tmpfs'; readonly target: string; readonly bytes: number; readonly mode: number }
  /** An empty read-only directory (over a file: an empty file) over `target`. Skipped where `target` does not exist. Not a protection inside a writable
   * bind, whose other directories can be renamed: the view refuses such a grant. */
  | { readonly step: 'hide'; readonly target: string }

export type MountPlan = readonly MountStep[]

/** One thing in the skeleton, the lowest layer of root `host`. Parents come before children. */
export type SkeletonEntry =
  | { readonly entry: 'directory'; readonly path: string; readonly mode: number; readonly uid: number; readonly gid: number }
  | { readonly entry: 'file'; readonly path: string; readonly mode: number; readonly uid: number; readonly gid: number; readonly bytes: Uint8Array }
  | { readonly entry: 'link'; readonly path: string; readonly to: string }
