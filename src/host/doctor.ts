// What this host can do for a sandbox, what is missing and how to get it. Looking (`lookAround`) and judging (`judge`) are apart: the first only reads
// small files of the kernel and makes nothing, the second is pure. Works for everybody, in well under a second.

import { accessSync, constants } from 'node:fs'
import { release, userInfo } from 'node:os'
import { isSandlotError, type SandlotError } from '../model/error.ts'
import { findNative, findOnPath, packageHint } from './native.ts'
import { fileSystemOf, openPlaces } from './paths.ts'
import { containerOf, FILES as WITHHELD, lookAt, mountLines, namespaceSetting, procMasks as masksOf, wayOut } from './withheld.ts'

/** `failed`: no sandbox without it. `missing`: sandboxes work, but less holds or something cannot be had. */
export type Check = { readonly name: string; readonly state: 'ok' | 'missing' | 'failed'; readonly says: string; readonly fix?: string }

export type Diagnosis = { readonly ok: boolean; readonly checks: readonly Check[] }

/** What came of really making a sandbox. */
export type Trial = { readonly made: true; readonly identity: 'range' | 'subordinate' | 'single' } | { readonly made: false; readonly error: SandlotError }

export type DoctorOptions = {
  readonly environment: NodeJS.ProcessEnv
  /** Compiles the native program where that has to be done. */
  readonly prepare: () => Promise<unknown>
  /** Starts a launcher and makes a sandbox, if it can. It is only called when there is a program to start. */
  readonly tryOut: (program: string) => Promise<Trial>
}

/** Never throws; never needs root. */
export const diagnose = async (options: DoctorOptions): Promise<Diagnosis> => {
  const unprepared = await options.prepare().then(
    () => undefined,
    (error: unknown) => (error instanceof Error ? error : new Error(String(error))),
  )
  const seen = lookAround(options.environment, unprepared)
  const trial = seen.native.program === undefined ? undefined : await options.tryOut(seen.native.program)
  return judge(seen, trial)
}

type Disk = { readonly path: string; readonly fileSystem: string; readonly memoryUpper: boolean; readonly freeBytes: number }

/** Facts about the host, none of them judged. */
export type Seen = {
  readonly kernel: string
  readonly node: string
  readonly arch: string
  readonly uid: number
  readonly user: string
  readonly state: Disk | SandlotError
  readonly native: { readonly program: string | undefined; readonly compiler: string | undefined; readonly error?: Error | undefined }
  /** Files of /proc, /sys and /etc by path; absent and unreadable ones are missing. */
  readonly files: ReadonlyMap<string, string>
  /** Programs on PATH by name. */
  readonly programs: ReadonlyMap<string, string>
  /** The sandbox's cgroup could be made below ours. */
  readonly cgroupWritable: boolean
}

const FILES = [
  ...WITHHELD,
  '/etc/os-release',
  '/etc/subuid',
  '/etc/subgid',
  '/proc/filesystems',
  '/proc/self/cgroup',
  '/proc/self/uid_map',
  '/proc/sys/kernel/seccomp/actions_avail',
  '/sys/devices/system/cpu/smt/active',
  '/sys/kernel/mm/ksm/run',
  '/sys/kernel/security/lsm',
]

export const lookAround = (environment: NodeJS.ProcessEnv, unprepared?: Error): Seen => {
  const { files, uid } = lookAt(FILES)
  const path = `${environment['PATH'] ?? ''}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin`
  const programs = new Map<string, string>()
  for (const name of ['newuidmap', 'newgidmap', 'cc', 'gcc', 'clang']) {
    const found = findOnPath(name, path)
    if (found !== undefined) programs.set(name, found)
  }
  let state: Seen['state']
  let program: string | undefined
  try {
    const places = openPlaces(environment)
    const { name, memoryUpper, freeBytes } = fileSystemOf(places.state)
    state = { path: places.state, fileSystem: name, memoryUpper, freeBytes }
    program = findNative({ cache: places.cache, environment })
  } catch (error) {
    if (!isSandlotError(error)) throw error
    state = error as SandlotError
  }
  let user = ''
  try {
    user = userInfo().username
  } catch {}
  return {
    kernel: release(),
    node: process.versions.node,
    arch: process.arch,
    uid,
    user,
    state,
    native: { program, compiler: programs.get('cc') ?? programs.get('gcc') ?? programs.get('clang'), error: unprepared },
    files,
    programs,
    cgroupWritable: cgroupDirectories(files.get('/proc/self/mountinfo') ?? '', files.get('/proc/self/cgroup') ?? '').some(isWritable),
  }
}

