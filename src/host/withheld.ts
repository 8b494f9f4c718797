// What a host or a container withholds, and how it is had: read when something was refused, never on the way of a sandbox that can be made.
// Looking (`lookAt`) and judging (the rest, pure) are apart.

import { readFileSync } from './node-fs.ts'
import { isSandlotError, SandlotError } from '../model/error.ts'

/** Facts about the host. Files of /proc and the marks of containers by path; absent and unreadable ones are missing. */
export type Host = { readonly uid: number; readonly files: ReadonlyMap<string, string> }

export const FILES = [
  '/proc/self/attr/current',
  '/proc/self/mountinfo',
  '/proc/self/status',
  '/proc/sys/kernel/apparmor_restrict_unprivileged_userns',
  '/proc/sys/kernel/unprivileged_userns_clone',
  '/proc/sys/user/max_user_namespaces',
  '/proc/sys/user/max_mnt_namespaces',
  '/proc/sys/user/max_net_namespaces',
  '/proc/sys/user/max_pid_namespaces',
  '/.dockerenv',
  '/run/.containerenv',
  '/run/systemd/container',
] as const

export const lookAt = (paths: readonly string[]): Host => {
  const files = new Map<string, string>()
  for (const path of paths) {
    try {
      files.set(path, readFileSync(path, 'latin1').slice(0, 1_000_000))
    } catch {}
  }
  return { uid: process.geteuid?.() ?? -1, files }
}

/** A refusal with the hint that fits this host; anything else as it is. */
export const advise = (error: unknown): unknown => {
  if (!isSandlotError(error)) return error
  const hint = wayOut(error, lookAt(FILES))
  return hint === undefined ? error : new SandlotError(error.code, error.message, { hint, detail: error.detail, cause: error.cause })
}

export type MountLine = { readonly root: string; readonly point: string; readonly type: string; readonly superOptions: string }

/** proc_pid_mountinfo(5): id parent dev root point options [optional...] - type source superoptions */
export const mountLines = (mountinfo: string): MountLine[] =>
  mountinfo.split('\n').flatMap((line) => {
    const [before, after] = line.split(' - ')
    const fields = before?.split(' ') ?? []
    const [type, , superOptions = ''] = after?.split(' ') ?? []
    return type === undefined || fields.length < 6 ? [] : [{ root: fields[3]!, point: fields[4]!, type, superOptions }]
  })

const mountsOf = (host: Host): MountLine[] => mountLines(host.files.get('/proc/self/mountinfo') ?? '')

/** What this is a container of; undefined when it is none. */
export const containerOf = (host: Host): string | undefined => {
  const named = host.files.get('/run/systemd/container')?.trim()
  if (host.files.has('/.dockerenv')) return 'Docker'
  if (host.files.has('/run/.containerenv')) return 'Podman'
  if (named !== undefined && named !== '') return named
  return mountsOf(host).find((mount) => mount.point === '/')?.type === 'overlay' ? 'a container (its root is an overlay)' : undefined
}

/** Places in /proc that something is mounted over. The kernel then lets nobody but root mount a fresh one (mount_too_revealing in fs/namespace.c). */
export const procMasks = (host: Host): string[] =>
  mountsOf(host)
    .filter((mount) => mount.point.startsWith('/proc/') && mount.type !== 'binfmt_misc' && mount.type !== 'autofs')
    .map(({ point }) => point)

const sysctl = (host: Host, name: string): number | undefined => {
  const text = host.files.get(`/proc/sys/${name.replaceAll('.', '/')}`)
  return text === undefined ? undefined : Number(text.trim())
}

