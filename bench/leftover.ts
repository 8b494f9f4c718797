// What a sandbox may leave behind: processes, mounts, cgroups, network namespaces, directories, open files. Taken from the host's own /proc and not from the
// engine's books, before and after, so that what is left can be named. Other engines at work on the machine are told apart where the kernel shows it.
import { readdir, readFile, readlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export type Kind = 'processes' | 'mounts' | 'cgroups' | 'network namespaces' | 'directories' | 'open files'

/** Each thing by a name that stays the same while it lives; equal names may repeat. */
export type Inventory = Readonly<Record<Kind, readonly string[]>>

type Process = { readonly pid: number; readonly parent: number; readonly born: string; readonly name: string; readonly dead: boolean; readonly space: string }

// Whatever vanishes while we look was not left behind.
const list = (path: string): Promise<string[]> => readdir(path).catch(() => [])
const text = (path: string): Promise<string> => readFile(path, 'utf8').catch(() => '')
const link = (path: string): Promise<string> => readlink(path).catch(() => '')

const processes = async (): Promise<Process[]> => {
  const found: Process[] = []
  for (const entry of await list('/proc')) {
    const stat = /^\d+$/.test(entry) ? await text(`/proc/${entry}/stat`) : ''
    const [, name, rest] = /^\d+ \((.*)\) (.*)$/s.exec(stat) ?? []
    if (name === undefined || rest === undefined) continue
    const fields = rest.split(' ')
    found.push({
      pid: Number(entry),
      parent: Number(fields[1]),
      born: fields[19]!,
      name,
      dead: fields[0] === 'Z' || fields[0] === 'X',
      space: await link(`/proc/${entry}/ns/pid`),
    })
  }
  return found
}

/** Processes below `pid`, at any depth. */
export const below = async (pid: number, all?: readonly Process[]): Promise<readonly Process[]> => {
  const everyone = all ?? (await processes())
  const found: Process[] = []
  const ids = new Set([pid])
  for (let size = -1; size !== found.length;) {
    size = found.length
    for (const one of everyone) {
      if (!ids.has(one.parent) || ids.has(one.pid)) continue
      ids.add(one.pid)
      found.push(one)
    }
  }
  return found
}

const cgroups = async (directory = '/sys/fs/cgroup', depth = 5): Promise<string[]> => {
  const found: string[] = []
  const entries = await readdir(directory, { withFileTypes: true }).catch(() => [])
  for (const entry of entries) {
    if (!entry.isDirectory()) continue
    const path = join(directory, entry.name)
    if (entry.name.startsWith('sandlot')) found.push(path)
    if (depth > 0) found.push(...(await cgroups(path, depth - 1)))
  }
  return found
}

/** The files that a process holds, without the numbers that differ from one socket or pipe to the next. */
const files = async (pid: number): Promise<string[]> => {
  const links = await Promise.all((await list(`/proc/${pid}/fd`)).map((fd) => link(`/proc/${pid}/fd/${fd}`)))
  return links.filter((target) => target !== '' && target !== `/proc/${pid}/fd`)
}

/** Whose things are looked for. */
export type Whose = {
  /** The state directory, of this engine alone. */
  readonly state: string
  /** The engine's process; default: this one. */
  readonly pid?: number
  /** Ids of its launchers, which their cgroups are named after; default: those that the state directory shows. */
  readonly launchers?: readonly string[]
}

/** The ids of the launchers that a state directory shows. */
export const launchersOf = (state: string): Promise<string[]> => list(join(state, 'launcher'))

/** Everything there is now that an engine could leave. */
export const inventory = async ({ state, pid = process.pid, launchers }: Whose): Promise<Inventory> => {
  const ids = launchers ?? (await launchersOf(state))
  const everyone = await processes()
  const own = await link('/proc/self/ns/pid')
  // Ours: what is below the engine, and orphans that live in a pid namespace of their own, unless their cgroup says that they are another launcher's.
  // The dead wait for the host's own init, which may take its time.
  const orphans: Process[] = []
  for (const one of everyone) {
    if (one.parent !== 1 || one.dead || one.space === '' || one.space === own) continue
    const group = await text(`/proc/${one.pid}/cgroup`)
    if (!group.includes('/sandlot-') || ids.some((id) => group.includes(id))) orphans.push(one)
  }
  const family = new Map<number, Process>()
  for (const root of [pid, ...orphans.map((one) => one.pid)]) for (const one of await below(root, everyone)) family.set(one.pid, one)
  for (const one of orphans) family.set(one.pid, one)

  const held = (await Promise.all([pid, ...family.keys()].map(async (one) => (await files(one)).map((target) => [one, target] as const)))).flat()
  const networks = await Promise.all([...family.keys()].map((one) => link(`/proc/${one}/ns/net`)))
  const mounts = (await text('/proc/self/mountinfo')).trimEnd().split('\n')
  const host = await link('/proc/self/ns/net')
  return {
    'processes': [...family.values()].map(({ pid: id, born, name }) => `${id} ${name} ${born}`),
    'mounts': mounts.map((line) => line.split(' ').slice(2, 5).join(' ')),
    'cgroups': (await cgroups()).filter((path) => ids.some((id) => path.includes(id))),
    'network namespaces': [...new Set([...networks, ...held.map(([, target]) => target)])].filter((name) => name.startsWith('net:') && name !== host),
    'directories': [
      ...(await readdir(state, { recursive: true }).catch(() => [])).filter((path) => path.includes('/') && !path.startsWith('record/')),
      ...(await list(tmpdir())).filter((name) => name.startsWith('sandlot')),
    ],
    'open files': held.map(([one, target]) => `${one} ${target.replace(/^(\w+):\[.*/, '$1')}`),
  }
}

/** What is in `after` and was not in `before`, by kind. */
export const leftover = (before: Inventory, after: Inventory): Inventory => {
  const more = (kind: Kind): string[] => {
    const had = new Map<string, number>()
    for (const name of before[kind]) had.set(name, (had.get(name) ?? 0) + 1)
    return after[kind].filter((name) => {
      const count = had.get(name) ?? 0
      had.set(name, count - 1)
      return count <= 0
    })
  }
  return {
    'processes': more('processes'),
    'mounts': more('mounts'),
    'cgroups': more('cgroups'),
    'network namespaces': more('network namespaces'),
    'directories': more('directories'),
    'open files': more('open files'),
  }
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** An inventory at rest: what is only kept while there is work has gone, and half a second has changed nothing. */
export const atRest = async (whose: Whose): Promise<Inventory> => {
  await pause(2000)
  for (let last = await inventory(whose); ;) {
    await pause(500)
    const now = await inventory(whose)
    if (JSON.stringify(now) === JSON.stringify(last)) return now
    last = now
  }
}

/** Looks again until nothing is left or `withinMs` is over; what is then left. */
export const settle = async (before: Inventory, whose: Whose, withinMs: number): Promise<Inventory> => {
  const until = performance.now() + withinMs
  for (;;) {
    const left = leftover(before, await inventory(whose))
    if (performance.now() >= until || Object.values(left).every((names) => names.length === 0)) return left
    await pause(50)
  }
}
