// The namespace driver: Linux namespaces, set up by our own launcher, with no daemon and no root.
//
// Who runs as whom: the launcher runs as the caller (as an ordinary user inside one user namespace it entered at its start); each box has a user
// namespace of its own in which host uid 0 does not exist; its init runs as a reserved id and keeps SETUID, SETGID and KILL inside; commands run with nothing.
// What dies with what: engine gone -> control channel ends -> launcher ends every box. Launcher killed -> every init dies. Init gone -> the kernel ends
// every process of its pid namespace. Connection of a box closed -> its init ends it, the launcher removes cgroups and directories and says GONE.

import type { Box, BoxSpec, Capabilities, Driver } from '../contract.ts'
import { SandlotError } from '../../model/error.ts'
import type { Report } from '../../model/report.ts'
import { fieldFrame, kinds, tags } from '../../protocol/frame.ts'
import { GENERATION } from '../../protocol/generation.ts'
import type { Launcher } from './launcher.ts'
import { putPlan } from './plan.ts'

// How long an init may take to die of the end of its connection before the launcher kills it.
const DESTROY_MS = 2_000

/** `launch` starts a launcher: called at the first need of one, and again when that failed. `started`: one that is starting already. */
export const createNamespaceDriver = (launch: () => Promise<Launcher>, started?: Promise<Launcher>): Driver => {
  let launcher = started
  let closed = false

  const launched = (): Promise<Launcher> => {
    if (closed) throw new SandlotError('sandbox.lost', 'the driver is closed')
    if (launcher !== undefined) return launcher
    const starting = launch()
    launcher = starting
    // One that could not start is not asked again.
    starting
      .then((found) => found.ready)
      .catch(() => {
        if (launcher === starting) launcher = undefined
      })
    return starting
  }

  const create = async (spec: BoxSpec): Promise<Box> => {
    const to = await launched()
    const first = fieldFrame(kinds.CREATE, 0, (fields) => {
      fields.u32(tags.GENERATION, GENERATION).text(tags.BOX, spec.id).text(tags.SECRET, to.secret).text(tags.HOSTNAME, spec.hostname).u32(tags.CGROUP, 1)
      putPlan(fields, spec.plan)
      if (spec.filter !== undefined) fields.bytes(tags.FILTER, spec.filter)
    })
    const { channel, gone } = await to.open(spec.id, first)
    let destroyed: Promise<void> | undefined
    return {
      id: spec.id,
      connect: async () => channel,
      report: async (welcome) => reportOf((await to.ready).identity, spec, welcome.features, welcome.missing),
      changes: () => to.changes(spec.id),
      destroy: () =>
        (destroyed ??= (async () => {
          channel.close()
          const late = setTimeout(() => to.discard(spec.id), DESTROY_MS)
          await to.waitFor(gone)
          clearTimeout(late)
        })()),
      gone,
    }
  }

  return {
    name: 'namespace',
    level: 'container',
    capabilities: async () => capabilitiesOf((await (await launched()).ready).identity),
    prepare: async () => {
      await launched()
    },
    create,
    close: async () => {
      closed = true
      const started = await launcher?.catch(() => undefined)
      await started?.close()
    },
  }
}

const capabilitiesOf = (identity: Report['identity']): Capabilities => ({
  hostRoot: true,
  directoryRoot: true,
  grants: true,
  overlays: true,
  users: identity !== 'single',
  memoryLimit: false,
  attach: false,
})

const reportOf = (identity: Report['identity'], spec: BoxSpec, features: readonly string[], missing: readonly string[]): Report => ({
  driver: 'namespace',
  level: 'container',
  identity,
  enforced: [
    { layer: 'user namespace', holds: 'host uid 0 does not exist inside; no capability reaches the host' },
    { layer: 'mount namespace', holds: 'only what the plan names is visible' },
    { layer: 'pid namespace', holds: 'no process of the host is visible; all end with the sandbox' },
    { layer: 'network namespace', holds: 'loopback only' },
    { layer: 'ipc, uts and cgroup namespaces', holds: 'shared memory, host name and cgroup paths of the host are out of reach' },
    { layer: 'no_new_privs, empty capability sets', holds: 'nothing gains rights by running a program' },
    ...(spec.filter === undefined ? [] : [{ layer: 'seccomp', holds: 'system calls that commands have no use for are refused' }]),
    ...features.filter((feature) => feature.startsWith('cgroup:')).map((feature) => ({ layer: feature, holds: 'its processes can be ended at once' })),
  ],
  missing: [
    ...missing.map((text) => {
      const [layer = text, reason = text] = text.split(/: (.*)/s)
      return { layer, reason }
    }),
    ...(spec.plan.some((step) => 'upper' in step && step.upper.kind === 'memory')
      ? [{ layer: 'upper', reason: 'writes are kept in memory: the state directory lies where no overlay can be above it' }]
      : []),
    { layer: 'limits', reason: 'memory, processes, cpu and disk are not limited yet' },
    { layer: 'Landlock', reason: 'not used yet' },
  ],
})