/** The setting that keeps user namespaces away, if one does: the likeliest. */
export const namespaceSetting = (host: Host): { readonly says: string; readonly fix: string } | undefined => {
  if (sysctl(host, 'user.max_user_namespaces') === 0) {
    return { says: 'user namespaces are off: user.max_user_namespaces is 0', fix: 'sysctl -w user.max_user_namespaces=15000' }
  }
  for (const kind of ['mnt', 'net', 'pid']) {
    if (sysctl(host, `user.max_${kind}_namespaces`) === 0) {
      return { says: `namespaces are off: user.max_${kind}_namespaces is 0`, fix: `sysctl -w user.max_${kind}_namespaces=15000` }
    }
  }
  if (host.uid === 0) return undefined
  if (sysctl(host, 'kernel.unprivileged_userns_clone') === 0) {
    return { says: 'user namespaces are for root only: kernel.unprivileged_userns_clone is 0', fix: 'sysctl -w kernel.unprivileged_userns_clone=1' }
  }
  if (sysctl(host, 'kernel.apparmor_restrict_unprivileged_userns') === 1) {
    return {
      says: 'AppArmor takes the rights away in user namespaces of ordinary users: kernel.apparmor_restrict_unprivileged_userns is 1',
      fix: 'sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or run as root',
    }
  }
  return undefined
}

const EPERM = 1
const ENOSPC = 28
const ENOSYS = 38
const STORES = 'ext4, xfs, btrfs or tmpfs (in a container: a volume)'

/** What to do about a refusal on this host; undefined when there is no better advice than that of the code. */
export const wayOut = (error: SandlotError, host: Host): string | undefined => {
  const { step, errno } = error.detail
  if (error.code === 'mount.ids' && String(step).startsWith('copy')) return `run in a smaller directory, keep this one on ${STORES}, or run as an ordinary user`
  const forbidden = errno === EPERM || (errno === ENOSYS && isFiltered(host))
  if (error.code !== 'userns.unavailable' && !(forbidden && ['mount.failed', 'launcher.failed', 'unsupported'].includes(error.code))) return undefined
  const setting = namespaceSetting(host)
  if (setting !== undefined) return setting.fix
  if (errno === ENOSPC) return 'end other sandboxes and containers, or raise the limit: sysctl -w user.max_user_namespaces=15000'
  const where = containerOf(host)
  if (where !== undefined) return containerOptions(host, where)
  const masks = procMasks(host)
  if (String(step).startsWith('mount /proc') && masks.length > 0) return `take away what covers parts of /proc (${masks[0]}), or run as root`
  if (host.uid === 0 && !hasAdmin(host)) return 'run as an ordinary user, or with CAP_SYS_ADMIN'
  return isFiltered(host) ? 'start sandlot outside of what put the filter on it: a service with SystemCallFilter=, another sandbox' : undefined
}

// All that stands in the way at once, so that nobody has to come back for the next.
const containerOptions = (host: Host, where: string): string => {
  const podman = where === 'Podman'
  const options = [
    isFiltered(host) && 'seccomp=unconfined',
    /\(enforce\)/.test(host.files.get('/proc/self/attr/current') ?? '') && 'apparmor=unconfined',
    procMasks(host).length > 0 && (podman ? 'unmask=ALL' : 'systempaths=unconfined'),
  ].flatMap((option) => (option === false ? [] : [`--security-opt ${option}`]))
  const who = host.uid === 0 && !hasAdmin(host) ? ['--user 1000 (or --cap-add SYS_ADMIN)'] : []
  const all = [...options, ...who]
  return `add to ${podman ? 'podman' : 'docker'} run: ${all.length === 0 ? '--privileged' : all.join(' ')}`
}

const isFiltered = (host: Host): boolean => /^Seccomp:\s*2$/m.test(host.files.get('/proc/self/status') ?? '')

const CAP_SYS_ADMIN = 1n << 21n

const hasAdmin = (host: Host): boolean => {
  const effective = /^CapEff:\s*([0-9a-f]+)$/m.exec(host.files.get('/proc/self/status') ?? '')?.[1]
  return effective === undefined || (BigInt(`0x${effective}`) & CAP_SYS_ADMIN) !== 0n
}
