// Where sandlot keeps what it trusts: the state directory (uppers, sockets, record) and the cache (compiled programs). Whoever can write there commands
// every sandbox, so a directory counts only when it is ours, closed to others, and nobody else can put another one in its place.

import { chmodSync, lstatSync, mkdirSync, realpathSync, type Stats, statfsSync } from './node-fs.ts'
import { dirname } from 'node:path'
import { SandlotError } from '../model/error.ts'

export type Places = {
  /** The caller's home directory, as the environment names it. */
  readonly home: string
  /** Without symbolic links, existing, 0700, ours. */
  readonly state: string
  readonly cache: string
  /** The package's own directory, without symbolic links. */
  readonly installation: string
  /** The state directory lies where an overlay cannot have its upper layer (on an overlay itself): uppers go to memory. */
  readonly memoryUpper: boolean
}

/** Finds and, where absent, makes the directories. Throws `state.unusable` or `disk.full`. */
export const openPlaces = (environment: NodeJS.ProcessEnv): Places => {
  const home = homeOf(environment)
  const judged = new Set<string>()
  const state = openDirectory(statePath(environment, home), 'state', judged)
  const cache = openCache(environment, home, state, judged)
  return { home: home ?? '/', state, cache, installation, memoryUpper: judgeFileSystem(state) }
}

/** Where the state directory would be; undefined when there is neither a home nor a variable. Nothing is made. */
export const stateDirectory = (environment: NodeJS.ProcessEnv): string | undefined => {
  const home = homeOf(environment)
  return absolute(environment['SANDLOT_STATE_DIR']) ?? below(environment['XDG_STATE_HOME'], 'sandlot') ?? below(home, '.local/state/sandlot')
}

/** Where the cache would be; undefined when there is neither a home nor a variable. Nothing is made. */
export const cacheDirectory = (environment: NodeJS.ProcessEnv): string | undefined =>
  below(environment['XDG_CACHE_HOME'], 'sandlot') ?? below(homeOf(environment), '.cache/sandlot')

/** The package's own directory: two above this file, in a clone (src/host) as in a package (dist/host). */
export const installation: string = realpathSync.native(`${import.meta.dirname}/../..`)

const absolute = (path: string | undefined): string | undefined => (path !== undefined && path.startsWith('/') ? path : undefined)

const below = (directory: string | undefined, name: string): string | undefined => {
  const base = absolute(directory)
  return base === undefined ? undefined : base.endsWith('/') ? `${base}${name}` : `${base}/${name}`
}

// HOME is what the caller says it is, unless it is somebody else's (root by way of sudo): what we made there would be in their way.
const homeOf = (environment: NodeJS.ProcessEnv): string | undefined => {
  const named = absolute(environment['HOME'])?.replace(/(?<=.)\/+$/, '')
  if (named !== undefined && (process.geteuid?.() !== 0 || (lstat(named)?.uid ?? 0) === 0)) return named
  try {
    return absolute(process.getBuiltinModule('node:os').userInfo().homedir) ?? named
  } catch {
    return named
  }
}

const statePath = (environment: NodeJS.ProcessEnv, home: string | undefined): string => {
  const named = environment['SANDLOT_STATE_DIR']
  if (named !== undefined && named !== '' && !named.startsWith('/'))
    throw new SandlotError('state.unusable', `SANDLOT_STATE_DIR is not an absolute path: ${named}`)
  const path = absolute(named) ?? below(environment['XDG_STATE_HOME'], 'sandlot') ?? below(home, '.local/state/sandlot')
  if (path === undefined) throw new SandlotError('state.unusable', 'there is no home directory (HOME is not set) for the state directory')
  return path
}

// A home that cannot be written is no reason to fail when the state directory was moved: the cache then lies in it.
const openCache = (environment: NodeJS.ProcessEnv, home: string | undefined, state: string, judged: Set<string>): string => {
  const path = below(environment['XDG_CACHE_HOME'], 'sandlot') ?? below(home, '.cache/sandlot')
  if (path !== undefined) {
    try {
      return openDirectory(path, 'cache', judged)
    } catch (error) {
      if (error instanceof SandlotError && error.code === 'disk.full') throw error
    }
  }
  return openDirectory(`${state}/cache`, 'cache', judged)
}

/** For an error that has to do with the cache alone. */
export const cacheHint = 'free space there, or set XDG_CACHE_HOME to a directory of your own'

/** Makes `path` where it is absent and checks that it is safe. Returns it without symbolic links. `judged`: parents that need no second look. */
export const openDirectory = (path: string, what: 'state' | 'cache', judged = new Set<string>()): string => {
  const name = what === 'state' ? 'the state directory' : 'the cache directory'
  const unusable = (reason: string, cause?: unknown): SandlotError =>
    new SandlotError('state.unusable', `${name} ${path} ${reason}`, { detail: { path }, cause })
  if (path.includes('\0')) throw unusable('has a name that cannot be')
  try {
    const first = lstat(path)
    if (first === undefined) mkdirSync(path, { recursive: true, mode: 0o700 })
    else if (first.isSymbolicLink() && !isOurs(first)) throw unusable('is a link that belongs to somebody else')
    const real = realpathSync.native(path)
    const found = lstatSync(real)
    if (!found.isDirectory()) throw unusable('is not a directory')
    if (!isOurs(found)) throw unusable(`belongs to user ${found.uid}, we are user ${process.geteuid?.()}`)
    // Others could have written here: what lies in it is not ours for certain. That they could only read it is mended.
    if ((found.mode & 0o022) !== 0) throw unusable('can be written by others (its mode has to be 0700)')
    if ((found.mode & 0o777) !== 0o700) chmodSync(real, 0o700)
    judgeParents(real, unusable, judged)
    return real
  } catch (error) {
    if (error instanceof SandlotError) throw error
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOSPC' || code === 'EDQUOT')
      throw new SandlotError('disk.full', `no space for ${name} ${path}`, {
        ...(what === 'cache' && { hint: cacheHint }),
        detail: { path },
        cause: error,
      })
    throw unusable(reasonOf(code), error)
  }
}

