// Which interpreters and compilers of the caller's own show inside, read-only and at the same path, so that `python3` inside is the `python3` outside.
// A toolchain counts when PATH names it. What is shown are programs and their libraries, never the directory beside them that holds credentials
// (~/.cargo but its bin, ~/.config, ~/.npmrc, ~/.gem, ...).

import type { Found, HostFacts } from '../model/facts.ts'
import type { Ids } from '../model/mount.ts'
import { isWithin, normalize } from './path.ts'

export type Toolchain = {
  readonly name: string
  /** Places that a variable of the caller's may move, with their defaults below home (`''` = none: counts only when set). */
  readonly variables?: { readonly [variable: string]: string }
  /** Directories on PATH that make it count. `*` stands for one name and means the same name in `shows` and `hides`. */
  readonly on: readonly string[]
  /** Shown where they exist. A path is below home unless it begins with a variable. */
  readonly shows: readonly string[]
  /** Inside what is shown, covered: configuration that may hold tokens. */
  readonly hides?: readonly string[]
  /** Variables that are set inside to where the place is. */
  readonly keeps?: readonly string[]
}

/** Programs in ~/.local/bin are mostly links to these. */
const LOCAL_SHARES = [
  '.local/share/uv/python',
  '.local/share/uv/tools',
  '.local/share/pipx',
  '.local/pipx',
  '.local/share/pypoetry',
  '.local/share/claude/versions',
]

