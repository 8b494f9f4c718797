// One exec: a process tree started in a sandbox, its output log, its stdin, its end. A handle exists as soon as the process has started.
//
//   starting -> running -> exited (first process over, leftovers live) -> ended (no process left);  starting -> unstarted

import { refusal } from '../driver/refusal.ts'
import { SandlotError } from '../model/error.ts'
import { errnoName } from '../model/errno.ts'
import type { ExecInfo, ExecState, OutputEvent, Overflow } from '../model/exec.ts'
import type { Outcome, UnstartedReason, Usage } from '../model/outcome.ts'
import {
  CHANNEL_STDERR,
  CHANNEL_STDIN,
  CHANNEL_STDOUT,
  creditFrame,
  dataEndFrame,
  dataFrame,
  Fields,
  FIELD_MUST,
  type Frame,
  FrameError,
  fieldFrame,
  frameData,
  frameOffset,
  kinds,
  tags,
  WINDOW,
} from '../protocol/frame.ts'
import type { InitConnection } from './init.ts'
import { createLog } from './log.ts'
import { after } from './timer.ts'

export type ExecSpec = {
  readonly id: string
  readonly sandbox: string
  readonly argv: readonly string[]
  /** `NAME=value`. */
  readonly env: readonly string[]
  readonly cwd: string
  readonly user: { readonly name: string; readonly uid: number; readonly gid: number; readonly groups: readonly number[] }
  readonly stdin: 'none' | 'pipe'
  readonly merge: boolean
  /** Milliseconds; 0 = never. */
  readonly deadlineMs: number
  readonly overflow: Overflow
  readonly logBytes: number
  readonly reserveReader: boolean
  readonly nowMs: number
  /** What a person should know about a program that is not there, e.g. that the host has it and what would show it. */
  readonly explainAbsent?: (program: string) => Promise<string | undefined>
}

export type Exec = {
  info(): ExecInfo
  /** Resolves when the process has started, or with an outcome `unstarted`, or the sandbox is lost. */
  readonly started: Promise<void>
  /** Resolves when the first process is over and what it wrote is in the log. */
  readonly outcome: Promise<Outcome>
  /** Resolves when no process of it is left. */
  readonly ended: Promise<void>
  output(from: number, follow: boolean): AsyncGenerator<OutputEvent, void, void>
  /** Sends `bytes` and resolves when more is welcome. Throws `exec.stdin_closed`. */
  input(bytes: Uint8Array): Promise<void>
  closeInput(): void
  /** Bytes of stdin taken so far. */
  inputOffset(): number
  signal(signal: number, tree: boolean): void
  /** Ends the whole tree; resolves when none of it is left. */
  end(): Promise<void>
}

// An init that does not end a tree this long after its deadline is not obeying.
const GRACE_MS = 5_000
const CREDIT_STEP = WINDOW / 4

// Bytes of output that pass through before what was dropped of them is swept up; most commands never come that far.
const SWEEP_STEP = 4 * 1024 * 1024
let unswept = 0
let sweep: (() => void) | undefined

const passedThrough = (bytes: number): void => {
  unswept += bytes
  if (unswept < SWEEP_STEP) return
  unswept = 0
  if (sweep !== undefined) return sweep()
  void import('./garbage.ts').then(({ sweepYoung }) => {
    sweep = sweepYoung
    sweep()
  })
}