const isWritable = (path: string): boolean => {
  try {
    accessSync(path, constants.W_OK)
    return true
  } catch {
    return false
  }
}

// Where our own cgroup of each hierarchy is mounted.
const cgroupDirectories = (mountinfo: string, own: string): string[] => {
  const mounts = mountLines(mountinfo)
  return own.split('\n').flatMap((line) => {
    const [id, controllers, path] = line.split(':')
    if (path === undefined) return []
    const mount =
      id === '0'
        ? mounts.find((m) => m.type === 'cgroup2')
        : mounts.find((m) => m.type === 'cgroup' && controllers!.split(',').every((name) => m.superOptions.split(',').includes(name)))
    if (mount === undefined) return []
    // The mount may show only a part of the hierarchy, as a container's does.
    const below = mount.root !== '/' && (path === mount.root || path.startsWith(`${mount.root}/`)) ? path.slice(mount.root.length) : path
    return [`${mount.point}${below === '/' ? '' : below}`]
  })
}

// --- judging

const ok = (name: string, says: string): Check => ({ name, state: 'ok', says })
const missing = (name: string, says: string, fix?: string): Check =>
  fix === undefined ? { name, state: 'missing', says } : { name, state: 'missing', says, fix }
const failed = (name: string, says: string, fix?: string): Check => (fix === undefined ? { name, state: 'failed', says } : { name, state: 'failed', says, fix })

/** Most important first. `trial` is undefined when there was no program to try with. */
export const judge = (seen: Seen, trial: Trial | undefined): Diagnosis => {
  const checks = [
    sandbox(seen, trial),
    kernel(seen),
    stateDirectory(seen),
    program(seen),
    ids(seen, trial),
    overlay(seen),
    seccomp(seen),
    cgroups(seen),
    missing('limits', 'not enforced yet: memory, processes, cpu and disk of a sandbox have no limit; deadlines hold'),
    landlock(seen),
    container(seen, trial),
    procMasks(seen, trial),
    sharing(seen),
    node(seen),
  ].filter((check) => check !== undefined)
  return { ok: checks.every((check) => check.state !== 'failed'), checks }
}

const sandbox = (seen: Seen, trial: Trial | undefined): Check => {
  const name = 'sandbox'
  if (trial?.made === true) return ok(name, 'one was made and ended: namespaces, mounts and filter work')
  const setting = namespaceSetting(seen)
  if (trial === undefined) {
    if (setting !== undefined) return failed(name, setting.says, setting.fix)
    if (seen.state instanceof Error) return missing(name, 'not tried: there is no state directory')
    return failed(name, 'not tried: there is no native program')
  }
  const { error } = trial
  if (setting !== undefined) return failed(name, `${setting.says} (${error.message})`, setting.fix)
  return failed(name, error.message, wayOut(error, seen) ?? error.hint)
}

/** Every feature that no sandbox can do without is in 5.12: openat2, clone3 into a cgroup, mount_setattr with an id map. */
const KERNEL_NEEDED = [5, 12] as const
/** Overlays over id-mapped layers. */
const KERNEL_GOOD = [5, 19] as const

const isAtLeast = (version: string, [major, minor]: readonly [number, number]): boolean => {
  const [have = 0, haveMinor = 0] = version.split('.').map((part) => Number.parseInt(part, 10))
  return have > major || (have === major && haveMinor >= minor)
}

