// The engine: sandboxes by id, on one driver. A library user has one in the process; a server will host the same.

import type { Capabilities, Driver } from '../driver/contract.ts'
import { SandlotError } from '../model/error.ts'
import type { Call } from '../model/call.ts'
import type { MountPlan } from '../model/mount.ts'
import type { Given } from '../protocol/operation/index.ts'
import type { Exec, ExecSpec } from './exec.ts'
import { startExec } from './exec.ts'
import { randomId } from './id.ts'
import { connectInit } from './init.ts'
import { bringUp, type Sandbox } from './sandbox.ts'
import { userOf } from './user.ts'
import type { Record } from './record.ts'

/** What a caller asked for, decided: what the sandbox will see. `notes` are for a person, e.g. that home is not shown. */
export type Planned = {
  readonly plan: MountPlan
  readonly env: ReadonlyMap<string, string>
  readonly cwd: string
  readonly notes: readonly string[]
  readonly explainAbsent?: (program: string) => Promise<string | undefined>
}

/** Throws `grant.refused`, `grant.not_found`, `argument.invalid`. */
export type Planner = (input: Given<'sandbox.create'>) => Planned

export type EngineParts = {
  readonly driver: Driver
  readonly plan: Planner
  readonly filter: () => Promise<Uint8Array | undefined>
  readonly stateDirectory: string
  readonly record: Record
}

export type EngineCore = {
  readonly driver: Driver
  readonly stateDirectory: string
  readonly record: Record
  create(input: Given<'sandbox.create'>, call: Call): Promise<Sandbox>
  /** Throws `sandbox.not_found`. */
  sandbox(id: string): Sandbox
  sandboxes(): Sandbox[]
  /** Starts a command; resolves when it has started or is known not to. */
  start(input: Given<'exec.start'>): Promise<Exec>
  /** Throws `sandbox.not_found`, `exec.not_found`. */
  exec(sandbox: string, exec: string): Exec
  capabilities(): Promise<Capabilities>
  close(): Promise<void>
}

// Finished commands that a sandbox remembers; older ones are forgotten with their output.
const KEEP_FINISHED = 256
const KEEP_SANDBOXES = 64

