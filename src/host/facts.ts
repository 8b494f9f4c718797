// What policy/ has to know about this host, asked in one go. It lies on the way of every `sandlot run`: synchronous, no question twice, no file
// larger than it has to be. What is answered here is only where things are; who may see them is decided in policy/.

import {
  accessSync,
  closeSync,
  constants,
  type Dirent,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readlinkSync,
  readSync,
  realpathSync,
  type Stats,
  statSync,
} from './node-fs.ts'
import type { EtcFound, EtcRule, Found, HostFacts, PathEntry, Questions, TopEntry } from '../model/facts.ts'
import type { Upper } from '../model/mount.ts'
import type { Places } from './paths.ts'

/** Everything of the host that does not depend on a request. `environment` is the caller's. */
export const readFacts = (environment: NodeJS.ProcessEnv, places: Places, questions: Questions): HostFacts => {
  const variables = new Map<string, string>()
  for (const name of questions.variables) {
    const value = environment[name]
    if (value !== undefined && value !== '') variables.set(name, value)
  }
  const homeReal = realOf(places.home) ?? places.home
  const known = { home: places.home, homeReal, variables, searchPath: searchPathOf(environment['PATH'] ?? '', questions.standardPath) }
  return {
    ...known,
    top: topOf(),
    etc: etcOf(questions.etc),
    found: findPlaces(questions.places(known)),
    above: aboveOf([homeReal, places.state, places.cache, places.installation]),
    state: places.state,
    cache: places.cache,
    installation: places.installation,
    upper: upperOf(places.memoryUpper),
    shell: exists('/bin/bash') ? '/bin/bash' : '/bin/sh',
  }
}

/** Looks up places; absent and invisible ones are missing from the answer. */
export const findPlaces = (paths: Iterable<string>): Map<string, Found> => {
  const found = new Map<string, Found>()
  for (const path of paths) {
    if (found.has(path)) continue
    const place = find(path)
    if (place !== undefined) found.set(path, place)
  }
  return found
}

const find = (path: string): Found | undefined => {
  // The path is resolved after a first look: most places asked for do not exist, and the first look is the cheaper one.
  const first = statOf(path)
  if (first === undefined) return undefined
  const real = realOf(path)
  if (real === undefined) return undefined
  const stat = real === path ? first : statOf(real)
  if (stat === undefined) return undefined
  const found = foundOf(real, stat)
  return real !== path && lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true ? { ...found, linked: true } : found
}

const foundOf = (path: string, stat: Stats): Found => ({
  path,
  kind: stat.isDirectory() ? 'directory' : stat.isFile() ? 'file' : 'other',
  dev: stat.dev,
  ino: Number.isSafeInteger(stat.ino) ? stat.ino : undefined,
  open: (stat.mode & (stat.isDirectory() ? 0o005 : 0o004)) === (stat.isDirectory() ? 0o005 : 0o004),
})

const aboveOf = (paths: readonly string[]): Found[] => {
  const above = new Map<string, Found>()
  for (const path of paths) {
    for (let at = path; at !== '/' && !above.has(at); at = at.slice(0, at.lastIndexOf('/')) || '/') {
      const stat = statOf(at)
      if (stat !== undefined) above.set(at, foundOf(at, stat))
    }
  }
  return [...above.values()]
}

const statOf = (path: string): Stats | undefined => {
  try {
    return statSync(path, { throwIfNoEntry: false })
  } catch {
    return undefined
  }
}

const realOf = (path: string): string | undefined => {
  try {
    return realpathSync.native(path)
  } catch {
    return undefined
  }
}

const exists = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

// Relative entries and empty ones name whatever the current directory holds: they are not taken in. Those of every system are not looked at.
const searchPathOf = (path: string, standard: ReadonlySet<string>): PathEntry[] => {
  const entries = new Map<string, PathEntry>()
  for (const part of path.split(':')) {
    const name = part.length > 1 && part.endsWith('/') ? part.replace(/\/+$/, '') : part
    if (!name.startsWith('/') || entries.has(name)) continue
    const real = standard.has(name) ? name : realOf(name)
    if (real !== undefined) entries.set(name, { name, real })
  }
  return [...entries.values()]
}

const TOP = new Set(['usr', 'bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32'])

