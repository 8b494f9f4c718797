// What may be granted. A grant is the caller's own wish, so most are obeyed; refused is what would hand over more than a person can have meant: sandlot's
// own directories, the kernel's, what the host runs, whole homes, and sockets.
//
// State and cache. A write or an overlay that holds them is refused: hiding a directory below one that can be renamed hides nothing. A read-only grant that
// holds them is obeyed and shows them empty, since nothing can be renamed there: `--read ~` is a fair wish. A grant of them or inside them is refused.

import { SandlotError } from '../model/error.ts'
import type { Found, HostFacts } from '../model/facts.ts'
import type { Ids } from '../model/mount.ts'
import type { Grant } from '../model/sandbox.ts'
import { isShownBy, type Mount } from './mount.ts'
import { isWithin, normalize, rebase } from './path.ts'

// The kernel's and running programs' own. A socket speaks for whoever listens on it, and a read-only mount does not stop a connect.
const CHANNELS = ['/proc', '/sys', '/dev', '/run']
/** Removable media are the exception below /run. */
const MEDIA = '/run/media'
// What the host itself runs or obeys. Building in /usr/src is a custom of its own.
const RUN_BY_HOST = ['/etc', '/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32', '/boot', '/nix/store']
const SOURCE_CODE = ['/usr/src', '/usr/local/src']
// Shared by everybody: they hold sockets and files of other programs.
const SHARED = ['/tmp', '/var/tmp']
const TOO_WIDE = ['/var', '/opt', '/home', '/root', '/media', MEDIA]
// Owned by the system: shown with the system's owners, so that what only root may read stays so.
const OWNED_BY_SYSTEM = [...RUN_BY_HOST, '/var', '/opt', '/nix']

const isBelow = (path: string, directories: readonly string[]): boolean => directories.some((directory) => isWithin(path, directory))

const isChannel = (path: string): boolean => isBelow(path, CHANNELS) && !(isWithin(path, MEDIA) && path !== MEDIA)

const refused = (name: string, real: string, reason: string, hint: string): SandlotError =>
  new SandlotError('grant.refused', `${name}${name === real ? '' : ` (${real})`} is not granted: ${reason}`, { hint, detail: { path: real } })

type Own = { readonly path: string; readonly what: string; readonly variable: string | undefined }

/** What sandlot trusts: a guest that could write it would command sandlot. What a variable can move must not be read either. */
const ownDirectories = (host: HostFacts): readonly Own[] => [
  { path: host.state, what: "sandlot's state directory", variable: 'SANDLOT_STATE_DIR' },
  { path: host.cache, what: "sandlot's cache", variable: 'XDG_CACHE_HOME' },
  { path: host.installation, what: "sandlot's own installation", variable: undefined },
]

/** A directory may have a second name by way of a bind mount of the host: one that holds something of ours is known by what it is. */
const knownAs = (source: Found, host: HostFacts): string =>
  host.above.find((above) => above.ino !== undefined && above.ino === source.ino && above.dev === source.dev)?.path ?? source.path

/** The mounts of grants. Throws `grant.refused`, `grant.not_found`, `argument.invalid`. */
export const placeGrants = (grants: readonly Grant[], host: HostFacts, found: ReadonlyMap<string, Found>): Mount[] => {
  const placed = new Map<string, Mount>()
  for (const grant of grants) {
    if (!grant.source.startsWith('/'))
      throw new SandlotError('argument.invalid', `a grant needs an absolute path: ${grant.source}`, { hint: 'resolve it first' })
    const source = found.get(grant.source)
    if (source === undefined)
      throw new SandlotError('grant.not_found', `${grant.source} does not exist, or we may not look at it`, { detail: { path: grant.source } })
    const target = normalize(grant.target ?? grant.source)
    if (target === undefined)
      throw new SandlotError('argument.invalid', `a path inside has to be absolute: ${grant.target}`, { hint: 'write --mount SOURCE:/path/inside' })
    judgeTarget(grant, target)
    judgeSource(grant, source, host)
    const before = placed.get(target)
    if (before !== undefined && (before.access !== grant.access || before.found.path !== source.path)) {
      throw new SandlotError('argument.invalid', `two different grants for ${target}`, { hint: 'keep one of them' })
    }
    placed.set(target, {
      found: source,
      target,
      access: grant.access,
      ids: idsOf(source, grant.access, host),
      recursive: false,
      optional: false,
      sameName: target === normalize(grant.source),
      name: before?.name ?? `grant${placed.size}`,
    })
  }
  return [...placed.values()]
}

const ACCESS: ReadonlySet<string> = new Set(['read', 'write', 'overlay'] satisfies Grant['access'][])

const idsOf = (source: Found, access: Grant['access'], host: HostFacts): Ids =>
  access === 'read' && isBelow(source.path, OWNED_BY_SYSTEM) && !isWithin(source.path, host.homeReal) ? 'system' : 'owner'

const judgeTarget = (grant: Grant, target: string): void => {
  const say = (reason: string): SandlotError =>
    refused(grant.source, grant.source, `${target} inside ${reason}`, 'show it somewhere else: --mount SOURCE:/path/inside')
  if (target === '/') throw say('is the root itself')
  if (isBelow(target, ['/proc', '/dev', '/sys'])) throw say("is the sandbox's own")
  if (target === '/etc' || target === '/usr') throw say('belongs to the root')
}

