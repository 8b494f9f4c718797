// What is asked of sandlot itself rather than of a sandbox. Loaded when asked: no command pays for the doctor.

import { GENERATION } from '../protocol/generation.ts'
import type { Doctor } from '../protocol/operation/system.ts'

export type System = {
  doctor(): Promise<Doctor>
  version(): Promise<{ readonly version: string; readonly generation: number; readonly node: string; readonly platform: string }>
}

export const lazySystem = (_environment: NodeJS.ProcessEnv): System => ({
  doctor: async () => ({ ok: false, checks: [] }),
  version: async () => {
    const { readFileSync } = await import('node:fs')
    const { join } = await import('node:path')
    const { installation } = await import('../host/paths.ts')
    const { version } = JSON.parse(readFileSync(join(installation, 'package.json'), 'utf8')) as { version: string }
    return { version, generation: GENERATION, node: process.version, platform: `${process.platform} ${process.arch}` }
  },
})
