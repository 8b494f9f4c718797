// The library's handles over the typed client: a sandbox, a command in it. One obvious way to do a thing; everything goes through the table of operations.

import { constants } from 'node:os'
import { createClient, type Client } from '../client/client.ts'
import { checkInput } from '../protocol/check.ts'
import { type LocalTransport, toLocalTransport } from './local.ts'
import type { Capabilities } from '../driver/contract.ts'
import { createLocalEngine, type LocalEngine } from '../engine/local.ts'
import { SandlotError } from '../model/error.ts'
import type { ExecInfo, OutputEvent, Overflow } from '../model/exec.ts'
import type { Outcome } from '../model/outcome.ts'
import type { Changes, Grant, SandboxInfo } from '../model/sandbox.ts'

export type CreateOptions = {
  /** What the root filesystem starts from. `'host'` (default): the host's own /usr and toolchains, read-only. `{ dir }`: a directory, writes go aside. */
  readonly root?: 'host' | { readonly dir: string }
  /** Where commands start, inside. Default: the target of the first grant, else /home/user. */
  readonly cwd?: string
  /** Directories of the host that are visible. Default: none. */
  readonly grants?: readonly Grant[]
  /** Variables of every command, over the few that a sandbox sets itself. Nothing of this process's environment goes in. */
  readonly env?: { readonly [name: string]: string }
  /** Who commands run as: `user` (default), `root`, `nobody`, or a number inside. */
  readonly user?: string
  /** Show the caller's toolchains on PATH (pyenv, nvm, rustup, ...), read-only. Default: true. */
  readonly tools?: boolean
  /** Default: `sandlot`. */
  readonly hostname?: string
  readonly labels?: { readonly [key: string]: string }
  /** The sandbox is destroyed this long after its creation, milliseconds. Default: never. */
  readonly ttlMs?: number
}

export type ExecOptions = {
  readonly cwd?: string
  readonly env?: { readonly [name: string]: string }
  readonly user?: string
  /** `'none'` (default): nothing to read. `'pipe'`: what `write` brings. */
  readonly stdin?: 'none' | 'pipe'
  /** stderr goes where stdout goes, in order of writing. Default: false. */
  readonly merge?: boolean
  /** The whole tree is ended this long after the start, milliseconds. Default: never. */
  readonly timeoutMs?: number
  /** At the log's bound: `hold` (default) lets the command wait for its slowest reader, `drop` lets the oldest bytes go. */
  readonly overflow?: Overflow
  /** How much output is kept, bytes. Default: 8 MiB. */
  readonly logBytes?: number
  /** Keep the place of the first reader from byte 0, so that nothing goes before it reads. Default: false. */
  readonly reserveReader?: boolean
}

export type RunOptions = Omit<ExecOptions, 'stdin' | 'overflow' | 'logBytes' | 'reserveReader'> & {
  /** What the command reads from stdin. Default: nothing. */
  readonly stdin?: string | Uint8Array
  /** How much of stdout and stderr is kept together, bytes; what is beyond is read and dropped. Default: 64 MiB. */
  readonly maxOutputBytes?: number
  /** Ends the command when it aborts. */
  readonly signal?: AbortSignal
}

export type RunResult = {
  readonly outcome: Outcome
  readonly stdout: Uint8Array
  readonly stderr: Uint8Array
  /** True when there was more output than `maxOutputBytes`. */
  readonly truncated: boolean
}

export type OutputOptions = {
  /** Position of the first byte, over both channels. Default: 0. Below the first kept byte: `output.gone`. */
  readonly from?: number
  /** Wait for what is still to come. Default: true. */
  readonly follow?: boolean
}

