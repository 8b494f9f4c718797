// Processes in a sandbox: started, read, fed, signalled, ended. Run-and-wait is a helper over these.

import type { Code } from '../../model/error.ts'
import type { Build } from '../schema.ts'
import type { Operation } from './operation.ts'

const usage = (s: Build) =>
  s.object(
    {
      userUs: s.integer('CPU time in user mode', { min: 0, unit: 'us' }),
      systemUs: s.integer('CPU time in the kernel', { min: 0, unit: 'us' }),
      peakBytes: s.integer('largest resident set of one process', { min: 0, unit: 'bytes' }),
    },
    { name: 'Usage', doc: 'What the first process and what it waited for used' },
  )

const outcome = (s: Build) =>
  s.union(
    'kind',
    [
      s.object({ kind: s.literal('exited'), code: s.integer('exit code', { min: 0, max: 255 }), usage: usage(s) }, { doc: 'it ended by itself' }),
      s.object({ kind: s.literal('signalled'), signal: s.integer('number of the signal', { min: 1, max: 64 }), usage: usage(s) }, { doc: 'a signal ended it' }),
      s.object(
        { kind: s.literal('timeout'), afterMs: s.integer('the deadline it had', { min: 0, unit: 'ms' }), usage: usage(s) },
        { doc: 'our deadline ended the whole tree' },
      ),
      s.object(
        { kind: s.literal('limit'), which: s.choice('which limit', ['memory', 'cpu', 'disk', 'output', 'processes']), usage: usage(s) },
        { doc: 'a limit ended it' },
      ),
      s.object({ kind: s.literal('denied'), what: s.string('what it tried'), usage: usage(s) }, { doc: 'the fence ended it' }),
      s.object({ kind: s.literal('cancelled'), usage: usage(s) }, { doc: 'the caller ended the whole tree' }),
      s.object(
        {
          kind: s.literal('unstarted'),
          reason: s.choice('why', ['not_found', 'not_executable', 'too_large', 'no_cwd', 'no_user', 'no_resources']),
          errno: s.integer('error number of the system', { min: 0 }),
          message: s.string('for people'),
        },
        { doc: 'the program did not start' },
      ),
      s.object({ kind: s.literal('lost'), message: s.string('for people') }, { doc: 'the sandbox ended under it' }),
    ],
    { name: 'Outcome', doc: 'What became of a command' },
  )

const offset = (s: Build, doc: string) => s.integer(doc, { min: 0 })

const info = (s: Build) =>
  s.object(
    {
      id: s.string('id of the exec in its sandbox'),
      sandbox: s.string('id of the sandbox'),
      argv: s.list(s.string('argument'), 'program and arguments'),
      cwd: s.string('directory inside in which it started'),
      user: s.string('who it runs as'),
      state: s.choice('`exited`: the first process is over, others of it live; `ended`: none lives', ['starting', 'running', 'exited', 'ended', 'unstarted']),
      pid: s.integer('process id inside; 0 before it started', { min: 0 }),
      startedAtMs: s.integer('milliseconds since the epoch', { min: 0 }),
      outputBytes: offset(s, 'bytes of output so far, both channels'),
      outputFirst: offset(s, 'first byte still kept'),
      outcome: s.maybe(outcome(s)),
    },
    { name: 'ExecInfo', doc: 'A command as it is now' },
  )

const outputEvent = (s: Build) =>
  s.union(
    'kind',
    [
      s.object(
        {
          kind: s.literal('data'),
          channel: s.choice('which channel', ['stdout', 'stderr']),
          offset: offset(s, 'position of the first byte, over both channels in order of arrival'),
          bytes: s.bytes('what was written'),
        },
        { doc: 'output' },
      ),
      s.object(
        { kind: s.literal('exit'), offset: offset(s, 'where the output stands'), outcome: outcome(s) },
        { doc: 'the first process is over; output of others may follow' },
      ),
      s.object(
        { kind: s.literal('end'), offset: offset(s, 'where the output ends'), outcome: outcome(s) },
        { doc: 'both channels have ended and the outcome is known; the last event' },
      ),
    ],
    { name: 'OutputEvent', doc: "What a reader of a command's output sees" },
  )

const which = (s: Build) => ({ sandbox: s.string('id of the sandbox', { minLength: 1 }), exec: s.string('id of the exec', { minLength: 1 }) })

const gone = ['sandbox.not_found', 'exec.not_found', 'sandbox.lost', 'sandbox.corrupted'] satisfies Code[]

