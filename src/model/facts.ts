// What the host looks like, as data: gathered by host/facts.ts, decided upon by policy/view.ts.

import type { Upper } from './mount.ts'

/** Something of the host under a name that was asked for. */
export type Found = {
  /** Absolute, without symbolic links. */
  readonly path: string
  /** `other`: a socket, a pipe, a device. */
  readonly kind: 'directory' | 'file' | 'other'
  readonly dev: number
  /** undefined when it does not fit into 53 bits (overlayfs with xino). */
  readonly ino: number | undefined
  /** Everybody may read it (and, a directory, pass through it). */
  readonly open: boolean
  /** What was asked for is itself a symbolic link to it. */
  readonly linked?: boolean
}

/** A directory named by PATH that exists. */
export type PathEntry = {
  readonly name: string
  /** The same without symbolic links. */
  readonly real: string
}

/** Something below /etc that the table names and the host has. */
export type EtcFound =
  | { readonly kind: 'file'; readonly path: string; readonly mode: number; readonly bytes: Uint8Array }
  | { readonly kind: 'link'; readonly path: string; readonly to: string }
  /** A directory whose entries follow. */
  | { readonly kind: 'directory'; readonly path: string }
  /** A directory to be shown as it is. */
  | { readonly kind: 'tree'; readonly path: string; readonly found: Found }

/** A name at the top of the host's tree that programs rely on: /usr, /bin, /lib64, ...; a link into /usr where that is merged. */
export type TopEntry = { readonly path: string; readonly link: string } | { readonly path: string; readonly found: Found }

export type HostFacts = {
  /** The caller's home directory as the caller names it, and without symbolic links. */
  readonly home: string
  readonly homeReal: string
  /** Variables of the caller's environment that the tables of policy/ ask for. */
  readonly variables: ReadonlyMap<string, string>
  readonly searchPath: readonly PathEntry[]
  readonly top: readonly TopEntry[]
  readonly etc: readonly EtcFound[]
  /** Places the tables of policy/ ask for; absent ones are missing. */
  readonly found: ReadonlyMap<string, Found>
  /** Home, what sandlot trusts, and every directory above them: one of these may have a second name by way of a bind mount. */
  readonly above: readonly Found[]
  /** What sandlot itself trusts, without symbolic links. */
  readonly state: string
  readonly cache: string
  readonly installation: string
  /** Where writes of sandboxes can go. */
  readonly upper: Upper
  /** A shell that exists, by its path inside. */
  readonly shell: string
}

/** A small file or a directory below /etc, named by a path in which a segment may end in `*`. */
export type EtcRule = {
  readonly path: string
  /** `copy`: small, its bytes go into the skeleton. `show`: a read-only bind. */
  readonly how: 'copy' | 'show'
}

/** What policy/ wants to know about the host. */
export type Questions = {
  readonly variables: readonly string[]
  /** PATH entries that are taken as they are. */
  readonly standardPath: ReadonlySet<string>
  readonly etc: readonly EtcRule[]
  /** Paths to be looked up, once PATH is known. */
  places(host: Pick<HostFacts, 'home' | 'homeReal' | 'variables' | 'searchPath'>): Iterable<string>
}
