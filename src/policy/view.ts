// What a sandbox can see: grants and facts of the host in; a mount plan, an environment and a place to start out. Pure: it asks the host nothing.
//
// Root `host` is an allow-list: /usr, the made /etc, the caller's toolchains, and what was granted. Whatever is not named does not exist inside.
// A source is always a resolved path with the device and inode that were seen, so that the launcher refuses another one under the same name.

import { SandlotError } from '../model/error.ts'
import type { Found, HostFacts } from '../model/facts.ts'
import type { Ids, MountPlan, MountStep, Source } from '../model/mount.ts'
import type { Grant } from '../model/sandbox.ts'
import { makeEnvironment } from './environment.ts'
import { judgeRoot, ownInside, placeGrants, placeHere } from './grant.ts'
import { hostPathInside, isHidden, type Mount, readOnly, type Shown, type Visible } from './mount.ts'
import { isWithin, normalize } from './path.ts'
import { matchToolchains, SYSTEM_PATH, type Tools } from './toolchain.ts'

export type ViewRequest = {
  /** `host`: an allow-list of the host. `dir`: a directory as the lowest layer, nothing of the host but grants. */
  readonly root: 'host' | { readonly dir: string }
  readonly grants: readonly Grant[]
  /** The caller's current directory: shown as an overlay at the same path unless it is too much to show. undefined = not shown. */
  readonly here: string | undefined
  /** Where commands start, by its path inside; default: `here` if that shows, else the home directory inside. */
  readonly cwd: string | undefined
  /** Show the caller's own toolchains. */
  readonly tools: boolean
  /** Variables the caller asked for; they win. */
  readonly env: ReadonlyMap<string, string>
  /** Whom commands run as unless asked otherwise, and where that one lives inside. */
  readonly user: { readonly name: string; readonly home: string }
}

export type View = Visible & {
  readonly plan: MountPlan
  /** The whole environment of a command. */
  readonly env: ReadonlyMap<string, string>
  /** PATH inside. */
  readonly path: string
  readonly cwd: string
  /** What a person should know: something is not shown, and how it could be. One line each. */
  readonly notes: readonly string[]
}

/** Paths of a request that have to be looked up for `makeView`. */
export const viewPlaces = (request: ViewRequest): string[] => [
  ...request.grants.map((grant) => grant.source),
  // Whether there is a place to mount on, where what lies around it cannot be changed.
  ...request.grants.flatMap((grant) => (grant.target === undefined || grant.target === grant.source ? [] : [normalize(grant.target) ?? grant.target])),
  ...(request.here === undefined ? [] : [request.here]),
  ...(request.root === 'host' ? [] : [request.root.dir]),
]

/** `found` holds what was there of `viewPlaces`. Throws `grant.refused`, `grant.not_found` or `argument.invalid`. */
export const makeView = (request: ViewRequest, host: HostFacts, found: ReadonlyMap<string, Found>): View => {
  const isHost = request.root === 'host'
  const notes: string[] = []
  const root = rootStep(request, host, found)
  const grants = placeGrants(request.grants, host, found)
  const here = request.here === undefined ? undefined : placeHere(currentDirectory(request.here, found), grants, host, isHost, (line) => notes.push(line))
  const wanted = here?.mount === undefined ? grants : [...grants, here.mount]

  const tools = request.tools && isHost ? matchToolchains(host) : NO_TOOLS
  // A grant over a toolchain or a part of /etc is what the caller asked for: a mount of ours below it would take the write right away again, or leave a
  // directory in what was granted.
  const isFree = (base: Mount): boolean => !wanted.some((mount) => isWithin(base.target, mount.target))
  const own = [...(isHost ? systemMounts(host) : []), ...tools.shown.map(toolMount)].filter(isFree)
  const mounts = [...own, ...wanted].toSorted((a, b) => (a.target < b.target ? -1 : 1))
  requirePlaces(mounts, found)
  const view: Visible = {
    shown: mounts.map(({ found: { path }, target, access, sameName }): Shown => ({ source: path, target, access, sameName })),
    hidden: [...ownInside(mounts, host), ...tools.hides.filter((path) => own.some((mount) => isWithin(path, mount.target)))],
  }
  // An explicit place to start makes it plain that the current directory is not meant.
  if (request.cwd !== undefined) notes.length = 0
  const home = homeInside(request)
  const cwd = startDirectory(request, here?.cwd ?? (isHost ? home : '/'))
  const path = request.env.get('PATH') ?? searchPath(view, host, isHost)
  const env = makeEnvironment({
    variables: host.variables,
    tools: tools.variables,
    explicit: request.env,
    isVisible: (name) => isVisibleAs(view, host, name, isHost),
    path,
    cwd,
    home,
    user: request.user.name,
    shell: isHost ? host.shell : '/bin/sh',
  })
  const plan = [root, ...mounts.map((mount) => toStep(mount, host)), ...view.hidden.map((target): MountStep => ({ step: 'hide', target }))]
  return { ...view, plan, env, path, cwd, notes }
}