export const toolchains: readonly Toolchain[] = [
  // Python
  {
    name: 'pyenv',
    variables: { PYENV_ROOT: '.pyenv' },
    on: ['$PYENV_ROOT/shims', '$PYENV_ROOT/bin', '$PYENV_ROOT/versions/*/bin'],
    shows: ['$PYENV_ROOT'],
    keeps: ['PYENV_ROOT'],
  },
  ...['miniforge3', 'mambaforge', 'miniconda3', 'anaconda3'].map((root) => ({
    name: `conda (${root})`,
    on: [`${root}/bin`, `${root}/condabin`],
    shows: [root],
    hides: [`${root}/.condarc`],
  })),
  {
    name: 'conda environment',
    variables: { CONDA_PREFIX: '' },
    on: ['$CONDA_PREFIX/bin'],
    shows: ['$CONDA_PREFIX'],
    hides: ['$CONDA_PREFIX/.condarc'],
    keeps: ['CONDA_PREFIX'],
  },
  {
    name: 'virtualenv',
    variables: { VIRTUAL_ENV: '', PYENV_ROOT: '.pyenv', UV_PYTHON_INSTALL_DIR: '.local/share/uv/python' },
    on: ['$VIRTUAL_ENV/bin'],
    shows: ['$VIRTUAL_ENV', '$PYENV_ROOT/versions', '$UV_PYTHON_INSTALL_DIR'],
    hides: ['$VIRTUAL_ENV/pip.conf'],
    keeps: ['VIRTUAL_ENV'],
  },
  {
    name: 'local-bin (pipx, uv, poetry)',
    variables: { UV_PYTHON_INSTALL_DIR: '.local/share/uv/python', UV_TOOL_DIR: '.local/share/uv/tools', PIPX_HOME: '.local/share/pipx' },
    on: ['.local/bin'],
    shows: ['.local/bin', '$UV_PYTHON_INSTALL_DIR', '$UV_TOOL_DIR', '$PIPX_HOME', ...LOCAL_SHARES],
    keeps: ['UV_PYTHON_INSTALL_DIR'],
  },
  {
    name: 'uv python',
    variables: { UV_PYTHON_INSTALL_DIR: '.local/share/uv/python' },
    on: ['$UV_PYTHON_INSTALL_DIR/*/bin'],
    shows: ['$UV_PYTHON_INSTALL_DIR'],
    keeps: ['UV_PYTHON_INSTALL_DIR'],
  },
  { name: 'pixi', on: ['.pixi/bin'], shows: ['.pixi/bin', '.pixi/envs'] },
  // JavaScript. `etc/npmrc` of a prefix is npm's global configuration.
  {
    name: 'nvm',
    variables: { NVM_DIR: '.nvm' },
    on: ['$NVM_DIR/versions/node/*/bin'],
    shows: ['$NVM_DIR'],
    hides: ['$NVM_DIR/versions/node/*/etc'],
    keeps: ['NVM_DIR'],
  },
  {
    name: 'fnm',
    variables: { FNM_DIR: '.local/share/fnm' },
    on: ['$FNM_DIR', '$FNM_DIR/node-versions/*/installation/bin', '$FNM_DIR/aliases/*/bin'],
    shows: ['$FNM_DIR'],
    hides: ['$FNM_DIR/node-versions/*/installation/etc'],
    keeps: ['FNM_DIR'],
  },
  { name: 'volta', variables: { VOLTA_HOME: '.volta' }, on: ['$VOLTA_HOME/bin'], shows: ['$VOLTA_HOME'], keeps: ['VOLTA_HOME'] },
  { name: 'nodenv', variables: { NODENV_ROOT: '.nodenv' }, on: ['$NODENV_ROOT/shims', '$NODENV_ROOT/bin'], shows: ['$NODENV_ROOT'], keeps: ['NODENV_ROOT'] },
  { name: 'n', variables: { N_PREFIX: '' }, on: ['$N_PREFIX/bin'], shows: ['$N_PREFIX/bin', '$N_PREFIX/lib/node_modules', '$N_PREFIX/n'] },
  { name: 'npm global', on: ['.npm-global/bin', '.npm-packages/bin'], shows: ['.npm-global/bin', '.npm-global/lib', '.npm-packages/bin', '.npm-packages/lib'] },
  { name: 'pnpm', variables: { PNPM_HOME: '.local/share/pnpm' }, on: ['$PNPM_HOME', '$PNPM_HOME/bin'], shows: ['$PNPM_HOME'], keeps: ['PNPM_HOME'] },
  { name: 'bun', variables: { BUN_INSTALL: '.bun' }, on: ['$BUN_INSTALL/bin'], shows: ['$BUN_INSTALL/bin', '$BUN_INSTALL/install/global'] },
  { name: 'deno', variables: { DENO_INSTALL: '.deno' }, on: ['$DENO_INSTALL/bin'], shows: ['$DENO_INSTALL/bin'] },
  // Rust. CARGO_HOME holds credentials and caches: inside it is a directory of the sandbox's own.
  {
    name: 'rust',
    variables: { CARGO_HOME: '.cargo', RUSTUP_HOME: '.rustup' },
    on: ['$CARGO_HOME/bin'],
    shows: ['$CARGO_HOME/bin', '$RUSTUP_HOME'],
    keeps: ['RUSTUP_HOME'],
  },
  // Go
  { name: 'go', variables: { GOROOT: '' }, on: ['$GOROOT/bin'], shows: ['$GOROOT'], keeps: ['GOROOT'] },
  { name: 'go sdk', on: ['sdk/*/bin', '.local/go/bin'], shows: ['sdk/*', '.local/go'] },
  { name: 'go programs', variables: { GOPATH: 'go', GOBIN: '' }, on: ['$GOPATH/bin', '$GOBIN'], shows: ['$GOPATH/bin', '$GOBIN'] },
  // Java
  { name: 'sdkman', variables: { SDKMAN_DIR: '.sdkman' }, on: ['$SDKMAN_DIR/candidates/*/*/bin'], shows: ['$SDKMAN_DIR/candidates'], keeps: ['SDKMAN_DIR'] },
  // Ruby
  { name: 'rbenv', variables: { RBENV_ROOT: '.rbenv' }, on: ['$RBENV_ROOT/shims', '$RBENV_ROOT/bin'], shows: ['$RBENV_ROOT'], keeps: ['RBENV_ROOT'] },
  // several languages
  {
    name: 'asdf',
    variables: { ASDF_DATA_DIR: '.asdf', ASDF_DIR: '.asdf' },
    on: ['$ASDF_DATA_DIR/shims', '$ASDF_DIR/bin'],
    shows: ['$ASDF_DIR', '$ASDF_DATA_DIR', '.tool-versions'],
    keeps: ['ASDF_DIR', 'ASDF_DATA_DIR'],
  },
  {
    name: 'mise',
    variables: { MISE_DATA_DIR: '.local/share/mise' },
    on: ['$MISE_DATA_DIR/shims', '$MISE_DATA_DIR/installs/*/*/bin', '$MISE_DATA_DIR/installs/*/*'],
    shows: ['$MISE_DATA_DIR/shims', '$MISE_DATA_DIR/installs', '.tool-versions'],
  },
  // others
  { name: 'dotnet', variables: { DOTNET_ROOT: '.dotnet' }, on: ['$DOTNET_ROOT'], shows: ['$DOTNET_ROOT'], keeps: ['DOTNET_ROOT'] },
  { name: 'haskell', on: ['.ghcup/bin', '.cabal/bin'], shows: ['.ghcup', '.cabal/bin'] },
  { name: 'opam', on: ['.opam/*/bin'], shows: ['.opam/*'] },
  { name: 'lean', variables: { ELAN_HOME: '.elan' }, on: ['$ELAN_HOME/bin'], shows: ['$ELAN_HOME'], keeps: ['ELAN_HOME'] },
  { name: 'julia', on: ['.juliaup/bin'], shows: ['.juliaup', '.julia/juliaup'] },
  { name: 'homebrew', on: ['/home/linuxbrew/.linuxbrew/bin'], shows: ['/home/linuxbrew/.linuxbrew'] },
]

