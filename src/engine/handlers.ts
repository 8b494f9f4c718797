// Operation name -> what the engine does. A missing handler fails the type check. Every operation leaves one line in the record.

import { isSandlotError } from '../model/error.ts'
import type { Handlers } from '../protocol/handlers.ts'
import type { EngineCore } from './engine.ts'
import type { Exec } from './exec.ts'
import { recordable } from './record.ts'
import type { System } from './system.ts'

export const createHandlers = (core: () => EngineCore, system: () => Promise<System>): Handlers => {
  /** Runs `act`, then appends what was asked and what came of it. */
  const recorded = async <T>(operation: string, input: unknown, act: () => Promise<T>, told: (result: T) => unknown = () => 'ok'): Promise<T> => {
    const atMs = Date.now()
    const began = performance.now()
    const append = (result: unknown): void =>
      core().record.append({ operation, atMs, durationMs: Math.round((performance.now() - began) * 1000) / 1000, input: recordable(input), result })
    try {
      const result = await act()
      append(told(result))
      return result
    } catch (error) {
      append({ refused: isSandlotError(error) ? error.code : 'internal' })
      throw error
    }
  }

  // An exec's line is written when its outcome is known, so that it holds both.
  const recordExec = (input: unknown, exec: Exec, atMs: number, began: number): void => {
    void exec.outcome.then((outcome) => {
      const { id, outputBytes } = exec.info()
      core().record.append({
        operation: 'exec.start',
        atMs,
        durationMs: Math.round((performance.now() - began) * 1000) / 1000,
        input: recordable(input),
        result: { exec: id, outcome, outputBytes },
      })
    })
  }

  return {
    'sandbox.create': (input, call) =>
      recorded(
        'sandbox.create',
        input,
        async () => (await core().create(input, call)).info(),
        (info) => ({ sandbox: info.id, identity: info.report.identity, missing: info.report.missing.map((each) => each.layer) }),
      ),
    'sandbox.get': async ({ sandbox }) => core().sandbox(sandbox).info(),
    'sandbox.list': async ({ labels }) => {
      const wanted = Object.entries(labels)
      const all = core()
        .sandboxes()
        .map((sandbox) => sandbox.info())
      return { sandboxes: all.filter((info) => wanted.every(([key, value]) => info.labels[key] === value)) }
    },
    'sandbox.destroy': (input) => recorded('sandbox.destroy', input, () => core().sandbox(input.sandbox).destroy()),
    'sandbox.changes': ({ sandbox }) => core().sandbox(sandbox).box.changes(),
    'exec.start': async (input) => {
      const atMs = Date.now()
      const began = performance.now()
      try {
        const exec = await core().start(input)
        recordExec(input, exec, atMs, began)
        return exec.info()
      } catch (error) {
        core().record.append({
          operation: 'exec.start',
          atMs,
          durationMs: 0,
          input: recordable(input),
          result: { refused: isSandlotError(error) ? error.code : 'internal' },
        })
        throw error
      }
    },
    'exec.get': async ({ sandbox, exec }) => core().exec(sandbox, exec).info(),
    'exec.list': async ({ sandbox }) => ({ execs: Array.from(core().sandbox(sandbox).execs.values(), (exec) => exec.info()) }),
    'exec.wait': async ({ sandbox, exec, until }) => {
      const found = core().exec(sandbox, exec)
      const outcome = await found.outcome
      if (until === 'ended') await found.ended
      return outcome
    },
    'exec.output': async function* ({ sandbox, exec, from, follow, channel }) {
      for await (const event of core().exec(sandbox, exec).output(from, follow)) {
        if (channel === undefined || event.kind !== 'data' || event.channel === channel) yield event
      }
    },
    'exec.input': async ({ sandbox, exec, offset, close }, bytes) => {
      const found = core().exec(sandbox, exec)
      let skip = offset === undefined ? 0 : found.inputOffset() - offset
      for await (const chunk of bytes) {
        const fresh = skip >= chunk.length ? chunk.subarray(chunk.length) : chunk.subarray(Math.max(skip, 0))
        skip -= chunk.length - fresh.length
        if (fresh.length > 0) await found.input(fresh)
      }
      if (close) found.closeInput()
      return { offset: found.inputOffset() }
    },
    'exec.signal': (input) =>
      recorded('exec.signal', input, async () =>
        core()
          .exec(input.sandbox, input.exec)
          .signal(input.signal, input.scope === 'tree'),
      ),
    'exec.end': (input) =>
      recorded(
        'exec.end',
        input,
        async () => {
          const exec = core().exec(input.sandbox, input.exec)
          await exec.end()
          return exec.outcome
        },
        (outcome) => ({ outcome }),
      ),
    'system.doctor': async () => (await system()).doctor(),
    'system.version': async () => (await system()).version(),
  }
}
