// What is asked of sandlot itself rather than of a sandbox. Loaded when asked: no command pays for it.

import type { Trial } from '../host/doctor.ts'
import { GENERATION } from '../protocol/generation.ts'
import type { Doctor } from '../protocol/operation/system.ts'

export type System = {
  doctor(): Promise<Doctor>
  version(): Promise<{ readonly version: string; readonly generation: number; readonly node: string; readonly platform: string }>
}

export const createSystem = (environment: NodeJS.ProcessEnv, prepare: () => Promise<unknown>, tryOut: () => Promise<Trial>): System => ({
  doctor: async () => {
    const { diagnose } = await import('../host/doctor.ts')
    return diagnose({ environment, prepare, tryOut })
  },
  version: async () => {
    const { readFileSync } = await import('node:fs')
    const { join } = await import('node:path')
    const { installation } = await import('../host/paths.ts')
    const { version } = JSON.parse(readFileSync(join(installation, 'package.json'), 'utf8')) as { version: string }
    return { version, generation: GENERATION, node: process.version, platform: `${process.platform} ${process.arch}` }
  },
})
