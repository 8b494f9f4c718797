// `sandlot run`: a sandbox, one command in it, its bytes and its exit code back. Leaves as soon as both are out; what is torn down behind it is the launcher's.

import { resolve } from 'node:path'
import type { Client } from '../../client/client.ts'
import { SandlotError } from '../../model/error.ts'
import { exitCode, type Outcome } from '../../model/outcome.ts'
import type { Changes, Grant, SandboxInfo } from '../../model/sandbox.ts'
import type { Input } from '../../protocol/operation/index.ts'
import type { Command, Context } from '../command.ts'
import type { CommonFlags, FlagTable, Parsed } from '../flags.ts'
import { catchSignals } from '../signals.ts'
import { isSameFile, isTerminal, openInput } from '../stdio.ts'

const flags = {
  write: { field: 'sandbox.create.grants', kind: 'list', value: 'DIR', complete: 'directory', group: 'Files', doc: 'show DIR, writable for real' },
  read: { field: 'sandbox.create.grants', kind: 'list', value: 'PATH', complete: 'file', group: 'Files', doc: 'show PATH, read-only' },
  mount: {
    field: 'sandbox.create.grants',
    kind: 'list',
    value: 'SRC:DST[:MODE]',
    group: 'Files',
    doc: 'show SRC as DST inside; MODE is rw (writable for real; left out: this), ro (read-only) or overlay (writes are dropped at the end)',
  },
  root: {
    field: 'sandbox.create.root',
    value: 'host|DIR',
    complete: 'directory',
    group: 'Files',
    doc: "what the root filesystem starts from: host (this machine's system directories, read-only), or DIR (also dir:DIR), over which writes are kept aside",
  },
  tools: { field: 'sandbox.create.tools', group: 'Files' },
  env: {
    field: 'sandbox.create.env',
    short: 'e',
    value: 'NAME[=VALUE]',
    complete: 'variable',
    group: 'Command',
    doc: 'an environment variable; without a value: the one it has here',
  },
  cwd: {
    field: 'sandbox.create.cwd',
    value: 'DIR',
    complete: 'directory',
    group: 'Command',
    doc: 'directory inside in which it starts; left out: the current one, or / with a root of your own',
  },
  user: { field: 'sandbox.create.user', value: 'NAME', group: 'Command' },
  timeout: { field: 'exec.start.deadlineMs', value: 'TIME', group: 'Limits', doc: 'end it, and all that came of it, after this long: 250ms, 30s, 5m' },
  memory: {
    field: 'sandbox.create.memoryBytes',
    value: 'SIZE',
    group: 'Limits',
    doc: 'most memory that all its processes together may use: 512MiB, 2GiB (refused for now: cannot be enforced yet)',
  },
  driver: { field: 'sandbox.create.driver', value: 'NAME' },
} as const satisfies FlagTable

type Flags = Parsed<typeof flags & CommonFlags>

export const command = {
  usage: 'run [flags] [--] COMMAND [ARGUMENT...]',
  about: `Run a command in a sandbox of its own.

It sees the system directories and toolchains of this machine, read-only, and the current directory, whose writes are kept aside and dropped at the end. It has no network, no terminal, none of your other files, and of your environment only language, time zone and terminal type. stdin, stdout, stderr, signals and the exit code pass through.`,
  examples: [
    ['sandlot run -- python3 script.py', 'nothing it does is kept'],
    ['sandlot run --write . -- make', 'what it writes below the current directory is kept'],
    ['sandlot run --read ~/data --write out -- ./analyse', 'one directory to read, one to write'],
    ['sandlot run --timeout 30s --env TOKEN -- npm test', 'ended after 30 s, with one variable of yours'],
  ],
  flags,
  exits: [
    ['N', 'as the command gave it; 128 + n if signal n ended it'],
    ['124', '--timeout ended it'],
    ['125', 'sandlot itself failed or refused'],
    ['126', 'the program could not be started'],
    ['127', 'there is no such program inside'],
  ],
  words: 'command',
  run: async (parsed, context) => {
    if (parsed.rest.length === 0)
      throw new SandlotError('argument.invalid', 'there is no command to run', { hint: 'sandlot run -- COMMAND; sandlot run --help says more' })
    requireText(parsed.rest)
    const json = parsed.has('json')
    const running = await begin(context, toCreate(parsed, currentDirectory()), { ...toStart(parsed), merge: !json && isSameFile(1, 2) })
    return json ? collect(running, context) : pass(running, context)
  },
} satisfies Command<typeof flags>

// --- from flags to input ---

const currentDirectory = (): string => {
  try {
    return process.cwd()
  } catch (cause) {
    throw new SandlotError('argument.invalid', 'the current directory is gone', { cause, hint: 'change to one that exists' })
  }
}