/** A command in a sandbox. Exists as soon as it has started; its output can be read live or later, by several readers. */
export type Exec = {
  readonly id: string
  /** Process id inside; 0 when it did not start. */
  readonly pid: number
  info(): Promise<ExecInfo>
  /** The outcome, when its first process is over. A failure of the command is a value, not an exception. */
  wait(): Promise<Outcome>
  /** Resolves when no process of it is left. */
  ended(): Promise<Outcome>
  /** Data in order of arrival, `exit` once where the first process's output ends, `end` last. Errors: `output.gone`. */
  output(options?: OutputOptions): AsyncGenerator<OutputEvent, void, void>
  /** Resolves when the command has room for more. Errors: `exec.stdin_closed`. */
  write(bytes: string | Uint8Array): Promise<void>
  closeInput(): Promise<void>
  /** `signal`: a name such as `SIGTERM`, or its number. To a command that is over it does nothing. */
  signal(signal: NodeJS.Signals | number, options?: { readonly tree?: boolean }): Promise<void>
  /** Ends the whole tree and resolves when none of it is left. */
  end(): Promise<Outcome>
}

/** A bounded area in which commands run. Ends with `destroy`, with `await using`, with its time-to-live, or with this process. */
export type Sandbox = AsyncDisposable & {
  readonly id: string
  info(): Promise<SandboxInfo>
  /** Starts `argv` (no shell). Errors: `sandbox.not_found`, `sandbox.lost`, `argument.invalid`. A program that is not there is an outcome. */
  exec(argv: readonly string[], options?: ExecOptions): Promise<Exec>
  /** Starts `argv`, waits, gives the output. */
  run(argv: readonly string[], options?: RunOptions): Promise<RunResult>
  execs(): Promise<readonly ExecInfo[]>
  /** How many files were changed inside, for each directory whose writes are kept aside. */
  changes(): Promise<Changes>
  /** Ends everything in it; resolves when its last resource is removed. */
  destroy(): Promise<void>
}

/** A set of sandboxes with their own launcher. Most programs need none: `createSandbox` shares one. */
export type Engine = AsyncDisposable & {
  readonly stateDirectory: string
  /** The typed client over the table of operations. */
  readonly client: Client
  create(options?: CreateOptions): Promise<Sandbox>
  get(id: string): Promise<Sandbox>
  list(): Promise<readonly SandboxInfo[]>
  capabilities(): Promise<Capabilities>
  /** Destroys every sandbox of this engine. */
  close(): Promise<void>
}

export type EngineOptions = {
  /** Where sandboxes keep what they write. Default: $SANDLOT_STATE_DIR, $XDG_STATE_HOME/sandlot, ~/.local/state/sandlot. */
  readonly stateDirectory?: string
  /** The native program. Default: the one this package ships, or compiles at its first use. */
  readonly program?: string
}

/** An engine of its own. Nothing is started before the first sandbox. Errors: `state.unusable`. */
export const createEngine = (options: EngineOptions = {}): Engine => {
  const local: LocalEngine = createLocalEngine(options)
  const client = createClient(checked(toLocalTransport(local.handlers)))
  const close = (): Promise<void> => local.close()
  return {
    stateDirectory: local.stateDirectory,
    client,
    create: async (create = {}) => {
      const { root, ...rest } = create
      const info = await client.sandbox.create({
        ...rest,
        ...(root === undefined || root === 'host' ? {} : { root: { kind: 'dir', path: root.dir } as const }),
      })
      return sandboxHandle(client, info.id)
    },
    get: async (id) => sandboxHandle(client, (await client.sandbox.get({ sandbox: id })).id),
    list: async () => (await client.sandbox.list({})).sandboxes,
    capabilities: () => local.capabilities(),
    close,
    [Symbol.asyncDispose]: close,
  }
}

// Who writes plain JavaScript has no compiler to say that an option is misspelt; one that is overlooked could open what was meant to be closed.
const checked = (transport: LocalTransport): LocalTransport => ({
  call: async (name, input, call) => {
    checkInput(name, input)
    return transport.call(name, input, call)
  },
  events: (name, input, call) => {
    checkInput(name, input)
    return transport.events(name, input, call)
  },
  send: async (name, input, bytes, call) => {
    checkInput(name, input)
    return transport.send(name, input, bytes, call)
  },
})

let shared: Engine | undefined

/**
 * A sandbox on this process's own engine.
 *
 *     await using sandbox = await createSandbox({ grants: [{ source: '/srv/project', access: 'overlay' }] })
 *     const { outcome, stdout } = await sandbox.run(['make', 'test'], { timeoutMs: 60_000 })
 *
 * Errors: `grant.refused`, `grant.not_found`, `unsupported`, `userns.unavailable`, `native.unavailable`, `mount.failed`, `mount.ids`, `state.unusable`, `disk.full`.
 */
