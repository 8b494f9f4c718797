// An engine in this process, on the namespace driver, with its state in the caller's own directory: what the library and the CLI use.
// Nothing is looked at and nothing is started before the first sandbox is asked for.

import { join } from 'node:path'
import type { Capabilities } from '../driver/contract.ts'
import { createNamespaceDriver } from '../driver/namespace/driver.ts'
import type { Launcher } from '../driver/namespace/launcher.ts'
import { findPlaces } from '../host/facts.ts'
import { isSandlotError } from '../model/error.ts'
import type { HostFacts } from '../model/facts.ts'
import type { Trial } from '../host/doctor.ts'
import { withDefaults } from '../protocol/fields.ts'
import { hostPathInside } from '../policy/mount.ts'
import { makeView, type View, viewPlaces, type ViewRequest } from '../policy/view.ts'
import type { Handlers } from '../protocol/handlers.ts'
import type { Given } from '../protocol/operation/index.ts'
import { beginLocal, type Beginning, type LocalOptions } from './begin.ts'
import { createEngineCore, type EngineCore, type Planned } from './engine.ts'
import { systemCallFilter } from './filter.ts'
import { createHandlers } from './handlers.ts'
import { openRecord } from './record.ts'
import { userOf } from './user.ts'

export type LocalEngine = {
  readonly handlers: Handlers
  /** Throws `state.unusable`. */
  readonly stateDirectory: string
  capabilities(): Promise<Capabilities>
  close(): Promise<void>
}

/** `beginning`: steps that were taken already. `launcher`: one that is starting. */
export const createLocalEngine = (options: LocalOptions = {}, beginning: Beginning = beginLocal(options), launcher?: Promise<Launcher>): LocalEngine => {
  const { environment } = beginning
  let begun: { readonly core: EngineCore; readonly close: () => void } | undefined

  const plan = (input: Given<'sandbox.create'>): Planned => {
    const user = userOf(input.user)
    const request: ViewRequest = {
      root: input.root.kind === 'host' ? 'host' : { dir: input.root.path },
      grants: input.grants,
      here: input.here,
      cwd: input.cwd,
      tools: input.tools,
      env: new Map(Object.entries(input.env)),
      user,
    }
    const host = beginning.facts()
    const found = findPlaces(viewPlaces(request))
    // Without a place of the caller's own, commands start in the first directory that was granted.
    const first = input.here === undefined ? input.grants.find((grant) => found.get(grant.source)?.kind === 'directory') : undefined
    const view = makeView(request.cwd === undefined && first !== undefined ? { ...request, cwd: first.target ?? first.source } : request, host, found)
    return { ...view, ...(request.root === 'host' && { explainAbsent: (program) => explainAbsent(program, view, host, input.tools) }) }
  }

  const explainAbsent = async (program: string, view: View, host: HostFacts, tools: boolean): Promise<string | undefined> => {
    const { findHidden } = await import('../host/hidden.ts')
    const hidden = findHidden({
      program,
      searchPath: environment['PATH'] ?? '',
      home: host.homeReal,
      isVisible: (real) => hostPathInside(view, real) !== undefined,
      toolsLeftOut: !tools,
    })
    return hidden?.text
  }

  const core = (): EngineCore => {
    begun ??= (() => {
      const { state } = beginning.places()
      const record = openRecord(join(state, 'record'), beginning.id)
      const driver = createNamespaceDriver(beginning.launch, launcher)
      const engine = createEngineCore({ driver, plan, filter: () => systemCallFilter(beginning.places().cache), stateDirectory: state, record })
      const create: EngineCore['create'] = async (input, call) => {
        try {
          return await engine.create(input, call)
        } catch (error) {
          // What the host would have to give is looked up only now.
          throw (await import('../host/withheld.ts')).advise(error)
        }
      }
      return { core: { ...engine, create }, close: record.close }
    })()
    return begun.core
  }

  // A sandbox is made for real: nothing else tells as much about a host.
  const tryOut = async (): Promise<Trial> => {
    try {
      const sandbox = await core().create(withDefaults('sandbox.create', { ttlMs: 60_000 }) as Given<'sandbox.create'>, {
        id: 'doctor',
        deadlineMs: undefined,
        signal: undefined,
      })
      const { identity } = sandbox.info().report
      await sandbox.destroy()
      return { made: true, identity }
    } catch (error) {
      if (isSandlotError(error)) return { made: false, error }
      throw error
    }
  }

  return {
    handlers: createHandlers(core, async () => (await import('./system.ts')).createSystem(environment, async () => beginning.program(), tryOut)),
    get stateDirectory() {
      return beginning.places().state
    },
    capabilities: () => core().capabilities(),
    close: async () => {
      await begun?.core.close()
      begun?.close()
    },
  }
}