const reasonOf = (code: string | undefined): string => {
  switch (code) {
    case 'EACCES':
    case 'EPERM':
      return 'cannot be made or used: permission denied'
    case 'EROFS':
      return 'lies on a read-only file system'
    case 'ENOTDIR':
    case 'EEXIST':
      return 'cannot be made: a file is in the way'
    case 'ELOOP':
      return 'cannot be made: links lead in a circle'
    default:
      return `cannot be made or used: ${code ?? 'unknown error'}`
  }
}

// In a parent that anybody may write and that is not sticky, anybody may put another directory in our place; in one that belongs to somebody else, that one
// may. In a user namespace whoever has no id in it shows as the overflow id: the host's root among them.
const OVERFLOW_ID = 65534

const judgeParents = (real: string, unusable: (reason: string) => SandlotError, judged: Set<string>): void => {
  for (let at = dirname(real); !judged.has(at); at = dirname(at)) {
    const parent = lstatSync(at)
    if ((parent.mode & 0o002) !== 0 && (parent.mode & 0o1000) === 0) throw unusable(`lies in ${at}, which anybody can write`)
    if (parent.uid !== 0 && parent.uid !== OVERFLOW_ID && !isOurs(parent)) throw unusable(`lies in ${at}, which belongs to user ${parent.uid}`)
    judged.add(at)
  }
}

const isOurs = (stat: Stats): boolean => stat.uid === process.geteuid?.()

const lstat = (path: string): Stats | undefined => {
  try {
    return lstatSync(path, { throwIfNoEntry: false })
  } catch (error) {
    // Below a directory that may not be searched, or below a file.
    if ((error as NodeJS.ErrnoException).code === 'ENOTDIR') return undefined
    throw error
  }
}

// Magic numbers of statfs(2), linux/magic.h and the file systems' own sources.
const MEMORY_UPPER: ReadonlyMap<number, string> = new Map([
  [0x794c7630, 'overlay'],
  [0x65735546, 'fuse'],
  [0x01021997, '9p'],
  [0x61756673, 'aufs'],
  [0xf15f, 'ecryptfs'],
])
const NETWORK: ReadonlyMap<number, string> = new Map([
  [0x6969, 'nfs'],
  [0x517b, 'smb'],
  [0xff534d42, 'cifs'],
  [0xfe534d42, 'smb2'],
  [0x00c36400, 'ceph'],
  [0x5346414f, 'afs'],
  [0x6b414653, 'afs'],
  [0x73757245, 'coda'],
  [0x0bd00bd0, 'lustre'],
  [0x47504653, 'gpfs'],
])
const OTHER: ReadonlyMap<number, string> = new Map([
  [0xef53, 'ext4'],
  [0x9123683e, 'btrfs'],
  [0x58465342, 'xfs'],
  [0x01021994, 'tmpfs'],
  [0x2fc12fc1, 'zfs'],
  [0xf2f52010, 'f2fs'],
  [0xca451a4e, 'bcachefs'],
  [0x4d44, 'vfat'],
  [0x2011bab0, 'exfat'],
  [0x7366746e, 'ntfs3'],
])
const NO_OWNERS = ['vfat', 'exfat', 'ntfs3']

/** The file system below a directory, by name. */
export const fileSystemOf = (
  path: string,
): {
  readonly name: string
  readonly network: boolean
  readonly memoryUpper: boolean
  readonly owners: boolean
  readonly freeBytes: number
  readonly bytes: number
} => {
  const { type, bavail, bsize, blocks } = statfsSync(path)
  const magic = type >>> 0
  const name = NETWORK.get(magic) ?? MEMORY_UPPER.get(magic) ?? OTHER.get(magic) ?? `0x${magic.toString(16)}`
  return {
    name,
    network: NETWORK.has(magic),
    memoryUpper: MEMORY_UPPER.has(magic),
    owners: !NO_OWNERS.includes(name),
    freeBytes: bavail * bsize,
    bytes: blocks * bsize,
  }
}

const judgeFileSystem = (state: string): boolean => {
  const { name, network, memoryUpper, owners } = fileSystemOf(state)
  // Locks that mark what a killed launcher left, sockets and uppers do not work over a network.
  if (network)
    throw new SandlotError('state.unusable', `the state directory ${state} lies on a network file system (${name})`, {
      detail: { path: state, fileSystem: name },
    })
  if (!owners)
    throw new SandlotError('state.unusable', `the state directory ${state} lies on a file system without owners (${name})`, {
      detail: { path: state, fileSystem: name },
    })
  return memoryUpper
}
