// The engine's end of the launcher: spawn it once, hold its control channel, connect once per box.
// The control channel is the launcher's fd 3; when we die, however, it reads end of file and ends everything below it.

import { closeSync, constants, openSync } from '../../host/node-fs.ts'
import type { Socket } from 'node:net'
import { basename, dirname } from 'node:path'
import type { Channel, Gone } from '../contract.ts'
import { isSandlotError, SandlotError } from '../../model/error.ts'
import type { SkeletonEntry } from '../../model/mount.ts'
import type { Report } from '../../model/report.ts'
import type { Changes } from '../../model/sandbox.ts'
import { Fields, FRAME_LIMIT_OUT, type Frame, FrameReader, fieldFrame, kinds, tags } from '../../protocol/frame.ts'
import { GENERATION } from '../../protocol/generation.ts'
import { refusal } from '../refusal.ts'
import { channelOf } from '../stream-channel.ts'
import { putSkeleton } from './plan.ts'

export type Ready = { readonly identity: Report['identity']; readonly socket: string }

export type LauncherOptions = {
  /** The native program. */
  readonly program: string
  readonly stateDirectory: string
  /** Letters and digits, at most 32. */
  readonly id: string
  readonly skeleton: readonly SkeletonEntry[]
  /** Known to this engine and its launcher alone: a connection that does not name it is closed. 16 to 64 letters and digits. */
  readonly secret: string
  /** Directories below which host sources may lie; empty = the engine is the authority. */
  readonly permit: readonly string[]
}

export type Launcher = {
  /** Resolves when it has answered START. Rejects with its refusal. Nothing else has to wait for it. */
  readonly ready: Promise<Ready>
  /** What every CREATE has to name. */
  readonly secret: string
  /** Opens a sandbox's connection with `first` as what is said on it. */
  open(box: string, first: Uint8Array): Promise<{ readonly channel: Channel; readonly gone: Promise<Gone> }>
  changes(box: string): Promise<Changes>
  discard(box: string): void
  /** Keeps the process running until `gone`: what is being removed is waited for. */
  waitFor(gone: Promise<Gone>): Promise<void>
  /** Ends the launcher and everything below it; resolves when it is gone. */
  close(): Promise<void>
}

// First host id of the private ranges and how many: 0x10000000 and above is far from what login.defs gives to people and their containers.
const RANGE_BASE = 0x1000_0000
const RANGE_COUNT = 16_384
const START_MS = 10_000

