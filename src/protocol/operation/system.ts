// What is asked of sandlot itself.

import type { Build, Infer } from '../schema.ts'
import type { Operation } from './operation.ts'

const check = (s: Build) =>
  s.object(
    {
      name: s.string('what was looked at, a word or two'),
      state: s.choice('`ok`: there; `missing`: works without, but less holds; `failed`: no sandbox without it', ['ok', 'missing', 'failed']),
      says: s.string('what was found'),
      fix: s.optional(s.string('what would help: a setting or a package')),
    },
    { name: 'Check' },
  )

const doctor = (s: Build) =>
  s.object(
    { ok: s.boolean('sandboxes can be made here'), checks: s.list(check(s), 'what was looked at, most important first') },
    { name: 'Doctor', doc: 'What this host can do, what is missing and how to get it' },
  )

/** What this host can do. */
export type Doctor = Infer<ReturnType<typeof doctor>>

export const systemDoctor = {
  name: 'system.doctor',
  doc: 'What this host can do, what is missing and how to get it, what is not enforced.',
  input: (s: Build) => s.object({}),
  output: doctor,
  errors: [],
} as const satisfies Operation

export const systemVersion = {
  name: 'system.version',
  doc: 'Which sandlot this is.',
  input: (s: Build) => s.object({}),
  output: (s: Build) =>
    s.object({
      version: s.string('of the package'),
      generation: s.integer('of the protocol', { min: 1 }),
      node: s.string('version of the runtime'),
      platform: s.string('system and architecture'),
    }),
  errors: [],
} as const satisfies Operation