/** `giveUp` ends the sandbox when its init does not obey. */
export const startExec = (init: InitConnection, spec: ExecSpec, giveUp: (reason: string) => void): Exec => {
  const log = createLog(spec.overflow, spec.logBytes)
  if (spec.reserveReader) log.reserve()
  const started = Promise.withResolvers<void>()
  const over = Promise.withResolvers<Outcome>()
  const ended = Promise.withResolvers<void>()
  let state: ExecState = 'starting'
  let pid = 0
  let outcome: Outcome | undefined
  let pending: { readonly outcome: Outcome; readonly position: number } | undefined
  let exitOffset = 0
  const open = new Set<number>(spec.merge ? [CHANNEL_STDOUT] : [CHANNEL_STDOUT, CHANNEL_STDERR])
  let acknowledged = 0
  let limit = WINDOW
  let cancelled = false
  let callOff = (): void => {}
  const stdin = { sent: 0, limit: 0, closed: spec.stdin === 'none', stopped: false, wake: () => {} }
  const watchers = new Set<() => void>()
  started.promise.catch(() => {})

  const finish = (next: ExecState): void => {
    if (state === 'ended' || state === 'unstarted') return
    state = next
    callOff()
    stdin.stopped = true
    stdin.wake()
    ended.resolve()
    maybeRelease()
  }

  const maybeRelease = (): void => {
    if ((state !== 'ended' && state !== 'unstarted') || open.size > 0) return
    log.close()
    init.sendLater(fieldFrame(kinds.RELEASE, id))
    init.release(id)
    init.unhold()
  }

  const conclude = (value: Outcome): void => {
    if (outcome !== undefined) return
    outcome = value
    exitOffset = log.end
    over.resolve(value)
    for (const watcher of watchers) watcher()
  }

  const credit = (): void => {
    if (open.size === 0) return
    const may = log.limit
    // Credit is given in steps, not for every frame; but a producer that stands at its limit gets whatever there is.
    if (log.end - acknowledged >= CREDIT_STEP || may - limit >= CREDIT_STEP || (may > limit && log.end === limit)) {
      acknowledged = log.end
      limit = Math.max(limit, may)
      init.send(creditFrame(id, CHANNEL_STDOUT, acknowledged, limit))
    }
  }
  log.onRoom(credit)

  const onFrame = (frame: Frame): void => {
    switch (frame.kind) {
      case kinds.STARTED:
        pid = new Fields(frame.payload).u32(tags.PID) ?? 0
        if (state === 'starting') state = 'running'
        started.resolve()
        return
      case kinds.UNSTARTED: {
        const fields = new Fields(frame.payload)
        const step = fields.text(tags.STEP) ?? 'exec'
        const errno = fields.u32(tags.ERRNO) ?? 0
        open.clear()
        const reason = reasonOf(step, errno)
        const tell = (more: string | undefined): void => {
          const message = messageOf(spec, step, errno)
          conclude({ kind: 'unstarted', reason, errno, message: more === undefined ? message : `${message}: ${more}` })
          started.resolve()
          finish('unstarted')
        }
        if (reason !== 'not_found' || spec.explainAbsent === undefined) tell(undefined)
        else void spec.explainAbsent(spec.argv[0] ?? '').then(tell, () => tell(undefined))
        return
      }
      case kinds.DATA: {
        const offset = frameOffset(frame)
        if (offset > log.end) throw new FrameError(`output at ${offset}, but ${log.end} was next`)
        if (offset + frame.payload.length - 8 > limit) throw new FrameError('output beyond the limit it was given')
        if (!open.has(frame.channel)) throw new FrameError(`output on channel ${frame.channel} after its end`)
        log.append(frame.channel === CHANNEL_STDERR ? 'stderr' : 'stdout', offset, frameData(frame))
        passedThrough(frame.payload.length)
        credit()
        settle()
        return
      }
      case kinds.DATA_END:
        open.delete(frame.channel)
        settle()
        for (const watcher of watchers) watcher()
        maybeRelease()
        return
      case kinds.CREDIT:
        stdin.limit = Math.max(stdin.limit, frameOffset(frame, 1))
        stdin.wake()
        return
      case kinds.STOP:
        stdin.stopped = true
        stdin.wake()
        return
      case kinds.EXITED: {
        const fields = new Fields(frame.payload)
        state = 'exited'
        pending = { outcome: outcomeOf(fields, spec, cancelled), position: fields.u64(tags.COUNT) ?? log.end }
        stdin.stopped = true
        stdin.wake()
        settle()
        return
      }
      case kinds.ENDED:
        if (pending === undefined) throw new FrameError('ENDED before EXITED')
        finish('ended')
        return
      case kinds.FAULT: {
        const error = refusal(new Fields(frame.payload))
        // A refusal to start it is the caller's to hear; one about a frame that crossed the end of what it was about says nothing new.
        if (state === 'starting') {
          open.clear()
          started.reject(error)
          conclude({ kind: 'lost', message: error.message })
          finish('unstarted')
        } else if (error.code === 'exec.stdin_closed') {
          stdin.stopped = true
          stdin.wake()
        }
        return
      }
      default:
        throw new FrameError(`kind ${frame.kind} for an exec`)
    }
  }

  // The outcome is told when everything that the first process wrote is in the log, so that whoever reads up to it has read all of it.
  const settle = (): void => {
    if (pending !== undefined && outcome === undefined && (log.end >= pending.position || open.size === 0)) conclude(pending.outcome)
  }

  const onLost = (error: SandlotError): void => {
    open.clear()
    conclude(pending?.outcome ?? { kind: 'lost', message: error.message })
    started.resolve()
    log.close()
    if (state !== 'ended' && state !== 'unstarted') {
      state = 'ended'
      callOff()
      init.unhold()
    }
    stdin.stopped = true
    stdin.wake()
    ended.resolve()
    for (const watcher of watchers) watcher()
  }

  const id = init.open(onFrame, onLost)
  init.hold()
  init.send(
    fieldFrame(kinds.EXEC, id, (fields) => {
      fields
        .texts(tags.ARGV, spec.argv)
        .texts(tags.ENV, spec.env)
        .text(tags.CWD, spec.cwd)
        .u32(tags.UID, spec.user.uid, FIELD_MUST)
        .u32(tags.GID, spec.user.gid, FIELD_MUST)
        .u32(tags.STDIN, spec.stdin === 'pipe' ? 1 : 0)
      for (const group of spec.user.groups) fields.u32(tags.GROUP, group, FIELD_MUST)
      if (spec.merge) fields.u32(tags.MERGE, 1)
      if (spec.deadlineMs > 0) fields.u64(tags.DEADLINE_MS, spec.deadlineMs, FIELD_MUST)
    }),
  )
  if (spec.deadlineMs > 0) callOff = after(spec.deadlineMs + GRACE_MS, () => giveUp('its init did not end a command at its deadline'))

  async function* output(from: number, follow: boolean): AsyncGenerator<OutputEvent, void, void> {
    const reader = log.read(from)
    let wake = (): void => {}
    const watcher = (): void => wake()
    watchers.add(watcher)
    let told = false
    try {
      for (;;) {
        // The outcome stands in the stream where the first process's last byte does.
        if (!told && outcome !== undefined && reader.position >= exitOffset) {
          told = true
          yield { kind: 'exit', offset: Math.max(exitOffset, from), outcome }
        }
        const entry = reader.poll()
        if (entry !== undefined) {
          yield { kind: 'data', channel: entry.channel, offset: entry.offset, bytes: entry.bytes }
          continue
        }
        if (open.size === 0 && outcome !== undefined) {
          if (told) {
            yield { kind: 'end', offset: log.end, outcome }
            return
          }
          continue
        }
        if (!follow) return
        await Promise.race([
          reader.more(),
          new Promise<void>((resolve) => {
            wake = resolve
          }),
        ])
      }
    } finally {
      watchers.delete(watcher)
      reader.detach()
    }
  }

  return {
    info: () => ({
      id: spec.id,
      sandbox: spec.sandbox,
      argv: spec.argv,
      cwd: spec.cwd,
      user: spec.user.name,
      state,
      pid,
      startedAtMs: spec.nowMs,
      outputBytes: log.end,
      outputFirst: log.first,
      outcome,
    }),
    started: started.promise,
    outcome: over.promise,
    ended: ended.promise,
    output,
    input: async (bytes) => {
      let at = 0
      while (at < bytes.length) {
        if (stdin.closed || stdin.stopped) throw new SandlotError('exec.stdin_closed', 'nothing reads the stdin of this exec')
        const room = Math.min(stdin.limit - stdin.sent, bytes.length - at, 65_536)
        if (room > 0) {
          init.send(dataFrame(id, CHANNEL_STDIN, stdin.sent, bytes.subarray(at, at + room)))
          stdin.sent += room
          at += room
        } else {
          await new Promise<void>((resolve) => {
            stdin.wake = resolve
          })
        }
      }
      await init.drained()
    },
    inputOffset: () => stdin.sent,
    closeInput: () => {
      if (stdin.closed) return
      stdin.closed = true
      if (!stdin.stopped) init.send(dataEndFrame(id, CHANNEL_STDIN, stdin.sent))
    },
    signal: (signal, tree) => {
      if (state !== 'ended' && state !== 'unstarted')
        init.send(fieldFrame(kinds.SIGNAL, id, (fields) => fields.u32(tags.SIGNAL, signal).u32(tags.SCOPE, tree ? 1 : 0)))
    },
    end: async () => {
      if (state === 'ended' || state === 'unstarted') return
      cancelled = true
      init.send(fieldFrame(kinds.END, id))
      const late = setTimeout(() => giveUp('its init did not end a command'), GRACE_MS)
      late.unref()
      await ended.promise
      clearTimeout(late)
    },
  }
}