const kernel = (seen: Seen): Check => {
  const name = 'kernel'
  if (!isAtLeast(seen.kernel, KERNEL_NEEDED)) return failed(name, `Linux ${seen.kernel} is too old`, `Linux ${KERNEL_NEEDED.join('.')} or later`)
  if (seen.uid === 0 && !isAtLeast(seen.kernel, KERNEL_GOOD))
    return missing(name, `Linux ${seen.kernel}: as root, files in overlays show as nobody's`, `Linux ${KERNEL_GOOD.join('.')} or later`)
  return ok(name, `Linux ${seen.kernel}`)
}

const GIB = 1024 ** 3

const stateDirectory = (seen: Seen): Check => {
  const name = 'state directory'
  const { state } = seen
  if (state instanceof Error) return failed(name, state.message, state.hint)
  const free = `${(state.freeBytes / GIB).toFixed(1)} GiB free`
  const says = `${state.path} on ${state.fileSystem}, ${free}`
  if (state.freeBytes < 64 * 1024 ** 2) return failed(name, says, 'free space there, or set SANDLOT_STATE_DIR')
  if (state.memoryUpper)
    return missing(
      name,
      `${says}: no overlay can be above it, so what a sandbox writes is kept in memory`,
      'set SANDLOT_STATE_DIR to a directory on ext4, xfs or btrfs (in a container: a volume)',
    )
  if (state.freeBytes < GIB) return missing(name, `${says}: little room for what sandboxes write`, 'free space there, or set SANDLOT_STATE_DIR')
  return ok(name, says)
}

const program = (seen: Seen): Check => {
  const name = 'native program'
  if (seen.native.program !== undefined) return ok(name, seen.native.program)
  if (seen.native.error !== undefined) return failed(name, seen.native.error.message, isSandlotError(seen.native.error) ? seen.native.error.hint : undefined)
  if (seen.native.compiler !== undefined) return ok(name, `not compiled yet; ${seen.native.compiler} will do it at the first use`)
  return failed(name, 'neither the program nor a C compiler is there', packageHint('compiler', seen.files.get('/etc/os-release') ?? ''))
}

const hasRange = (text: string | undefined, seen: Seen): boolean =>
  (text ?? '').split('\n').some((line) => line.startsWith(`${seen.user}:`) || line.startsWith(`${seen.uid}:`))

const ids = (seen: Seen, trial: Trial | undefined): Check | undefined => {
  const name = 'user ids'
  const identity = trial?.made === true ? trial.identity : undefined
  // Why there is none is said above.
  if (trial?.made === false && seen.uid === 0) return undefined
  if (identity === 'range' || (identity === undefined && seen.uid === 0)) return ok(name, 'each sandbox has 65,536 ids of its own')
  const helpers = seen.programs.has('newuidmap') && seen.programs.has('newgidmap')
  const range = hasRange(seen.files.get('/etc/subuid'), seen) && hasRange(seen.files.get('/etc/subgid'), seen)
  if (identity === 'subordinate' || (identity === undefined && helpers && range)) return ok(name, `the subordinate ids of ${seen.user}`)
  const less = 'one id only: files inside belong to `user`, there is no other user, and the init shares its id with commands'
  if (!helpers) return missing(name, `${less} (newuidmap is not there)`, 'Debian: apt install uidmap; Fedora: dnf install shadow-utils')
  if (!range)
    return missing(
      name,
      `${less} (no range in /etc/subuid and /etc/subgid)`,
      `as root: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 ${seen.user === '' ? 'USER' : seen.user}`,
    )
  return missing(
    name,
    `${less} (newuidmap did not give the range)`,
    'newuidmap and newgidmap have to be set-uid root, and the range in /etc/subuid has to hold 65,536 ids; in a container they need --cap-add SYS_ADMIN',
  )
}