export const createSandbox = (options: CreateOptions = {}): Promise<Sandbox> => (shared ??= createEngine()).create(options)

const DEFAULT_OUTPUT = 64 * 1024 * 1024

const sandboxHandle = (client: Client, id: string): Sandbox => {
  const start = async (argv: readonly string[], options: ExecOptions): Promise<Exec> => {
    const { timeoutMs, ...rest } = options
    return execHandle(client, await client.exec.start({ sandbox: id, argv, ...rest, ...(timeoutMs === undefined ? {} : { deadlineMs: timeoutMs }) }))
  }
  const destroy = (): Promise<void> =>
    client.sandbox.destroy({ sandbox: id }).catch((error: unknown) => {
      if (!(error instanceof SandlotError && error.code === 'sandbox.not_found')) throw error
    })
  return {
    id,
    info: () => client.sandbox.get({ sandbox: id }),
    exec: (argv, options = {}) => start(argv, options),
    run: async (argv, options = {}) => {
      const { stdin, maxOutputBytes = DEFAULT_OUTPUT, signal, ...rest } = options
      signal?.throwIfAborted()
      const exec = await start(argv, { ...rest, stdin: stdin === undefined ? 'none' : 'pipe', overflow: 'hold', reserveReader: true })
      const abort = (): void => void exec.end()
      signal?.addEventListener('abort', abort, { once: true })
      const fed = stdin === undefined ? Promise.resolve() : feed(exec, stdin)
      const kept = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] }
      let room = maxOutputBytes
      let truncated = false
      try {
        for await (const event of exec.output()) {
          if (event.kind !== 'data') {
            // What a background process still writes is not part of the run.
            await fed
            return { outcome: event.outcome, stdout: Buffer.concat(kept.stdout), stderr: Buffer.concat(kept.stderr), truncated }
          }
          const bytes = event.bytes.length > room ? event.bytes.subarray(0, room) : event.bytes
          truncated ||= bytes.length < event.bytes.length
          room -= bytes.length
          if (bytes.length > 0) kept[event.channel].push(bytes)
        }
        throw new SandlotError('internal', 'the output ended without an outcome')
      } finally {
        signal?.removeEventListener('abort', abort)
      }
    },
    execs: async () => (await client.exec.list({ sandbox: id })).execs,
    changes: () => client.sandbox.changes({ sandbox: id }),
    destroy,
    [Symbol.asyncDispose]: destroy,
  }
}

// A command need not read its stdin to the end.
const feed = async (exec: Exec, stdin: string | Uint8Array): Promise<void> => {
  try {
    await exec.write(stdin)
    await exec.closeInput()
  } catch (error) {
    if (!(error instanceof SandlotError && error.code === 'exec.stdin_closed')) throw error
  }
}

const execHandle = (client: Client, info: ExecInfo): Exec => {
  const which = { sandbox: info.sandbox, exec: info.id }
  return {
    id: info.id,
    pid: info.pid,
    info: () => client.exec.get(which),
    wait: () => client.exec.wait(which),
    ended: () => client.exec.wait({ ...which, until: 'ended' }),
    output: async function* (options = {}) {
      yield* client.exec.output({ ...which, ...options })
    },
    write: async (bytes) => {
      await client.exec.input({ ...which, close: false }, once(typeof bytes === 'string' ? new TextEncoder().encode(bytes) : bytes))
    },
    closeInput: async () => {
      await client.exec.input({ ...which, close: true }, once())
    },
    signal: (signal, options = {}) => {
      const number = typeof signal === 'number' ? signal : constants.signals[signal]
      if (number === undefined) return Promise.reject(new SandlotError('argument.invalid', `no signal ${JSON.stringify(signal)}`))
      return client.exec.signal({ ...which, signal: number, scope: options.tree === true ? 'tree' : 'process' })
    },
    end: () => client.exec.end(which),
  }
}

async function* once(bytes?: Uint8Array): AsyncGenerator<Uint8Array, void, void> {
  if (bytes !== undefined) yield bytes
}
