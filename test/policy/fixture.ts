// A host that does not exist, as facts: what view.ts and its neighbours decide upon.

import type { EtcFound, Found, HostFacts, TopEntry } from '../../src/model/facts.ts'
import type { MountStep } from '../../src/model/mount.ts'
import type { Grant } from '../../src/model/sandbox.ts'
import { viewQuestions } from '../../src/policy/question.ts'
import { makeView, type View, type ViewRequest, viewPlaces } from '../../src/policy/view.ts'

export type HostOptions = {
  readonly home?: string
  /** PATH in order. */
  readonly path?: readonly string[]
  /** What exists, besides what every host has. A path of `links` leads elsewhere. */
  readonly places?: readonly string[]
  readonly files?: readonly string[]
  readonly sockets?: readonly string[]
  readonly links?: { readonly [path: string]: string }
  readonly variables?: { readonly [name: string]: string }
  readonly merged?: boolean
  readonly etc?: readonly EtcFound[]
  readonly state?: string
  readonly cache?: string
  readonly installation?: string
  readonly closed?: readonly string[]
  /** Names of directories that are the same as others: bind mounts. */
  readonly same?: { readonly [path: string]: string }
}

export type FakeHost = { readonly facts: HostFacts; find(paths: Iterable<string>): Map<string, Found>; view(request?: Partial<ViewRequest>): View }

export const fakeHost = (options: HostOptions = {}): FakeHost => {
  const home = options.home ?? '/home/me'
  const numbers = new Map<string, number>()
  const inode = (path: string): number => {
    const as = options.same?.[path] ?? path
    if (!numbers.has(as)) numbers.set(as, numbers.size + 10)
    return numbers.get(as)!
  }
  const resolve = (path: string): string => {
    for (const [from, to] of Object.entries(options.links ?? {})) {
      if (path === from || path.startsWith(`${from}/`)) return resolve(to + path.slice(from.length))
    }
    return path
  }
  const places = new Set(['/', '/usr', home, ...(options.places ?? [])])
  const exists = (real: string): boolean => [...places].some((place) => place === real || place.startsWith(`${real}/`))
  const found = (name: string): Found | undefined => {
    const path = resolve(name)
    const kind = options.files?.includes(path) === true ? 'file' : options.sockets?.includes(path) === true ? 'other' : exists(path) ? 'directory' : undefined
    return kind === undefined ? undefined : { path, kind, dev: 1, ino: inode(path), open: options.closed?.includes(path) !== true }
  }
  const find = (paths: Iterable<string>): Map<string, Found> => {
    const out = new Map<string, Found>()
    for (const path of paths) {
      const place = found(path)
      if (place !== undefined) out.set(path, place)
    }
    return out
  }
  const state = options.state ?? `${home}/.local/state/sandlot`
  const cache = options.cache ?? `${home}/.cache/sandlot`
  const installation = options.installation ?? '/usr/lib/node_modules/sandlot'
  const merged: TopEntry[] = ['/bin', '/lib', '/lib64', '/sbin'].map((path) => ({ path, link: `usr${path}` }))
  const apart: TopEntry[] = ['/bin', '/lib', '/sbin'].map((path) => ({ path, found: { path, kind: 'directory', dev: 1, ino: inode(path), open: true } }))
  const known = {
    home,
    homeReal: resolve(home),
    variables: new Map(Object.entries(options.variables ?? {})),
    searchPath: (options.path ?? ['/usr/local/bin', '/usr/bin', '/bin']).map((name) => ({ name, real: resolve(name) })),
  }
  const above = new Map<string, Found>()
  for (const path of [known.homeReal, state, cache, installation]) {
    for (let at = path; at !== ''; at = at.slice(0, at.lastIndexOf('/'))) above.set(at, { path: at, kind: 'directory', dev: 1, ino: inode(at), open: true })
  }
  const facts: HostFacts = {
    ...known,
    top: [{ path: '/usr', found: { path: '/usr', kind: 'directory', dev: 1, ino: inode('/usr'), open: true } }, ...(options.merged === false ? apart : merged)],
    etc: options.etc ?? [],
    found: find(viewQuestions.places(known)),
    above: [...above.values()],
    state,
    cache,
    installation,
    upper: { kind: 'disk' },
    shell: '/bin/bash',
  }
  return {
    facts,
    find,
    view: (request) => {
      const whole: ViewRequest = {
        root: 'host',
        grants: [],
        here: undefined,
        cwd: undefined,
        tools: true,
        env: new Map(),
        user: { name: 'user', home: '/home/user' },
        ...request,
      }
      return makeView(whole, facts, find(viewPlaces(whole)))
    },
  }
}

export const grant = (access: Grant['access'], source: string, target?: string): Grant =>
  target === undefined ? { source, access } : { source, target, access }

/** Targets of a plan in its order. */
export const targets = (view: View): string[] => view.plan.flatMap((step) => (step.step === 'root' ? [] : [step.target]))

export const stepAt = (view: View, target: string): MountStep | undefined =>
  view.plan.find((step) => step.step !== 'root' && step.step !== 'hide' && step.target === target)

/** Every path of the host that a plan shows. */
export const sources = (view: View): string[] =>
  view.plan.flatMap((step) =>
    step.step === 'bind' ? [step.source.path] : step.step === 'overlay' || step.step === 'root' ? step.layers.map((layer) => layer.path) : [],
  )