/** Where every system has its programs: these bring no toolchain, and show whenever /usr does. */
export const SYSTEM_PATH: ReadonlySet<string> = new Set(['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'])

/** Variables the table asks for. */
export const toolchainVariables: readonly string[] = [...new Set(toolchains.flatMap((row) => Object.keys(row.variables ?? {})))]

/** PATH entries outside home that bring what they belong to: /opt/x/bin shows /opt/x; a program of Nix needs the whole store. */
const outside = (real: string): string | undefined => {
  if (isWithin(real, '/nix/store')) return '/nix/store'
  const below = /^\/opt\/[^/]+/.exec(real)
  return below?.[0]
}

export type ShownTool = { readonly found: Found; readonly target: string; readonly ids: Ids }

export type Tools = {
  readonly shown: readonly ShownTool[]
  /** Paths inside to be covered. */
  readonly hides: readonly string[]
  readonly variables: ReadonlyMap<string, string>
}

type Wish = { readonly shows: Set<string>; readonly hides: Set<string>; readonly keeps: Map<string, string> }

type Asked = Pick<HostFacts, 'home' | 'homeReal' | 'variables' | 'searchPath'>

/** What the table wants to show, by the names that the caller uses, before anybody looked whether it is there. */
const wishes = (host: Asked): Wish => {
  let wish = wished.get(host.searchPath)
  if (wish === undefined) wished.set(host.searchPath, (wish = wishesOf(host)))
  return wish
}

// Asked before and after the look at the host; the list of entries stands for the facts, which are never changed.
const wished = new WeakMap<Asked['searchPath'], Wish>()

const wishesOf = (host: Asked): Wish => {
  const wish: Wish = { shows: new Set(), hides: new Set(), keeps: new Map() }
  const names = new Set<string>()
  for (const { name, real } of host.searchPath) if (!SYSTEM_PATH.has(name)) names.add(name).add(real)
  if (names.size === 0) return wish
  for (const row of toolchains) {
    const place = (path: string): string | undefined => placeOf(path, row, host)
    for (const pattern of row.on) {
      const wanted = place(pattern)
      if (wanted === undefined) continue
      for (const star of starsOf(wanted, names)) {
        for (const path of row.shows) add(wish.shows, place(path), star)
        for (const path of row.hides ?? []) add(wish.hides, place(path), star)
        for (const variable of row.keeps ?? []) {
          const value = place(`$${variable}`)
          if (value !== undefined) wish.keeps.set(variable, value)
        }
      }
    }
  }
  for (const entry of host.searchPath) add(wish.shows, outside(entry.real), [])
  return wish
}

const placeOf = (path: string, row: Toolchain, host: Asked): string | undefined => {
  if (path.startsWith('/')) return path
  if (!path.startsWith('$')) return `${host.home}/${path}`
  const slash = path.indexOf('/')
  const variable = slash < 0 ? path.slice(1) : path.slice(1, slash)
  const standard = row.variables?.[variable]
  // GOPATH may be a list: what `go install` fills is the first.
  const set = normalize(host.variables.get(variable)?.split(':')[0] ?? '')
  const base = set ?? (standard === undefined || standard === '' ? undefined : `${host.home}/${standard}`)
  return base === undefined ? undefined : slash < 0 ? base : `${base}${path.slice(slash)}`
}