const toCreate = (parsed: Flags, here: string): Input<'sandbox.create'> => {
  const root = parsed.text('root') ?? 'host'
  const grants: Grant[] = [
    ...parsed.list('read').map((path): Grant => ({ source: resolve(here, path), access: 'read' })),
    ...parsed.list('write').map((path): Grant => ({ source: resolve(here, path), access: 'write' })),
    ...parsed.list('mount').map((text) => toGrant(text, here)),
  ]
  const [cwd, user, memoryBytes, driver] = [parsed.text('cwd'), parsed.text('user'), parsed.number('memory'), parsed.text('driver')]
  const own = root !== 'host'
  return {
    root: own ? { kind: 'dir', path: resolve(here, root.replace(/^dir:/, '')) } : { kind: 'host' },
    grants,
    env: Object.fromEntries(parsed.list('env').map(toVariable)),
    ...(!own && { here }),
    ...(cwd !== undefined && { cwd: resolve(own ? '/' : here, cwd) }),
    ...(user !== undefined && { user }),
    ...(memoryBytes !== undefined && { memoryBytes }),
    ...(driver !== undefined && { driver }),
    ...(parsed.on('tools') === false && { tools: false }),
  }
}

const modes: { readonly [mode: string]: Grant['access'] } = { ro: 'read', rw: 'write', overlay: 'overlay' }

// The target is absolute, so that it begins at the last `:/`, whatever colons the source has.
const toGrant = (text: string, here: string): Grant => {
  const at = text.lastIndexOf(':/')
  const [, target, mode = 'rw'] = /^(.*?)(?::([a-z]*))?$/s.exec(text.slice(at + 1))!
  if (at <= 0 || target === undefined || !Object.hasOwn(modes, mode)) {
    throw new SandlotError('argument.invalid', `--mount: ${JSON.stringify(text)} is not SRC:DST[:MODE]`, {
      hint: 'DST is an absolute path inside, MODE is ro, rw or overlay: --mount ./data:/data:ro',
    })
  }
  return { source: resolve(here, text.slice(0, at)), target: resolve(target), access: modes[mode]! }
}

/** How far a command may be ahead of whoever reads us: little, so that an interrupted one does not go on scrolling. */
const AHEAD_BYTES = 1024 * 1024

const toStart = (parsed: Flags): Omit<Input<'exec.start'>, 'sandbox'> => {
  const deadlineMs = parsed.number('timeout')
  return { argv: parsed.rest, reserveReader: true, logBytes: AHEAD_BYTES, ...(deadlineMs !== undefined && { deadlineMs }) }
}

// Node hands out arguments as text: bytes that are none have been replaced by then, and another file would be meant.
const requireText = (words: readonly string[]): void => {
  const at = words.findIndex((word) => word.includes('\uFFFD'))
  if (at < 0 || process.getBuiltinModule('node:fs').readFileSync('/proc/self/cmdline').includes(Buffer.from(words[at]!))) return
  throw new SandlotError('argument.invalid', `argument ${at} of the command is not UTF-8, and would reach it changed`, {
    hint: 'let a shell inside make it: sandlot run -- sh -c ...',
  })
}

const toVariable = (text: string): readonly [string, string] => {
  const at = text.indexOf('=')
  if (at >= 0) return [text.slice(0, at), text.slice(at + 1)]
  const value = process.env[text]
  if (value === undefined) throw new SandlotError('argument.invalid', `--env: there is no variable ${text} here`, { hint: `--env ${text}=VALUE sets it` })
  return [text, value]
}

// --- the command, begun ---

type Running = {
  readonly sandbox: SandboxInfo
  readonly client: Client
  readonly which: { readonly sandbox: string; readonly exec: string }
  /** Exit code, as the shell that called us is to see it. */
  codeOf(outcome: Outcome): number
  /** Leaves if the command was ended before its time, is over, and `stuck` says that nobody takes the rest of its output. */
  leaveIf(stuck: () => boolean): void
}

/** A reader that takes nothing for so long keeps nobody waiting who wanted the command to end. */
const STUCK_MS = 500

