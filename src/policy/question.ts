// What has to be known about the host before anything can be decided.

import type { Questions } from '../model/facts.ts'
import { keptPaths, keptVariables } from './environment.ts'
import { etcTable } from './etc.ts'
import { SYSTEM_PATH, toolchainPlaces, toolchainVariables } from './toolchain.ts'

/** What has to be known about the host for `makeView` and `makeSkeleton`. */
export const viewQuestions: Questions = {
  variables: [...new Set([...keptVariables, ...keptPaths, ...toolchainVariables])],
  standardPath: SYSTEM_PATH,
  etc: etcTable,
  places: (host) => toolchainPlaces(host),
}
