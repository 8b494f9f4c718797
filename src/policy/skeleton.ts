// The lowest layer of root `host`: empty directories to mount on, links such as /bin, and the made /etc. The same for every sandbox of a launcher,
// so nothing in it may come from one sandbox's request.

import type { HostFacts } from '../model/facts.ts'
import type { SkeletonEntry } from '../model/mount.ts'
import { accounts, madeFiles } from './etc.ts'
import { matchToolchains } from './toolchain.ts'

const DIRECTORIES: readonly (readonly [path: string, mode: number])[] = [
  ['/usr', 0o755],
  ['/etc', 0o755],
  ['/dev', 0o755],
  ['/proc', 0o555],
  ['/run', 0o755],
  ['/run/lock', 0o1777],
  ['/tmp', 0o1777],
  ['/var', 0o755],
  ['/var/cache', 0o755],
  ['/var/lib', 0o755],
  ['/var/log', 0o755],
  ['/var/spool', 0o755],
  ['/var/tmp', 0o1777],
  ['/home', 0o755],
  ['/mnt', 0o755],
  ['/opt', 0o755],
  ['/srv', 0o755],
]

const LINKS: readonly (readonly [path: string, to: string])[] = [
  ['/etc/mtab', '../proc/self/mounts'],
  ['/var/run', '/run'],
  ['/var/lock', '/run/lock'],
]

/** Ordered, parents first, each path once. */
export const makeSkeleton = (host: HostFacts): SkeletonEntry[] => {
  const entries = new Map<string, SkeletonEntry>()
  const directory = (path: string, mode: number, owner = 0): void => {
    if (!entries.has(path)) entries.set(path, { entry: 'directory', path, mode, uid: owner, gid: owner })
  }
  // Where something is a mount point, its parents have to be there and open to pass.
  const parents = (path: string): void => {
    for (let at = path.indexOf('/', 1); at > 0; at = path.indexOf('/', at + 1)) directory(path.slice(0, at), 0o755)
  }
  const file = (path: string, mode: number, bytes: Uint8Array): void => {
    parents(path)
    entries.set(path, { entry: 'file', path, mode, uid: 0, gid: 0, bytes })
  }
  const link = (path: string, to: string): void => {
    parents(path)
    entries.set(path, { entry: 'link', path, to })
  }

  // A caller's home that is /root holds mount points of toolchains: others may pass, not list.
  directory('/root', host.home === '/root' || host.homeReal === '/root' ? 0o711 : 0o700)
  for (const [path, mode] of DIRECTORIES) directory(path, mode)
  for (const { login, home, uid } of accounts) if (login) directory(home, 0o755, uid)
  for (const top of host.top) {
    if ('link' in top) link(top.path, top.link)
    else directory(top.path, 0o755)
  }
  for (const found of host.etc) {
    if (found.kind === 'file') file(found.path, found.mode, found.bytes)
    else if (found.kind === 'link') link(found.path, found.to)
    else {
      parents(found.path)
      directory(found.path, 0o755)
    }
  }
  const encoder = new TextEncoder()
  for (const [path, text] of madeFiles(host.shell)) file(path, 0o644, encoder.encode(text))
  for (const [path, to] of LINKS) link(path, to)
  for (const { target, found } of matchToolchains(host).shown) {
    if (entries.has(target)) continue
    parents(target)
    if (found.kind === 'directory') directory(target, 0o755)
    else file(target, 0o644, new Uint8Array())
  }
  return [...entries.values()].toSorted((a, b) => (a.path < b.path ? -1 : 1))
}