const begin = async (context: Context, create: Input<'sandbox.create'>, start: Omit<Input<'exec.start'>, 'sandbox'>): Promise<Running> => {
  const signals = catchSignals()
  const client = await context.client(true)
  const input = openInput((error) => void context.stderr.write(Buffer.from(`sandlot: stdin cannot be read: ${error.message}\n`)).catch(() => {}))
  const sandbox = await client.sandbox.create(create)
  const { id: exec } = await client.exec.start({ ...start, sandbox: sandbox.id, stdin: input === undefined ? 'none' : 'pipe' })
  const which = { sandbox: sandbox.id, exec }
  // A command that is over takes no signal, and one that takes no more input says so by refusing it: neither is a failure.
  const ignore = (): void => {}
  signals.to({
    signal: (signal) => void client.exec.signal({ ...which, signal, scope: 'tree' }).catch(ignore),
    end: () => void client.exec.end(which).catch(ignore),
  })
  if (input !== undefined) void client.exec.input(which, input.bytes).then(ignore, ignore).then(input.stop)

  const codeOf = (outcome: Outcome): number => (outcome.kind === 'cancelled' && signals.last !== undefined ? 128 + signals.last : exitCode(outcome))
  let outcome: Outcome | undefined
  void client.exec.wait(which).then((value) => {
    outcome = value
  }, ignore)

  return {
    sandbox,
    client,
    which,
    codeOf,
    leaveIf: (stuck) => {
      const patrol = setInterval(() => {
        if (outcome !== undefined && (signals.last !== undefined || outcome.kind === 'timeout') && stuck()) process.exit(codeOf(outcome))
      }, STUCK_MS / 2)
      patrol.unref()
    },
  }
}

// --- its output, as it comes ---

const pass = async ({ sandbox, client, which, codeOf, leaveIf }: Running, { stdout, stderr }: Context): Promise<number> => {
  // What was left out of the view is said in any case: a program that does not find its files would otherwise be a riddle.
  if (sandbox.notes.length > 0) await stderr.write(Buffer.from((await import('../text.ts')).describeNotes(sandbox.notes)))
  let wroteMs = Date.now()
  leaveIf(() => (stdout.waiting || stderr.waiting) && Date.now() - wroteMs >= STUCK_MS)
  let outcome: Outcome | undefined
  for await (const event of client.exec.output(which)) {
    if (event.kind !== 'data') {
      outcome = event.outcome
      break
    }
    await (event.channel === 'stdout' ? stdout : stderr).write(event.bytes)
    wroteMs = Date.now()
  }
  if (outcome === undefined) throw new SandlotError('internal', 'the output ended without an outcome')
  const said = await remark(outcome, client, which.sandbox)
  if (said !== '') await stderr.write(Buffer.from(said)).catch(() => {})
  return codeOf(outcome)
}

/** What there is to say to a person at the end; mostly nothing. */
const remark = async (outcome: Outcome, client: Client, sandbox: string): Promise<string> => {
  let said = ''
  if (outcome.kind !== 'exited' && outcome.kind !== 'signalled' && outcome.kind !== 'cancelled') {
    const { describeOutcome } = await import('../text.ts')
    said += describeOutcome(outcome)
  }
  if (outcome.kind !== 'unstarted' && outcome.kind !== 'lost' && (await isTerminal(2))) {
    const changes = await client.sandbox.changes({ sandbox }).catch(() => undefined)
    const { describeChanges } = await import('../text.ts')
    if (changes !== undefined) said += describeChanges(changes)
  }
  return said
}

// --- all of it, as JSON ---

/** Kept of each channel; the rest is read and let go. */
const JSON_BYTES = 64 * 1024 * 1024

const collect = async ({ sandbox, client, which, codeOf }: Running, { stdout }: Context): Promise<number> => {
  const kept = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] }
  const total = { stdout: 0, stderr: 0 }
  let outcome: Outcome | undefined
  for await (const event of client.exec.output(which)) {
    if (event.kind !== 'data') {
      outcome = event.outcome
      break
    }
    const room = JSON_BYTES - total[event.channel]
    if (room > 0) kept[event.channel].push(event.bytes.subarray(0, room))
    total[event.channel] += event.bytes.length
  }
  if (outcome === undefined) throw new SandlotError('internal', 'the output ended without an outcome')
  const changes: Changes | undefined = await client.sandbox.changes({ sandbox: which.sandbox }).catch(() => undefined)
  const channel = (name: 'stdout' | 'stderr'): object => ({ ...textOrBase64(Buffer.concat(kept[name])), bytes: total[name] })
  const result = {
    exitCode: codeOf(outcome),
    outcome,
    stdout: channel('stdout'),
    stderr: channel('stderr'),
    ...(changes !== undefined && { changes }),
    notes: sandbox.notes,
  }
  await stdout.write(Buffer.from(`${JSON.stringify(result)}\n`))
  return codeOf(outcome)
}

const textOrBase64 = (bytes: Buffer): { readonly text: string } | { readonly base64: string } => {
  try {
    return { text: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes) }
  } catch {
    return { base64: bytes.toString('base64') }
  }
}
