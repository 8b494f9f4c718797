// The engine's end of a connection to an init: says HELLO, cuts what comes back into frames, hands each to the stream it belongs to.
// The other end is trusted with nothing: whatever breaks the protocol ends this sandbox, with an error that says so, and no other.

import type { Channel as Connection, Welcome } from '../driver/contract.ts'
import { refusal } from '../driver/refusal.ts'
import { isSandlotError, SandlotError } from '../model/error.ts'
import { Fields, FRAME_LIMIT_OUT, type Frame, FrameError, FrameReader, fieldFrame, kinds, tags } from '../protocol/frame.ts'
import { GENERATION } from '../protocol/generation.ts'

export type InitConnection = {
  /** What the init said first; rejects when the sandbox could not be made. */
  readonly welcome: Promise<Welcome>
  /** Why the connection ended; resolves once. `undefined`: we closed it. */
  readonly ended: Promise<SandlotError | undefined>
  /** Registers a stream and gives its id. `onFrame` gets every frame with that id; `onLost` is called once if the connection ends first. */
  open(onFrame: (frame: Frame) => void, onLost: (error: SandlotError) => void): number
  /** Forgets a stream. */
  release(id: number): void
  send(bytes: Uint8Array): void
  /** Sends with the next frame, or a moment later: for what nobody waits for. */
  sendLater(bytes: Uint8Array): void
  /** Resolves when what was sent has left. */
  drained(): Promise<void>
  /** Counts reasons to keep the process running: while there is one, the connection does. */
  hold(): void
  unhold(): void
  close(): void
}

// How long a frame may wait for another one to travel with.
const LATER_MS = 20

export const connectInit = (connection: Connection): InitConnection => {
  const reader = new FrameReader(FRAME_LIMIT_OUT)
  const streams = new Map<number, { onFrame: (frame: Frame) => void; onLost: (error: SandlotError) => void }>()
  let nextId = 1
  let holds = 0
  let welcomed = false
  let over: { readonly error: SandlotError | undefined } | undefined
  const welcome = Promise.withResolvers<Welcome>()
  const ended = Promise.withResolvers<SandlotError | undefined>()
  welcome.promise.catch(() => {})

  let later: Uint8Array[] = []
  let timer: NodeJS.Timeout | undefined
  const flushLater = (): void => {
    if (later.length === 0) return
    clearTimeout(timer)
    timer = undefined
    const frames = later
    later = []
    if (over === undefined) for (const bytes of frames) connection.write(bytes)
  }

  const end = (error: SandlotError | undefined): void => {
    if (over !== undefined) return
    clearTimeout(timer)
    over = { error }
    connection.close()
    const lost = error ?? new SandlotError('sandbox.lost', 'the sandbox was destroyed')
    welcome.reject(lost)
    for (const stream of streams.values()) stream.onLost(lost)
    streams.clear()
    ended.resolve(error)
  }

  const onFrame = (frame: Frame): void => {
    if (over !== undefined) return
    if (!welcomed) {
      const fields = new Fields(frame.payload)
      if (frame.kind === kinds.REFUSED || frame.kind === kinds.FAULT) return end(refusal(fields))
      if (frame.kind !== kinds.WELCOME) throw new FrameError(`kind ${frame.kind} before WELCOME`)
      const generation = fields.u32(tags.GENERATION) ?? 0
      if (generation < 1) throw new FrameError('WELCOME without a generation')
      welcomed = true
      welcome.resolve({ features: fields.texts(tags.FEATURE), missing: fields.texts(tags.MISSING) })
      return
    }
    if (frame.id === 0) {
      if (frame.kind === kinds.FAULT || frame.kind === kinds.REFUSED) return end(refusal(new Fields(frame.payload)))
      if (frame.kind === kinds.PONG) return
      throw new FrameError(`kind ${frame.kind} for no stream`)
    }
    const stream = streams.get(frame.id)
    // A stream that was released may still have frames on the way; an id that was never given out may not.
    if (stream === undefined && frame.id >= nextId) throw new FrameError(`kind ${frame.kind} for stream ${frame.id}, which was never opened`)
    stream?.onFrame(frame)
  }

  connection.onData((bytes) => {
    if (over !== undefined) return
    try {
      reader.push(bytes, onFrame)
    } catch (cause) {
      const what = cause instanceof Error ? cause.message : String(cause)
      end(new SandlotError('sandbox.corrupted', `the init of this sandbox broke the protocol: ${what}`, { cause }))
    }
  })
  connection.onEnd((cause) => {
    if (isSandlotError(cause)) return end(cause)
    const message = reader.unfinished ? 'the connection to the sandbox was cut in the middle of a frame' : 'the connection to the sandbox ended'
    end(new SandlotError('sandbox.lost', message, cause === undefined ? {} : { cause }))
  })

  connection.write(fieldFrame(kinds.HELLO, 0, (fields) => fields.u32(tags.GENERATION, GENERATION).u32(tags.EPOCH, 1).u32(tags.ON_EOF, 0)))
  connection.keepAlive(false)

  return {
    welcome: welcome.promise,
    ended: ended.promise,
    open: (onStreamFrame, onLost) => {
      if (over !== undefined) throw over.error ?? new SandlotError('sandbox.lost', 'the sandbox was destroyed')
      const id = nextId++
      streams.set(id, { onFrame: onStreamFrame, onLost })
      return id
    },
    release: (id) => {
      streams.delete(id)
    },
    send: (bytes) => {
      if (over !== undefined) return
      flushLater()
      connection.write(bytes)
    },
    sendLater: (bytes) => {
      later.push(bytes)
      timer ??= setTimeout(flushLater, LATER_MS).unref()
    },
    drained: () => connection.drained(),
    hold: () => {
      if (holds++ === 0) connection.keepAlive(true)
    },
    unhold: () => {
      if (--holds === 0) connection.keepAlive(false)
    },
    close: () => end(undefined),
  }
}