const topOf = (): TopEntry[] => {
  const top: TopEntry[] = []
  for (const entry of readdirSync('/', { withFileTypes: true })) {
    if (!TOP.has(entry.name)) continue
    const path = `/${entry.name}`
    const link = entry.isSymbolicLink() ? readlinkSync(path) : undefined
    if (link !== undefined && /^\/?usr\/[a-z0-9]+$/.test(link)) top.push({ path, link })
    else {
      const found = find(path)
      if (found?.kind === 'directory') top.push({ path, found })
    }
  }
  return top
}

/** Larger ones are not copied but left out: a file of the table is a few kilobytes, the linker's cache a few hundred. */
const COPY_BYTES = 1024 * 1024
/** A directory that is copied has at most so many entries, itself and below. */
const COPY_ENTRIES = 64

const etcOf = (rules: readonly EtcRule[]): EtcFound[] => {
  const out: EtcFound[] = []
  const lists = new Map<string, ReadonlyMap<string, Dirent>>()
  const list = (directory: string): ReadonlyMap<string, Dirent> => {
    let entries = lists.get(directory)
    if (entries === undefined) lists.set(directory, (entries = new Map(entriesOf(directory).map((entry) => [entry.name, entry]))))
    return entries
  }
  const apply = (rule: EtcRule, segments: readonly string[], depth: number, directory: string): void => {
    const segment = segments[depth]!
    const entries = list(directory)
    const exact = entries.get(segment)
    const matching =
      exact !== undefined ? [exact] : segment.endsWith('*') ? [...entries.values()].filter((entry) => entry.name.startsWith(segment.slice(0, -1))) : []
    for (const entry of matching) {
      const path = `${directory}/${entry.name}`
      if (depth + 1 < segments.length) {
        if (!entry.isFile()) apply(rule, segments, depth + 1, path)
      } else if (rule.how === 'copy') copy(path, entry, out, { left: COPY_ENTRIES })
      else {
        const found = find(path)
        if (found?.kind === 'directory') out.push({ kind: 'tree', path, found })
      }
    }
  }
  for (const rule of rules) {
    const segments = rule.path.split('/')
    apply(rule, segments, 2, `/${segments[1]}`)
  }
  return out
}

const entriesOf = (directory: string): Dirent[] => {
  try {
    return readdirSync(directory, { withFileTypes: true })
  } catch {
    return []
  }
}

const copy = (path: string, entry: Dirent, out: EtcFound[], budget: { left: number }): void => {
  if (budget.left-- <= 0) return
  if (entry.isFile()) copyFile(path, path, out)
  else if (entry.isSymbolicLink()) {
    // A link into /usr works inside as it is; one to elsewhere (NixOS, systemd's stubs) is followed and becomes a file.
    const real = realOf(path)
    if (real === undefined) return
    if (real.startsWith('/usr/')) out.push({ kind: 'link', path, to: real })
    else copyFile(real, path, out)
  } else if (entry.isDirectory()) {
    out.push({ kind: 'directory', path })
    for (const inner of entriesOf(path)) copy(`${path}/${inner.name}`, inner, out, budget)
  }
}

const copyFile = (source: string, path: string, out: EtcFound[]): void => {
  let descriptor: number
  try {
    // O_NONBLOCK, so that a pipe that has taken the place of a file does not hold us.
    descriptor = openSync(source, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch {
    return
  }
  try {
    const stat = fstatSync(descriptor)
    // What not everybody may read is not everybody's inside either, and so not worth having.
    if (stat.isFile() && stat.size <= COPY_BYTES && (stat.mode & 0o004) !== 0) {
      out.push({ kind: 'file', path, mode: (stat.mode & 0o555) | 0o200, bytes: readAll(descriptor, stat.size) })
    }
  } finally {
    closeSync(descriptor)
  }
}

const readAll = (descriptor: number, size: number): Uint8Array => {
  const bytes = new Uint8Array(size)
  let at = 0
  while (at < size) {
    const count = readSync(descriptor, bytes, at, size - at, at)
    if (count === 0) break
    at += count
  }
  return bytes.subarray(0, at)
}

const GIB = 1024 ** 3

/** In memory: a quarter of the machine's, at most 4 GiB, for each upper. */
const upperOf = (memory: boolean): Upper =>
  memory ? { kind: 'memory', bytes: Math.min(4 * GIB, Math.floor(process.getBuiltinModule('node:os').totalmem() / 4 / 4096) * 4096) } : { kind: 'disk' }
