// The life of a sandbox.

import type { Code } from '../../model/error.ts'
import type { Build, Infer } from '../schema.ts'
import type { Operation } from './operation.ts'

const report = (s: Build) =>
  s.object(
    {
      driver: s.string('what makes the boundary'),
      level: s.choice('how strong a boundary: of a process, a container, a user-space kernel, a machine', ['process', 'container', 'kernel', 'machine']),
      identity: s.choice("how ids are mapped: a private range, the caller's subordinate range, the caller's own id only", ['range', 'subordinate', 'single']),
      enforced: s.list(s.object({ layer: s.string('what enforces'), holds: s.string('what it holds') }), 'layers in force'),
      missing: s.list(s.object({ layer: s.string('what is not there'), reason: s.string('why') }), 'what was wished for and is not there'),
    },
    { name: 'Report', doc: 'What holds around a sandbox and by which layer; what does not' },
  )

const info = (s: Build) =>
  s.object(
    {
      id: s.string('id of the sandbox'),
      state: s.choice('where it is in its life', ['creating', 'ready', 'ending', 'ended']),
      driver: s.string('what makes the boundary'),
      root: s.string('what its root filesystem starts from: `host`, or `dir:` and a path'),
      labels: s.record(s.string('value'), "the caller's own marks"),
      createdAtMs: s.integer('milliseconds since the epoch', { min: 0 }),
      expiresAtMs: s.maybe(s.integer('when its time to live ends it, milliseconds since the epoch; absent: never', { min: 0 })),
      report: report(s),
      notes: s.list(s.string('a sentence'), 'what a person should know about what is visible, e.g. that the home directory is not'),
    },
    { name: 'SandboxInfo', doc: 'A sandbox as it is now' },
  )

const root = (s: Build) =>
  s.union(
    'kind',
    [
      s.object({ kind: s.literal('host') }, { doc: "the host's own system directories and toolchains, read-only" }),
      s.object(
        { kind: s.literal('dir'), path: s.string('absolute path on the host') },
        { doc: 'a directory as the lowest layer; writes go to the sandbox alone' },
      ),
    ],
    { name: 'Root', doc: 'what the root filesystem starts from' },
  )

/** What a root filesystem starts from. */
export type Root = Infer<ReturnType<typeof root>>

const grant = (s: Build) =>
  s.object(
    {
      source: s.string('absolute path on the host', { minLength: 1 }),
      target: s.optional(s.string('absolute path inside; left out: the same path', { minLength: 1 })),
      access: s.choice('`read`: read-only; `write`: writes are real; `overlay`: writes are kept aside and dropped at the end', ['read', 'write', 'overlay']),
    },
    { name: 'Grant', doc: 'A directory of the host and where it shows inside' },
  )

const id = (s: Build) => s.string('id of the sandbox', { minLength: 1 })

export const sandboxCreate = {
  name: 'sandbox.create',
  doc: 'Make a sandbox. Answers when it is ready for commands.',
  input: (s: Build) =>
    s.object({
      driver: s.optional(s.string('what makes the boundary; left out: the best one of this host', { minLength: 1 })),
      root: s.default(root(s), { kind: 'host' }),
      here: s.optional(
        s.string(
          'directory of the host that shows under its own name, with its writes kept aside: where the caller is. Left out of the view, with a note, where that would show too much',
          {
            minLength: 1,
          },
        ),
      ),
      cwd: s.optional(
        s.string('directory inside in which commands start; left out: `here` if it shows, else the first granted directory, else the home directory inside', {
          minLength: 1,
        }),
      ),
      grants: s.default(s.list(grant(s), 'directories and files of the host that show inside'), []),
      env: s.default(s.record(s.string('value'), 'environment variables of every command, over the ones a sandbox sets itself'), {}),
      user: s.default(s.string('who commands run as: `user`, `root`, `nobody`, or numbers as UID or UID:GID', { minLength: 1 }), 'user'),
      tools: s.default(s.boolean("show the caller's own toolchains (pyenv, nvm, rustup and others found on PATH), read-only"), true),
      hostname: s.default(s.string('name of the machine inside', { minLength: 1 }), 'sandlot'),
      labels: s.default(s.record(s.string('value'), "the caller's own marks, to find the sandbox again"), {}),
      ttlMs: s.optional(s.integer('time to live: the sandbox is destroyed this long after its creation; left out: never', { min: 1, unit: 'ms' })),
      memoryBytes: s.optional(s.integer('most memory that all its processes together may use; left out: no limit', { min: 1, unit: 'bytes' })),
    }),
  output: info,
  errors: [
    'unsupported',
    'grant.refused',
    'grant.not_found',
    'mount.failed',
    'mount.ids',
    'userns.unavailable',
    'native.unavailable',
    'launcher.failed',
    'state.unusable',
    'disk.full',
    'sandbox.lost',
    'sandbox.corrupted',
  ] satisfies Code[],
} as const satisfies Operation

export const sandboxGet = {
  name: 'sandbox.get',
  doc: 'What a sandbox is like now.',
  input: (s: Build) => s.object({ sandbox: id(s) }),
  output: info,
  errors: ['sandbox.not_found'] satisfies Code[],
} as const satisfies Operation

export const sandboxList = {
  name: 'sandbox.list',
  doc: 'The sandboxes of this engine, oldest first.',
  input: (s: Build) => s.object({ labels: s.default(s.record(s.string('value'), 'only those that carry all of these'), {}) }),
  output: (s: Build) => s.object({ sandboxes: s.list(info(s), 'oldest first') }),
  errors: [] satisfies Code[],
} as const satisfies Operation

export const sandboxDestroy = {
  name: 'sandbox.destroy',
  doc: 'End a sandbox and everything in it. Answers when its last resource is removed.',
  input: (s: Build) => s.object({ sandbox: id(s) }),
  errors: ['sandbox.not_found'] satisfies Code[],
} as const satisfies Operation

export const sandboxChanges = {
  name: 'sandbox.changes',
  doc: 'How many files were changed inside, for each directory whose writes are kept aside.',
  input: (s: Build) => s.object({ sandbox: id(s) }),
  output: (s: Build) =>
    s.object(
      {
        total: s.integer('changed files altogether', { min: 0 }),
        overlays: s.list(s.object({ name: s.string('which directory'), files: s.integer('changed files in it', { min: 0 }) }), 'for each directory'),
      },
      { name: 'Changes', doc: 'Files a guest has changed' },
    ),
  errors: ['sandbox.not_found', 'sandbox.lost', 'launcher.failed'] satisfies Code[],
} as const satisfies Operation