export const createEngineCore = ({ driver, plan, filter, stateDirectory, record }: EngineParts): EngineCore => {
  const sandboxes = new Map<string, Sandbox>()
  // Sandboxes that ended a short while ago: the outcomes and the output of their commands can still be asked for.
  const finished = new Map<string, Sandbox>()
  let closed = false

  const find = (id: string): Sandbox => {
    const found = sandboxes.get(id)
    if (found === undefined) throw new SandlotError('sandbox.not_found', `no sandbox ${JSON.stringify(id)}`)
    return found
  }

  return {
    driver,
    stateDirectory,
    record,
    capabilities: () => driver.capabilities(),
    create: async (input, call) => {
      if (closed) throw new SandlotError('sandbox.lost', 'the engine is closed')
      if (input.driver !== undefined && input.driver !== driver.name) {
        throw new SandlotError('unsupported', `no driver ${JSON.stringify(input.driver)}`, { hint: `there is: ${driver.name}` })
      }
      if (input.memoryBytes !== undefined) {
        throw new SandlotError('unsupported', 'a limit of memory cannot be enforced yet', { hint: 'leave it out; `sandlot doctor` lists what is not enforced' })
      }
      const user = userOf(input.user)
      // What is decided is decided while the driver starts what it needs.
      const ready = driver.prepare()
      ready.catch(() => {})
      const planned: Planned = plan(input)
      requireVariables(planned.env)
      const id = randomId()
      const [loaded] = await Promise.all([filter(), ready])
      const box = await driver.create({ id, hostname: input.hostname, plan: planned.plan, filter: loaded }, call)
      const init = connectInit(await box.connect())
      const sandbox = await bringUp(
        {
          id,
          driver: driver.name,
          root: input.root.kind === 'host' ? 'host' : `dir:${input.root.path}`,
          labels: input.labels,
          createdAtMs: Date.now(),
          ttlMs: input.ttlMs ?? 0,
          defaults: { cwd: planned.cwd, user, env: planned.env, ...(planned.explainAbsent !== undefined && { explainAbsent: planned.explainAbsent }) },
          notes: planned.notes,
        },
        box,
        init,
      )
      sandboxes.set(id, sandbox)
      void sandbox.ended.then(() => {
        sandboxes.delete(id)
        finished.set(id, sandbox)
        if (finished.size > KEEP_SANDBOXES) finished.delete(finished.keys().next().value!)
      })
      return sandbox
    },
    sandbox: find,
    sandboxes: () => [...sandboxes.values()],
    start: async (input) => {
      const sandbox = find(input.sandbox)
      sandbox.requireReady()
      requireArguments(input.argv)
      const user = input.user === undefined ? sandbox.defaults.user : userOf(input.user)
      const cwd = input.cwd ?? sandbox.defaults.cwd
      if (!cwd.startsWith('/') || cwd.includes('\0'))
        throw new SandlotError('argument.invalid', `the working directory must be an absolute path inside, not ${JSON.stringify(cwd)}`)
      const env = new Map(sandbox.defaults.env)
      // The sandbox's own user has what the view made for it; for another one this is what differs.
      if (user !== sandbox.defaults.user && user.name !== sandbox.defaults.user.name) {
        env.set('HOME', user.home).set('USER', user.name).set('LOGNAME', user.name)
      }
      for (const [name, value] of Object.entries(input.env)) env.set(name, value)
      requireVariables(env)
      const spec: ExecSpec = {
        id: String(sandbox.nextExec()),
        sandbox: sandbox.id,
        argv: input.argv,
        env: Array.from(env, ([name, value]) => `${name}=${value}`),
        cwd,
        user,
        stdin: input.stdin,
        merge: input.merge,
        deadlineMs: input.deadlineMs ?? 0,
        overflow: input.overflow,
        logBytes: input.logBytes,
        reserveReader: input.reserveReader,
        nowMs: Date.now(),
        ...(sandbox.defaults.explainAbsent !== undefined && { explainAbsent: sandbox.defaults.explainAbsent }),
      }
      const exec = startExec(sandbox.init, spec, (reason) => void sandbox.destroy(new SandlotError('sandbox.lost', reason)))
      sandbox.execs.set(spec.id, exec)
      forgetFinished(sandbox.execs)
      await exec.started
      return exec
    },
    exec: (id, exec) => {
      const found = (sandboxes.get(id) ?? finished.get(id) ?? find(id)).execs.get(exec)
      if (found === undefined) throw new SandlotError('exec.not_found', `no exec ${JSON.stringify(exec)} in sandbox ${id}`)
      return found
    },
    close: async () => {
      closed = true
      await Promise.all([...sandboxes.values()].map((sandbox) => sandbox.destroy()))
      await driver.close()
    },
  }
}

const forgetFinished = (execs: Map<string, Exec>): void => {
  if (execs.size <= KEEP_FINISHED) return
  for (const [id, exec] of execs) {
    const { state } = exec.info()
    if (state === 'ended' || state === 'unstarted') {
      execs.delete(id)
      return
    }
  }
}

const requireArguments = (argv: readonly string[]): void => {
  if (argv.length === 0 || argv[0] === '')
    throw new SandlotError('argument.invalid', 'a command needs a program, and its name is empty', {
      hint: 'give the program first: sandlot run -- PROGRAM ...',
    })
  const at = argv.findIndex((argument) => argument.includes('\0'))
  if (at >= 0) throw new SandlotError('argument.invalid', `argument ${at} holds a NUL byte, which no program can be given`)
}

const requireVariables = (env: ReadonlyMap<string, string>): void => {
  for (const [name, value] of env) {
    if (name === '' || name.includes('=') || name.includes('\0'))
      throw new SandlotError('argument.invalid', `a variable cannot be called ${JSON.stringify(name)}`)
    if (value.includes('\0')) throw new SandlotError('argument.invalid', `the variable ${name} holds a NUL byte, which no program can be given`)
  }
}