// In what is read-only no place to mount on can be made; in what is writable for real, making one would leave a directory on the host.
const requirePlaces = (mounts: readonly Mount[], found: ReadonlyMap<string, Found>): void => {
  for (const [i, { found: source, target, sameName }] of mounts.entries()) {
    if (sameName || found.has(target)) continue
    const around = mounts.slice(0, i).findLast((mount) => isWithin(target, mount.target))
    if (around === undefined || around.access === 'overlay' || !around.sameName) continue
    throw new SandlotError(
      'grant.refused',
      `${source.path} cannot be shown at ${target}: nothing is there, and ${around.target} is shown as it is on the host`,
      {
        hint: 'make that directory first, or show it somewhere else: --mount SOURCE:/path/inside',
        detail: { path: source.path },
      },
    )
  }
}

const NO_TOOLS: Tools = { shown: [], hides: [], variables: new Map() }

const systemMounts = (host: HostFacts): Mount[] => [
  ...host.top.flatMap((top) => ('found' in top ? [readOnly(top.path, top.found, 'system', { recursive: true })] : [])),
  ...host.etc.flatMap((entry) => (entry.kind === 'tree' ? [readOnly(entry.path, entry.found, 'system')] : [])),
]

// A toolchain may be updated while we decide: one that has just gone is not worth a refusal.
const toolMount = (tool: Tools['shown'][number]): Mount => readOnly(tool.target, tool.found, tool.ids, { optional: true })

const rootStep = (request: ViewRequest, host: HostFacts, found: ReadonlyMap<string, Found>): MountStep => {
  if (request.root === 'host') return { step: 'root', layers: [{ path: '', ids: 'system' }], upper: host.upper }
  const { dir } = request.root
  const source = found.get(dir)
  if (source?.kind !== 'directory') {
    throw new SandlotError('argument.invalid', `root ${dir} ${source === undefined ? 'does not exist' : 'is not a directory'}`, {
      hint: 'give a directory that holds a root file system',
    })
  }
  const reason = judgeRoot(source, host)
  if (reason !== undefined)
    throw new SandlotError('grant.refused', `${dir} cannot be a root: ${reason}`, { hint: 'use a directory that holds a root file system and nothing else' })
  return { step: 'root', layers: [toSource(source, 'system')], upper: host.upper }
}

const currentDirectory = (path: string, found: ReadonlyMap<string, Found>): Found => {
  const source = found.get(path)
  if (source?.kind === 'directory') return source
  throw new SandlotError('argument.invalid', `the current directory ${path} does not exist any more`, { hint: 'change to one that does' })
}

const toSource = (found: Found, ids: Ids): Source =>
  found.ino === undefined ? { path: found.path, ids } : { path: found.path, ids, seen: { dev: found.dev, ino: found.ino } }

const toStep = ({ found, target, access, ids, recursive, optional, name }: Mount, host: HostFacts): MountStep => {
  const source = toSource(found, ids)
  if (access === 'overlay') return { step: 'overlay', layers: [source], upper: host.upper, target, name }
  return { step: 'bind', source, target, readonly: access === 'read', ...(recursive ? { recursive } : {}), ...(optional ? { optional } : {}) }
}

// A root of the caller's has the homes that it has, and the host does not read its passwd: every image has a /tmp that can be written.
const homeInside = ({ root, user }: ViewRequest): string => (root === 'host' || user.name === 'root' ? user.home : '/tmp')

const startDirectory = (request: ViewRequest, standard: string): string => {
  if (request.cwd === undefined) return standard
  const cwd = normalize(request.cwd)
  if (cwd === undefined)
    throw new SandlotError('argument.invalid', `a directory inside has to be absolute: ${request.cwd}`, { hint: 'give --cwd /path/inside' })
  if (isWithin(cwd, '/proc'))
    throw new SandlotError('argument.invalid', `commands do not start in ${cwd}`, { hint: 'links there lead to open files, not to directories' })
  return cwd
}

// The caller's order, without what does not show; then what every system has.
const searchPath = (view: Visible, host: HostFacts, isHost: boolean): string => {
  const path = new Set<string>()
  for (const entry of host.searchPath) {
    if (SYSTEM_PATH.has(entry.name)) {
      path.add(entry.name)
      continue
    }
    const inside = hostPathInside(view, entry.real)
    if (inside !== undefined) path.add(isVisibleAs(view, host, entry.name, isHost) ? entry.name : inside)
  }
  for (const directory of SYSTEM_PATH) path.add(directory)
  return [...path].join(':')
}

/** True when a path of the host shows under the same name: by a mount of that very place, as /bin and its like do, or as a copy in /etc. */
const isVisibleAs = (view: Visible, host: HostFacts, name: string, isHost: boolean): boolean => {
  const path = normalize(name)
  if (path === undefined || isHidden(view, path)) return false
  const over = view.shown.findLast((shown) => isWithin(path, shown.target))
  if (over !== undefined) return over.sameName
  return isHost && (host.top.some((top) => 'link' in top && isWithin(path, top.path)) || host.etc.some((entry) => entry.kind !== 'tree' && entry.path === path))
}