export const execStart = {
  name: 'exec.start',
  doc: 'Start a command. Answers when it has started, or could not: a program that is not there is an outcome, not an error.',
  input: (s: Build) =>
    s.object({
      sandbox: s.string('id of the sandbox', { minLength: 1 }),
      argv: s.list(s.string('argument'), 'program and arguments, passed as they are; no shell', { minLength: 1 }),
      env: s.default(s.record(s.string('value'), 'environment variables, over those of the sandbox'), {}),
      cwd: s.optional(s.string('directory inside in which it starts; left out: that of the sandbox', { minLength: 1 })),
      user: s.optional(s.string('who it runs as; left out: the user of the sandbox', { minLength: 1 })),
      stdin: s.default(s.choice('`none`: nothing to read; `pipe`: what `exec.input` brings', ['none', 'pipe']), 'none'),
      merge: s.default(s.boolean('stderr goes to stdout, in the order of writing'), false),
      deadlineMs: s.optional(s.integer('the whole tree is ended this long after the start; left out: never', { min: 1, unit: 'ms' })),
      overflow: s.default(
        s.choice('when the log is full: `hold` lets the command wait for the slowest attached reader, `drop` lets the oldest bytes go', ['hold', 'drop']),
        'hold',
      ),
      logBytes: s.default(s.integer('how much output is kept', { min: 4096, max: 1024 * 1024 * 1024, unit: 'bytes' }), 8 * 1024 * 1024),
      reserveReader: s.default(
        s.boolean('keep the place of a reader from byte 0, which the first `exec.output` takes, so that nothing is dropped before it reads'),
        false,
      ),
    }),
  output: info,
  errors: ['sandbox.not_found', 'sandbox.lost', 'sandbox.corrupted', 'unsupported'] satisfies Code[],
} as const satisfies Operation

export const execGet = {
  name: 'exec.get',
  doc: 'What a command is like now.',
  input: (s: Build) => s.object(which(s)),
  output: info,
  errors: ['sandbox.not_found', 'exec.not_found'] satisfies Code[],
} as const satisfies Operation

export const execList = {
  name: 'exec.list',
  doc: 'The commands of a sandbox, oldest first, those that are over as well.',
  input: (s: Build) => s.object({ sandbox: s.string('id of the sandbox', { minLength: 1 }) }),
  output: (s: Build) => s.object({ execs: s.list(info(s), 'oldest first') }),
  errors: ['sandbox.not_found'] satisfies Code[],
} as const satisfies Operation

export const execWait = {
  name: 'exec.wait',
  doc: 'Wait for a command and answer its outcome.',
  input: (s: Build) =>
    s.object({
      ...which(s),
      until: s.default(s.choice('`exited`: its first process is over; `ended`: no process of it is left', ['exited', 'ended']), 'exited'),
    }),
  output: outcome,
  errors: gone,
} as const satisfies Operation

export const execOutput = {
  name: 'exec.output',
  doc: 'Read the output of a command, live or later, from any byte that is still kept. Resume a lost connection with `from`.',
  input: (s: Build) =>
    s.object({
      ...which(s),
      from: s.default(offset(s, 'position of the first byte wanted, over both channels'), 0),
      follow: s.default(s.boolean('wait for what is still to come; otherwise stop at the last byte there is'), true),
      channel: s.optional(s.choice('only this channel', ['stdout', 'stderr'])),
    }),
  events: outputEvent,
  errors: [...gone, 'output.gone'] satisfies Code[],
} as const satisfies Operation

export const execInput = {
  name: 'exec.input',
  doc: 'Write to the stdin of a command. Bytes are taken as the command takes them; answers when it has all of them, or takes no more.',
  input: (s: Build) =>
    s.object({
      ...which(s),
      offset: s.optional(offset(s, 'position of the first byte, to go on after a lost connection; left out: behind what was taken so far')),
      close: s.default(s.boolean('the end of the bytes is the end of stdin'), true),
    }),
  output: (s: Build) => s.object({ offset: offset(s, 'how many bytes of stdin were taken so far') }),
  stream: { in: 'bytes' },
  errors: [...gone, 'exec.stdin_closed'] satisfies Code[],
} as const satisfies Operation

export const execSignal = {
  name: 'exec.signal',
  doc: 'Send a signal. To a command that is over it does nothing.',
  input: (s: Build) =>
    s.object({
      ...which(s),
      signal: s.integer('number of the signal', { min: 1, max: 64 }),
      scope: s.default(s.choice('the first process, or all that came of it', ['process', 'tree']), 'process'),
    }),
  errors: gone,
} as const satisfies Operation

export const execEnd = {
  name: 'exec.end',
  doc: 'End the whole tree of a command: stop, scan, kill until no process is left. Answers the outcome then.',
  input: (s: Build) => s.object(which(s)),
  output: outcome,
  errors: gone,
} as const satisfies Operation