// What the `*` of a pattern stand for, once for every name that matches.
const starsOf = (pattern: string, names: ReadonlySet<string>): string[][] => {
  const star = pattern.indexOf('*')
  if (star < 0) return names.has(pattern) ? [[]] : []
  const before = pattern.slice(0, star)
  const matches: string[][] = []
  for (const name of names) {
    if (!name.startsWith(before)) continue
    const wanted = pattern.split('/')
    const segments = name.split('/')
    if (wanted.length === segments.length && wanted.every((segment, i) => segment === '*' || segment === segments[i])) {
      matches.push(segments.filter((_, i) => wanted[i] === '*'))
    }
  }
  return matches
}

const add = (to: Set<string>, path: string | undefined, stars: readonly string[]): void => {
  if (path === undefined) return
  let next = 0
  const filled = path
    .split('/')
    .map((segment) => (segment === '*' ? stars[next++] : segment))
    .join('/')
  if (next <= stars.length) to.add(filled)
}

/** The paths that have to be looked up before `matchToolchains`. */
export const toolchainPlaces = (host: Asked): string[] => {
  const { shows, hides } = wishes(host)
  return [...shows, ...hides]
}

/** The toolchains that show. Nothing that holds home, sandlot's own directories or system directories is ever among them, whatever a variable says. */
export const matchToolchains = (host: HostFacts): Tools => {
  let tools = matched.get(host)
  if (tools === undefined) matched.set(host, (tools = match(host)))
  return tools
}

// Asked for by every sandbox of an engine, and the facts are the same.
const matched = new WeakMap<HostFacts, Tools>()

const match = (host: HostFacts): Tools => {
  const { shows, hides, keeps } = wishes(host)
  const shown = new Map<string, ShownTool>()
  for (const name of shows) {
    const found = host.found.get(name)
    if (found === undefined || found.kind === 'other' || isTooMuch(found.path, host) || isTooMuch(name, host)) continue
    // Showing it as `user`'s own costs an id map; worth it only where others may not read it.
    const ids: Ids = found.open || !isWithin(found.path, host.homeReal) ? 'system' : 'owner'
    shown.set(name, { found, target: name, ids })
    // Links that were made with resolved names lead there too.
    if (found.path !== name && !isWithin(found.path, '/usr')) shown.set(found.path, { found, target: found.path, ids })
  }
  const list = [...shown.values()].toSorted((a, b) => (a.target < b.target ? -1 : 1))
  const outermost = list.filter((tool) => !isWithin(tool.target, '/usr') && !list.some((other) => other !== tool && covers(other, tool)))
  const visible = (path: string): boolean => isWithin(path, '/usr') || outermost.some((tool) => isWithin(path, tool.target))
  return {
    shown: outermost,
    hides: [...hides].filter((path) => host.found.has(path) && outermost.some((tool) => isWithin(path, tool.target))),
    variables: new Map([...keeps].filter(([, value]) => host.found.has(value) && visible(value))),
  }
}

const covers = (outer: ShownTool, inner: ShownTool): boolean =>
  inner.target !== outer.target && isWithin(inner.target, outer.target) && inner.found.path === outer.found.path + inner.target.slice(outer.target.length)

// /usr shows anyway; the rest of the system is not a toolchain. What a variable names may be anything: it never shows home, a directory that holds
// one of the private ones, or sandlot's own.
const SYSTEM = ['/', '/usr', '/tmp', '/var', '/home', '/root', '/opt', '/mnt', '/srv', '/media']
const NEVER_WITHIN = ['/proc', '/sys', '/dev', '/run', '/etc', '/boot']
const PRIVATE = [
  '.ssh',
  '.gnupg',
  '.aws',
  '.azure',
  '.kube',
  '.docker',
  '.config',
  '.password-store',
  '.mozilla',
  '.local/share/keyrings',
  '.local/state',
  '.cache',
]

const isTooMuch = (path: string, host: HostFacts): boolean =>
  SYSTEM.includes(path) ||
  NEVER_WITHIN.some((directory) => isWithin(path, directory)) ||
  [host.home, host.homeReal].some((home) => isWithin(home, path) || PRIVATE.some((name) => overlaps(path, `${home}/${name}`))) ||
  overlaps(path, host.state) ||
  overlaps(path, host.cache)

const overlaps = (a: string, b: string): boolean => isWithin(a, b) || isWithin(b, a)
