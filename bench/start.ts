// bench start: what it costs to start. A sandbox made, a command run in it and its output read, beside a C floor that does nothing else and beside
// bubblewrap; a command in a sandbox that lives, beside vfork and exec; the command line, beside the same Node with nothing to do. All in turns.
import { access, mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

import { createEngine } from '../src/index.ts'
import type { Engine, Outcome, Sandbox } from '../src/index.ts'
import { scratch } from './build.ts'
import type { Bench, Figure, Finding } from './figure.ts'
import { floor, smallRoot } from './floor.ts'
import { inTurns, median, medianDifference, summary, timed } from './sample.ts'
import type { Side } from './sample.ts'
import { spawner } from './spawn.ts'

const program = ['/bin/true']
const bubblewrap = '/usr/bin/bwrap'
const confined = [bubblewrap, ...'--unshare-all --ro-bind / / --proc /proc --dev /dev --die-with-parent'.split(' '), ...program]
const absent = 'bubblewrap is not installed'
const repository = join(import.meta.dirname, '..')

/** Above this share of bubblewrap's time the floor says more about the machine than about us. */
const trusted = 0.4

const passed = (outcome: Outcome): void => {
  if (outcome.kind !== 'exited' || outcome.code !== 0) throw new Error(`${program.join(' ')} inside: ${JSON.stringify(outcome)}`)
}

const execute = async (sandbox: Sandbox): Promise<void> => passed(await (await sandbox.exec(program)).wait())

const whole = async (engine: Engine): Promise<Sandbox> => {
  const sandbox = await engine.create()
  passed((await sandbox.run(program)).outcome)
  return sandbox
}

const destroy = (sandbox: Sandbox): Promise<void> => sandbox.destroy()
const ms = (name: string, times: readonly number[]): Figure[] => {
  const { min, p50, p95 } = summary(times)
  return [{ name: `${name} p50`, value: p50, unit: 'ms', note: `min ${min.toFixed(2)}, p95 ${p95.toFixed(2)}` }]
}

async function* measure(directory: string, effort: number): AsyncIterable<Finding> {
  const root = join(directory, 'root')
  const empty = join(directory, 'empty.mjs')
  await smallRoot(root, program[0]!)
  await writeFile(empty, '')
  for (const name of ['whole', 'read', 'create']) await mkdir(join(directory, name))

  // A large file of certificates would slow the bare Node and not us, since ./sandlot keeps it from its own: the comparison is without.
  const { NODE_EXTRA_CA_CERTS: _, ...env } = process.env
  const small = spawner(env)
  const floors = {
    whole: await floor(['whole', join(directory, 'whole'), root, ...program]),
    read: await floor(['read', join(directory, 'read'), root, ...program]),
    create: await floor(['create', join(directory, 'create'), root]),
    exec: await floor(['exec', ...program]),
  }
  const engine = createEngine({ stateDirectory: join(directory, 'state') })
  const live = await engine.create()
  try {
    const bwrap = await access(bubblewrap).then(
      () => small.side(confined),
      () => undefined,
    )
    // A side without a program takes no time and no place in the comparison.
    const beside: Side = bwrap ?? (() => Promise.resolve([]))
    const sides = {
      'create, exec, output': timed(() => whole(engine), destroy),
      'floor: create, exec, output': floors.whole.side,
      'floor: the same, not waited for': floors.read.side,
      'bwrap: create, exec, output': beside,
      'create': timed(() => engine.create(), destroy),
      'floor: create': floors.create.side,
      'exec': timed(() => execute(live)),
      'floor: exec': floors.exec.side,
    }
    await inTurns(sides, { rounds: 2, block: 10 })
    const tight = await inTurns(sides, { rounds: Math.ceil(30 * effort), block: 10 })
    const p50 = (name: keyof typeof sides): number => median(tight[name])
    for (const name of Object.keys(sides) as (keyof typeof sides)[]) if (tight[name].length > 0) yield* ms(name, tight[name])

    let judged = true
    const judge = (figure: Figure): Figure => {
      const { goal: _goal, ...plain } = figure
      return judged ? figure : plain
    }
    const share = p50('floor: create, exec, output') / p50('bwrap: create, exec, output')
    const resident = small.residentBytes() / 1e6
    const doubt =
      share > trusted
        ? `the floor is at ${share.toFixed(2)} of bubblewrap, above ${trusted}: this machine is too busy or too strange to judge by`
        : resident > 80
          ? `the process that spawns bubblewrap grew to ${resident.toFixed(0)} MB, which makes bubblewrap look slow`
          : undefined
    if (doubt !== undefined) {
      judged = false
      yield { refused: doubt }
    }
    const ours = p50('create, exec, output')
    yield judge({ name: 'create, exec, output / floor', value: ours / p50('floor: create, exec, output'), unit: 'x', goal: { atMost: 2 } })
    yield { name: 'create, exec, output / floor not waited for', value: ours / p50('floor: the same, not waited for'), unit: 'x' }
    const ratio = { name: 'create, exec, output / bwrap', unit: 'x', goal: { atMost: 0.6 } }
    yield judge(bwrap === undefined ? { ...ratio, value: undefined, note: absent } : { ...ratio, value: ours / p50('bwrap: create, exec, output') })
    yield judge({ name: 'exec / floor', value: p50('exec') / p50('floor: exec'), unit: 'x', goal: { atMost: 2.2 } })
    if (bwrap !== undefined) {
      yield { name: 'floor / bwrap', value: share, unit: 'x' }
      yield { name: 'resident memory of the process that spawns', value: resident, unit: 'MB' }
    }

    // The same after a rest: caches are cold and the processor sleeps. Printed, not judged.
    const rested = await inTurns(sides, { rounds: Math.ceil(20 * effort), block: 1, pauseMs: 100 })
    for (const name of Object.keys(sides) as (keyof typeof sides)[]) {
      if (rested[name].length > 0) yield* ms(`100 ms apart: ${name}`, rested[name])
    }

    const commands = { ours: small.side([join(repository, 'sandlot'), 'run', '--', 'true']), node: small.side([process.execPath, empty]) }
    await inTurns(commands, { rounds: 3, block: 1 })
    const wall = await inTurns(commands, { rounds: Math.ceil(40 * effort), block: 1 })
    yield* ms('sandlot run -- true', wall.ours)
    yield* ms('node with nothing to do', wall.node)
    yield judge({ name: 'sandlot run -- true, above node', value: medianDifference(wall.ours, wall.node), unit: 'ms', goal: { atMost: 45 } })
  } finally {
    await engine.close()
    for (const one of Object.values(floors)) one.close()
    small.close()
  }
}

export const bench: Bench = {
  doc: 'create, exec, output and the command line, beside a C floor and beside bubblewrap',
  async *run({ effort }) {
    const directory = await scratch()
    try {
      yield* measure(directory, effort)
    } finally {
      await rm(directory, { recursive: true, force: true })
    }
  },
}