const judgeSource = (grant: Grant, source: Found, host: HostFacts): void => {
  const path = knownAs(source, host)
  const narrower = 'grant a narrower directory'
  const say = (reason: string, hint: string): SandlotError => refused(grant.source, source.path, reason, hint)
  if (source.kind === 'other')
    throw say('it is neither a directory nor a file; a socket or a device speaks for the host', 'grant data, not a channel to a program')
  // From plain JavaScript anything may come; what is not known opens nothing.
  if (!ACCESS.has(grant.access))
    throw new SandlotError('argument.invalid', `${path}: access must be read, write or overlay, not ${JSON.stringify(grant.access)}`)
  if (grant.access === 'write' && source.linked === true) {
    // Whoever wrote its directory may have made it, an earlier command inside for one.
    throw say('it is a link, and writes would go elsewhere', `name what you mean: --write ${source.path}`)
  }
  if (source.kind === 'file' && grant.access !== 'read') {
    // A mounted file cannot be replaced by rename(2), which is how most programs save: they would fail with EBUSY.
    throw say('a single file can only be read', `grant its directory, or use --read ${grant.source}`)
  }
  if (path === '/') throw say('it holds everything', narrower)
  if (isChannel(path)) throw say("it is the kernel's or holds sockets of running programs", 'copy what is needed to a directory of your own')
  if (SHARED.includes(path) && grant.access !== 'overlay')
    throw say('it is shared by all programs of the host and holds their sockets', 'grant a directory below it')

  for (const own of ownDirectories(host)) {
    const reason = path === own.path ? `it is ${own.what}` : isWithin(path, own.path) ? `it lies in ${own.what}` : `it holds ${own.what} (${own.path})`
    const holds = isWithin(own.path, path)
    const lies = isWithin(path, own.path)
    if (grant.access === 'write' && (holds || lies)) throw say(reason, wayOut(own))
    if (own.variable !== undefined && (lies || (holds && grant.access === 'overlay'))) throw say(reason, wayOut(own))
  }

  if (grant.access === 'read') return
  if (isWithin(host.homeReal, path)) throw say('it holds your whole home directory: keys, settings, start files', 'grant the project directory, or use --read')
  if (TOO_WIDE.includes(path)) throw say('it holds too much', narrower)
  if (grant.access === 'write' && isBelow(path, RUN_BY_HOST) && !isBelow(path, SOURCE_CODE)) {
    throw say('the host itself runs and obeys what is there', 'grant a directory that is not the system’s')
  }
}

const wayOut = (own: Own): string =>
  own.variable === undefined
    ? 'a guest that can write it would command sandlot: grant a narrower directory, or install sandlot elsewhere (npm install --global sandlot)'
    : `grant a narrower directory, or move it with ${own.variable}`

/** Paths inside at which our own directories would show, by way of a read-only mount that holds them. */
export const ownInside = (mounts: readonly Mount[], host: HostFacts): string[] =>
  mounts.flatMap((mount) => {
    if (mount.access !== 'read') return []
    const path = knownAs(mount.found, host)
    return ownDirectories(host).flatMap((own) => (own.variable !== undefined && isWithin(own.path, path) ? [rebase(own.path, path, mount.target)] : []))
  })

/** Why a directory cannot be the root of a sandbox; undefined when it can. */
export const judgeRoot = (source: Found, host: HostFacts): string | undefined => {
  const path = knownAs(source, host)
  if (isBelow(path, CHANNELS)) return 'it is the kernel’s'
  const own = ownDirectories(host).find((each) => isWithin(each.path, path) || (each.variable !== undefined && isWithin(path, each.path)))
  return own === undefined ? undefined : `it holds ${own.what}`
}

export type Here = { readonly cwd: string; readonly mount: Mount | undefined }

/** The current directory as an overlay at the same path; undefined, with a note, when that would show too much. `system`: /usr shows anyway. */
export const placeHere = (source: Found, grants: readonly Mount[], host: HostFacts, system: boolean, note: (line: string) => void): Here | undefined => {
  const { path } = source
  // What was granted there is what was asked for, be it this very directory or another one.
  const over = grants.find((grant) => isWithin(path, grant.target))
  if (over !== undefined) {
    if (over.target === path || isShownBy(over, path, path)) return { cwd: path, mount: undefined }
    note(`the current directory ${path} is not shown: ${over.target} inside is ${over.found.path}`)
    return undefined
  }
  if (system && isWithin(path, '/usr') && !isBelow(path, SOURCE_CODE)) return { cwd: path, mount: undefined }
  const reason = tooMuch(knownAs(source, host), host)
  if (reason === undefined) {
    return {
      cwd: path,
      mount: { found: source, target: path, access: 'overlay', ids: 'owner', recursive: false, optional: false, sameName: true, name: 'here' },
    }
  }
  note(`the current directory ${path} is not shown: ${reason.why} (${reason.way})`)
  return undefined
}

const tooMuch = (path: string, host: HostFacts): { readonly why: string; readonly way: string } | undefined => {
  const below = 'change to a directory below it'
  const shows = `--read ${path} shows it; --write DIR, a directory below it`
  if (path === '/') return { why: 'it holds everything', way: below }
  if (path === host.homeReal) return { why: 'it is your home directory', way: shows }
  if (isWithin(host.homeReal, path)) return { why: 'it holds your home directory', way: below }
  for (const own of ownDirectories(host)) {
    if (own.variable === undefined) continue
    if (isWithin(path, own.path)) return { why: `it is in ${own.what}`, way: 'change to another one' }
    if (isWithin(own.path, path)) return { why: `it holds ${own.what}`, way: shows }
  }
  if (SHARED.includes(path)) return { why: 'it is shared by all programs of the host', way: below }
  if (isChannel(path) || isBelow(path, ['/etc', '/boot'])) return { why: 'it belongs to the system', way: 'change to another one' }
  if (TOO_WIDE.includes(path)) return { why: 'it holds too much', way: below }
  return undefined
}
