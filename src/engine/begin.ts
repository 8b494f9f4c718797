// The first steps of an engine in this process: where its directories are, what the host has, the launcher. Apart from local.ts because a caller that knows
// it will want a sandbox can take them while the rest of the engine is still being loaded, and the launcher starts meanwhile.

import { type Launcher, startLauncher } from '../driver/namespace/launcher.ts'
import { readFacts } from '../host/facts.ts'
import { findNative, openNative } from '../host/native.ts'
import { openPlaces, type Places } from '../host/paths.ts'
import type { HostFacts } from '../model/facts.ts'
import { viewQuestions } from '../policy/question.ts'
import { makeSkeleton } from '../policy/skeleton.ts'
import { randomId } from './id.ts'

export type LocalOptions = {
  /** Default: what the environment says. */
  readonly stateDirectory?: string
  /** The native program. Default: the one this package ships, or compiles at its first use. */
  readonly program?: string
  /** Told one line when something takes time, such as compiling the native program. */
  readonly onProgress?: (line: string) => void
}

export type Beginning = {
  readonly environment: NodeJS.ProcessEnv
  readonly id: string
  /** Throws `state.unusable`, `disk.full`. */
  places(): Places
  /** Asked for again when older than ten seconds: a toolchain may have been installed. */
  facts(): HostFacts
  /** The native program, at once where it is there. */
  program(): string | Promise<string>
  /** Starts a launcher. */
  launch(): Promise<Launcher>
}

const FRESH_MS = 10_000

export const beginLocal = (options: LocalOptions = {}): Beginning => {
  const environment: NodeJS.ProcessEnv = options.stateDirectory === undefined ? process.env : { ...process.env, SANDLOT_STATE_DIR: options.stateDirectory }
  const id = randomId()
  let places: Places | undefined
  let known: { readonly host: HostFacts; readonly atMs: number } | undefined

  const openedPlaces = (): Places => (places ??= openPlaces(environment))

  const facts = (): HostFacts => {
    const now = performance.now()
    if (known === undefined || now - known.atMs > FRESH_MS) known = { host: readFacts(environment, openedPlaces(), viewQuestions), atMs: now }
    return known.host
  }

  const program = (): string | Promise<string> => {
    if (options.program !== undefined) return options.program
    const native = { cache: openedPlaces().cache, environment, onProgress: options.onProgress }
    return findNative(native) ?? openNative(native)
  }

  const launch = async (): Promise<Launcher> => {
    const found = program()
    const start = (file: string): Launcher =>
      startLauncher({ program: file, stateDirectory: openedPlaces().state, id, secret: randomId(), skeleton: makeSkeleton(facts()), permit: [] })
    // No await where the program is there: the launcher starts before this returns.
    return typeof found === 'string' ? start(found) : start(await found)
  }

  return { environment, id, places: openedPlaces, facts, program, launch }
}