const ENOENT = 2
const E2BIG = 7
const EAGAIN = 11
const ENOMEM = 12

const reasonOf = (step: string, errno: number): UnstartedReason => {
  if (step === 'cwd') return 'no_cwd'
  if (step === 'user') return 'no_user'
  if (errno === E2BIG) return 'too_large'
  if (step === 'fork' || errno === EAGAIN || errno === ENOMEM) return 'no_resources'
  return errno === ENOENT ? 'not_found' : 'not_executable'
}

const messageOf = (spec: ExecSpec, step: string, errno: number): string => {
  const program = spec.argv[0] ?? ''
  if (step === 'cwd') return `cannot enter ${spec.cwd}: ${errnoName(errno)}`
  if (step === 'user') return `cannot become ${spec.user.name}: ${errnoName(errno)}`
  if (errno === ENOENT) return program.includes('/') ? `${program}: no such file` : `${program}: command not found`
  return `${program}: ${errnoName(errno)}`
}

const CAUSE_DEADLINE = 1
const CAUSE_END = 2

const outcomeOf = (fields: Fields, spec: ExecSpec, cancelled: boolean): Outcome => {
  const usage: Usage = {
    userUs: fields.u64(tags.USER_US) ?? 0,
    systemUs: fields.u64(tags.SYSTEM_US) ?? 0,
    peakBytes: fields.u64(tags.PEAK_BYTES) ?? 0,
  }
  const cause = fields.u32(tags.CAUSE) ?? 0
  if (cause === CAUSE_DEADLINE) return { kind: 'timeout', afterMs: spec.deadlineMs, usage }
  if (cause === CAUSE_END && cancelled) return { kind: 'cancelled', usage }
  const signal = fields.u32(tags.SIGNAL) ?? 0
  if (signal !== 0) return { kind: 'signalled', signal, usage }
  return { kind: 'exited', code: fields.u32(tags.EXIT) ?? 0, usage }
}