const overlay = (seen: Seen): Check => {
  const name = 'overlayfs'
  if (/\boverlay\b/.test(seen.files.get('/proc/filesystems') ?? '')) return ok(name, 'in the kernel')
  if (seen.uid === 0) return ok(name, 'not loaded; the kernel loads it at the first use where it is a module')
  return missing(name, 'not in the kernel, or not loaded: an ordinary user cannot load it', 'as root: modprobe overlay')
}

const seccomp = (seen: Seen): Check =>
  seen.files.has('/proc/sys/kernel/seccomp/actions_avail')
    ? ok('seccomp', 'system calls are filtered')
    : failed('seccomp', 'the kernel cannot filter system calls', 'a kernel with CONFIG_SECCOMP_FILTER')

const cgroups = (seen: Seen): Check => {
  const name = 'cgroups'
  const mounts = mountLines(seen.files.get('/proc/self/mountinfo') ?? '')
  const one = mounts.some((mount) => mount.type === 'cgroup')
  const two = mounts.some((mount) => mount.type === 'cgroup2')
  const layout = one && two ? 'hybrid' : two ? 'v2' : one ? 'v1' : undefined
  if (layout === undefined) return missing(name, 'none are mounted: the processes of a sandbox are ended one by one')
  if (seen.cgroupWritable) return ok(name, `${layout}, and we may make our own`)
  return missing(
    name,
    `${layout}, and we may not make our own: the processes of a sandbox are ended one by one`,
    seen.uid === 0
      ? 'in a container: docker run --privileged, or a cgroup tree that can be written'
      : layout === 'v1'
        ? 'run as root'
        : 'run below systemd with delegation: systemd-run --user --scope -p Delegate=yes sandlot ...',
  )
}

const landlock = (seen: Seen): Check => {
  const modules = seen.files.get('/sys/kernel/security/lsm')?.trim()
  const there =
    modules === undefined
      ? 'not known whether the kernel has it'
      : modules.split(',').includes('landlock')
        ? 'the kernel has it'
        : 'the kernel does not have it'
  return missing('Landlock', `${there}; not used yet`)
}

const container = (seen: Seen, trial: Trial | undefined): Check | undefined => {
  const where = containerOf(seen)
  if (where === undefined) return undefined
  const says = `sandlot runs in ${where}`
  return trial?.made === true ? ok('container', says) : missing('container', `${says}, which may keep namespaces and mounts away`)
}

const procMasks = (seen: Seen, trial: Trial | undefined): Check | undefined => {
  const masks = masksOf(seen)
  if (masks.length === 0) return undefined
  const says = `${masks.length} places in /proc are covered, e.g. ${masks[0]!}`
  if (trial?.made === true || seen.uid === 0) return ok('/proc', says)
  return missing('/proc', `${says}: an ordinary user cannot make a new one`, 'docker run --security-opt systempaths=unconfined')
}

const sharing = (seen: Seen): Check => {
  const smt = seen.files.get('/sys/devices/system/cpu/smt/active')?.trim()
  const ksm = seen.files.get('/sys/kernel/mm/ksm/run')?.trim()
  const says = `threads of one core are ${smt === '1' ? 'shared (SMT on)' : smt === '0' ? 'not shared (SMT off)' : 'not known'}, equal pages are ${ksm === '1' ? 'merged (KSM on)' : 'not merged'}`
  return ksm === '1'
    ? missing('side channels', `${says}: what other programs hold can be guessed`, 'echo 2 > /sys/kernel/mm/ksm/run')
    : ok('side channels', `${says}; timing between sandboxes is not hidden`)
}

const NODE_NEEDED = [24, 12] as const

const node = (seen: Seen): Check =>
  isAtLeast(seen.node, NODE_NEEDED)
    ? ok('Node', `${seen.node} on ${seen.arch}`)
    : missing('Node', `${seen.node} is older than what is tested`, `Node ${NODE_NEEDED.join('.')} or later`)