export const startLauncher = (options: LauncherOptions): Launcher => {
  // A session of its own: Ctrl-C in the caller's terminal is for the caller to hand on. Nothing of the environment goes in.
  const child = process
    .getBuiltinModule('node:child_process')
    .spawn(options.program, ['launcher'], { cwd: '/', env: {}, detached: true, stdio: ['ignore', 'ignore', 'pipe', 'pipe', 'pipe'] })
  const complaint: Buffer[] = []
  child.stderr!.on('data', (bytes: Buffer) => {
    if (complaint.length < 16) complaint.push(bytes)
  })
  ;(child.stderr as Socket).unref()
  child.unref()
  const exited = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(error.message))
    child.once('exit', (code, signal) => resolve(Buffer.concat(complaint).toString().trim() || (signal === null ? `exit code ${code}` : `killed by ${signal}`)))
  })

  const control = child.stdio[3] as Socket
  // The connection of the first box comes with the launcher: whoever wants one box need not wait until there is a socket to connect to.
  let first: Socket | undefined = child.stdio[4] as Socket
  first.unref()
  const reader = new FrameReader(FRAME_LIMIT_OUT)
  const boxes = new Map<string, (gone: Gone) => void>()
  const asked = new Map<number, { resolve: (changes: Changes) => void; reject: (error: SandlotError) => void }>()
  let nextRequest = 1
  let closing = false
  let started: { resolve: (fields: Fields) => void; reject: (error: SandlotError) => void } | undefined
  const answer = new Promise<Fields>((resolve, reject) => {
    started = { resolve, reject }
  })

  const fail = (message: string): void => {
    const error = new SandlotError('launcher.failed', `the launcher ended: ${message}`)
    started?.reject(error)
    for (const { reject } of asked.values()) reject(error)
    asked.clear()
    for (const gone of boxes.values()) gone({ reason: closing ? 'destroyed' : 'driver_died', message })
    boxes.clear()
  }

  const onFrame = (frame: Frame): void => {
    const fields = new Fields(frame.payload)
    if (frame.kind === kinds.READY) started?.resolve(fields)
    else if (frame.kind === kinds.GONE) {
      const box = fields.text(tags.BOX) ?? ''
      const status = fields.u32(tags.STATUS) ?? 0
      boxes.get(box)?.({ reason: status === 0 ? 'destroyed' : 'init_died', message: describeStatus(status) })
      boxes.delete(box)
    } else if (frame.kind === kinds.CHANGED) {
      const names = fields.texts(tags.NAME)
      const counts = fields.u64s(tags.COUNT)
      const overlays = names.map((name, i) => ({ name, files: counts[i] ?? 0 }))
      asked.get(frame.id)?.resolve({ total: overlays.reduce((sum, overlay) => sum + overlay.files, 0), overlays })
      asked.delete(frame.id)
    } else if (frame.kind === kinds.REFUSED) {
      const error = refusal(fields)
      if (frame.id === 0) started?.reject(error)
      else asked.get(frame.id)?.reject(error)
      asked.delete(frame.id)
    }
  }

  control.on('data', (bytes: Buffer) => {
    try {
      reader.push(bytes, onFrame)
    } catch (error) {
      child.kill('SIGKILL')
      fail(`it broke the protocol: ${error instanceof Error ? error.message : String(error)}`)
    }
  })
  control.on('error', () => {})
  void exited.then(fail)

  control.write(
    fieldFrame(
      kinds.START,
      0,
      (fields) => {
        fields
          .u32(tags.GENERATION, GENERATION)
          .text(tags.STATE, options.stateDirectory)
          .text(tags.LAUNCHER, options.id)
          .text(tags.SECRET, options.secret)
          .texts(tags.PERMIT, options.permit)
          .u32(tags.RANGE_BASE, RANGE_BASE)
          .u32(tags.RANGE_COUNT, RANGE_COUNT)
        putSkeleton(fields, options.skeleton)
      },
      256 * 1024,
    ),
  )

  const deadline = setTimeout(() => {
    child.kill('SIGKILL')
    fail('it did not answer within 10 seconds')
  }, START_MS)
  const ready = answer.then(
    (fields): Ready => {
      clearTimeout(deadline)
      started = undefined
      if (holds === 0) control.unref()
      const identity = fields.text(tags.IDENTITY)
      if (identity !== 'range' && identity !== 'subordinate' && identity !== 'single') {
        throw new SandlotError('internal', `the launcher names an identity that is not known: ${identity}`)
      }
      return { identity, socket: fields.text(tags.SOCKET) ?? '' }
    },
    (error: unknown) => {
      clearTimeout(deadline)
      started = undefined
      control.destroy()
      first?.destroy()
      throw error
    },
  )
  ready.catch(() => {})

  // The control channel alone does not keep the process running; an answer that somebody waits for does.
  let holds = 0
  const hold = (): void => {
    if (holds++ === 0) control.ref()
  }
  const unhold = (): void => {
    if (--holds === 0) control.unref()
  }
  const connectAnew = async (box: string): Promise<Socket> => {
    try {
      const { socket } = await ready
      return await connectTo(socket)
    } catch (cause) {
      boxes.delete(box)
      throw isSandlotError(cause) ? cause : new SandlotError('launcher.failed', 'the launcher does not answer on its socket', { cause })
    }
  }

  const request = (kind: number, box: string): number => {
    const id = nextRequest++
    control.write(fieldFrame(kind, id, (fields) => fields.text(tags.BOX, box)))
    return id
  }

  return {
    ready,
    secret: options.secret,
    open: async (box, order) => {
      if (closing) throw new SandlotError('sandbox.lost', 'the driver is closed')
      const gone = new Promise<Gone>((resolve) => boxes.set(box, resolve))
      const stream = first?.destroyed === false ? first : await connectAnew(box)
      first = undefined
      stream.write(order)
      return { channel: explained(channelOf(stream), ready), gone }
    },
    changes: async (box) => {
      if (!boxes.has(box)) throw new SandlotError('sandbox.lost', 'the sandbox is gone')
      hold()
      try {
        return await new Promise<Changes>((resolve, reject) => asked.set(request(kinds.CHANGES, box), { resolve, reject }))
      } finally {
        unhold()
      }
    },
    waitFor: async (gone) => {
      hold()
      await gone
      unhold()
    },
    discard: (box) => {
      if (boxes.has(box)) request(kinds.DISCARD, box)
    },
    close: async () => {
      closing = true
      control.end()
      child.ref()
      await exited
      control.destroy()
    },
  }
}

// A launcher that refuses to start closes everything: its refusal says more than the closed connection.
const explained = (channel: Channel, ready: Promise<unknown>): Channel => ({
  ...channel,
  onEnd: (listener) => channel.onEnd((cause) => void ready.then(() => listener(cause), listener)),
})

const describeStatus = (status: number): string => {
  const signal = status & 0x7f
  return signal === 0 ? `the init exited with ${(status >> 8) & 0xff}` : `the init was killed by signal ${signal}`
}

// sun_path holds 107 bytes (unix(7)); a longer path is reached through a descriptor of its directory.
const connectTo = (path: string): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const long = Buffer.byteLength(path) > 107
    const directory = long ? openSync(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY) : -1
    const stream = process.getBuiltinModule('node:net').connect(long ? `/proc/self/fd/${directory}/${basename(path)}` : path)
    stream.once('connect', () => {
      if (long) closeSync(directory)
      stream.removeListener('error', reject)
      resolve(stream)
    })
    stream.once('error', (error) => {
      if (long) closeSync(directory)
      reject(error)
    })
  })
