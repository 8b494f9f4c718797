// An engine in this process, on the namespace driver, with its state in the caller's own directory: what the library and the CLI use.
// Nothing is looked at and nothing is started before the first sandbox is asked for.

import { join } from 'node:path'
import type { Capabilities } from '../driver/contract.ts'
import { createNamespaceDriver } from '../driver/namespace/driver.ts'
import { findPlaces, readFacts } from '../host/facts.ts'
import { findNative, openNative } from '../host/native.ts'
import { openPlaces, type Places } from '../host/paths.ts'
import { isSandlotError } from '../model/error.ts'
import type { HostFacts } from '../model/facts.ts'
import type { Trial } from '../host/doctor.ts'
import { withDefaults } from '../protocol/fields.ts'
import { filterFor } from '../policy/seccomp.ts'
import { makeSkeleton } from '../policy/skeleton.ts'
import { hostPathInside } from '../policy/mount.ts'
import { makeView, type View, viewPlaces, viewQuestions, type ViewRequest } from '../policy/view.ts'
import type { Handlers } from '../protocol/handlers.ts'
import type { Given } from '../protocol/operation/index.ts'
import { createEngineCore, type EngineCore, type Planned } from './engine.ts'
import { createHandlers } from './handlers.ts'
import { randomId } from './id.ts'
import { openRecord } from './record.ts'
import { lazySystem } from './system.ts'
import { userOf } from './user.ts'

export type LocalEngine = {
  readonly handlers: Handlers
  /** Throws `state.unusable`. */
  readonly stateDirectory: string
  capabilities(): Promise<Capabilities>
  close(): Promise<void>
}

export type LocalOptions = {
  /** Default: what the environment says. */
  readonly stateDirectory?: string
  /** The native program. Default: the one this package ships, or compiles at its first use. */
  readonly program?: string
  /** Told one line when something takes time, such as compiling the native program. */
  readonly onProgress?: (line: string) => void
}

// Facts of the host are asked for again after this long: a toolchain may have been installed.
const FRESH_MS = 10_000

export const createLocalEngine = (options: LocalOptions = {}): LocalEngine => {
  const environment: NodeJS.ProcessEnv = options.stateDirectory === undefined ? process.env : { ...process.env, SANDLOT_STATE_DIR: options.stateDirectory }
  const id = randomId()
  let places: Places | undefined
  let facts: { readonly host: HostFacts; readonly atMs: number } | undefined
  let begun: { readonly core: EngineCore; readonly close: () => void } | undefined

  const openedPlaces = (): Places => (places ??= openPlaces(environment))

  const hostFacts = (): HostFacts => {
    const now = performance.now()
    if (facts === undefined || now - facts.atMs > FRESH_MS) facts = { host: readFacts(environment, openedPlaces(), viewQuestions), atMs: now }
    return facts.host
  }

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
    const host = hostFacts()
    const view = makeView(request, host, findPlaces(viewPlaces(request)))
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

  const program = (): string | Promise<string> => {
    if (options.program !== undefined) return options.program
    const native = { cache: openedPlaces().cache, environment, onProgress: options.onProgress }
    return findNative(native) ?? openNative(native)
  }

  const core = (): EngineCore => {
    begun ??= (() => {
      const { state } = openedPlaces()
      const record = openRecord(join(state, 'record'), id)
      const driver = createNamespaceDriver({
        program,
        stateDirectory: state,
        launcherId: id,
        skeleton: () => makeSkeleton(hostFacts()),
      })
      const engine = createEngineCore({ driver, plan, filter: () => filterFor(process.arch === 'arm64' ? 'arm64' : 'x64'), stateDirectory: state, record })
      return { core: engine, close: record.close }
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
    handlers: createHandlers(
      core,
      lazySystem(environment, async () => program(), tryOut),
    ),
    get stateDirectory() {
      return openedPlaces().state
    },
    capabilities: () => core().capabilities(),
    close: async () => {
      await begun?.core.close()
      begun?.close()
    },
  }
}
