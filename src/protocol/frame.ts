// Frames of the guest protocol: what the engine, the launcher and the init say to each other. native/frame.h holds the same table.
//
//   u32 length of payload | u8 kind | u8 flags | u16 channel | u32 id      little endian, then the payload
//
// Everything an init sends is hostile: lengths are checked here, before anything is kept.

export const FRAME_HEADER = 12
/** Largest payload towards launcher and init, bytes. */
export const FRAME_LIMIT_IN = 32 * 1024 * 1024
/** Largest payload from launcher and init, bytes. */
export const FRAME_LIMIT_OUT = 1024 * 1024
/** Bytes a channel may be ahead of its credit. */
export const WINDOW = 256 * 1024
/** Flag of a field that must not be overlooked: an init that does not know its tag refuses the frame. */
export const FIELD_MUST = 1
export const CHANNEL_STDIN = 0
export const CHANNEL_STDOUT = 1
export const CHANNEL_STDERR = 2

export const kinds = {
  START: 1,
  READY: 2,
  REFUSED: 3,
  GONE: 4,
  DISCARD: 5,
  CHANGES: 6,
  CHANGED: 7,
  CONTROL: 8,
  BOXES: 9,
  CREATE: 16,
  ATTACH: 17,
  HELLO: 32,
  WELCOME: 33,
  EXEC: 34,
  STARTED: 35,
  UNSTARTED: 36,
  DATA: 37,
  CREDIT: 38,
  DATA_END: 39,
  STOP: 40,
  EXITED: 41,
  ENDED: 42,
  SIGNAL: 43,
  END: 44,
  RELEASE: 45,
  PING: 46,
  PONG: 47,
  FAULT: 48,
  STATE: 49,
} as const

export const tags = {
  GENERATION: 1,
  STATE: 2,
  LAUNCHER: 3,
  PERMIT: 4,
  RANGE_BASE: 5,
  RANGE_COUNT: 6,
  SKELETON: 7,
  SOCKET: 8,
  IDENTITY: 9,
  FEATURE: 10,
  CODE: 11,
  STEP: 12,
  SUBJECT: 13,
  ERRNO: 14,
  BOX: 15,
  STATUS: 16,
  COUNT: 17,
  NAME: 18,
  HOSTNAME: 19,
  MOUNT: 20,
  FILTER: 21,
  CGROUP: 22,
  MISSING: 23,
  ARGV: 24,
  ENV: 25,
  CWD: 26,
  UID: 27,
  GID: 28,
  GROUP: 29,
  STDIN: 30,
  DEADLINE_MS: 31,
  PID: 32,
  EXIT: 33,
  SIGNAL: 34,
  SCOPE: 35,
  USER_US: 36,
  SYSTEM_US: 37,
  PEAK_BYTES: 38,
  COOKIE: 39,
  ENTRY: 40,
  TARGET: 41,
  MODE: 42,
  BYTES: 43,
  SOURCE: 44,
  IDS: 45,
  SIZE: 46,
  FLAGS: 47,
  CORE: 48,
  MERGE: 49,
  LAYER: 50,
  UPPER: 51,
  DEV: 52,
  INO: 53,
  EPOCH: 54,
  ON_EOF: 55,
  CAUSE: 56,
  SECRET: 57,
} as const

export type Frame = {
  readonly kind: number
  readonly flags: number
  readonly channel: number
  readonly id: number
  /** A view into a larger chunk: copy what outlives the call. */
  readonly payload: Uint8Array
}

/** A malformed stream: the connection it came from has to be ended. */
export class FrameError extends Error {
  override readonly name = 'FrameError'
}

const NOTHING = new Uint8Array(0)

/** Cuts a byte stream into frames. Keeps at most one unfinished frame, and refuses a length above `limit` before keeping anything of it. */
export class FrameReader {
  readonly #limit: number
  // What has come of an unfinished frame: the first #used bytes. Grows by doubling, so that a frame sent byte by byte costs no more than its size.
  #kept: Uint8Array = NOTHING
  #used = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  /** Calls `each` for every frame that `chunk` completes. Throws FrameError on a length that cannot be. */
  push(chunk: Uint8Array, each: (frame: Frame) => void): void {
    let bytes = chunk
    if (this.#used > 0) {
      this.#keep(chunk)
      if (this.#used < FRAME_HEADER || this.#used < FRAME_HEADER + this.#lengthAt(this.#kept, 0)) return
      bytes = this.#kept.subarray(0, this.#used)
    }
    let at = 0
    while (bytes.length - at >= FRAME_HEADER) {
      const length = this.#lengthAt(bytes, at)
      if (bytes.length - at - FRAME_HEADER < length) break
      const view = new DataView(bytes.buffer, bytes.byteOffset + at, FRAME_HEADER)
      each({
        kind: view.getUint8(4),
        flags: view.getUint8(5),
        channel: view.getUint16(6, true),
        id: view.getUint32(8, true),
        payload: bytes.subarray(at + FRAME_HEADER, at + FRAME_HEADER + length),
      })
      at += FRAME_HEADER + length
    }
    this.#kept = at < bytes.length ? bytes.subarray(at) : NOTHING
    this.#used = this.#kept.length
  }

  /** True while a frame has begun and not ended: the stream was cut short. */
  get unfinished(): boolean {
    return this.#used > 0
  }

  #keep(chunk: Uint8Array): void {
    const end = this.#used + chunk.length
    if (end > this.#kept.length) {
      const larger = new Uint8Array(Math.max(end, 2 * this.#used))
      larger.set(this.#kept.subarray(0, this.#used))
      this.#kept = larger
    }
    this.#kept.set(chunk, this.#used)
    this.#used = end
  }

  #lengthAt(bytes: Uint8Array, at: number): number {
    const length = new DataView(bytes.buffer, bytes.byteOffset + at, 4).getUint32(0, true)
    if (length > this.#limit) throw new FrameError(`a frame of ${length} bytes, more than ${this.#limit}`)
    return length
  }
}

/** Builds fields, one after the other. Grows by doubling. */
export class FieldWriter {
  #bytes: Uint8Array
  #view: DataView
  #used: number

  constructor(reserve = 0, size = 512) {
    this.#bytes = new Uint8Array(Math.max(size, reserve))
    this.#view = new DataView(this.#bytes.buffer)
    this.#used = reserve
  }

  bytes(tag: number, value: Uint8Array, flags = 0): this {
    const at = this.#head(tag, value.length, flags)
    this.#bytes.set(value, at)
    return this
  }

  /** A nested list of fields. */
  fields(tag: number, fill: (fields: FieldWriter) => void): this {
    const nested = new FieldWriter()
    fill(nested)
    return this.bytes(tag, nested.written)
  }

  text(tag: number, value: string): this {
    // At most three bytes a code unit: room is made for that, and what is not used is given back.
    const at = this.#head(tag, 3 * value.length, 0)
    const { written } = encoder.encodeInto(value, this.#bytes.subarray(at))
    this.#view.setUint32(at - 4, written, true)
    this.#used = at + written
    return this
  }

  texts(tag: number, values: Iterable<string>): this {
    for (const value of values) this.text(tag, value)
    return this
  }

  u32(tag: number, value: number, flags = 0): this {
    const at = this.#head(tag, 4, flags)
    this.#view.setUint32(at, value, true)
    return this
  }

  u64(tag: number, value: number, flags = 0): this {
    const at = this.#head(tag, 8, flags)
    setU64(this.#view, at, value)
    return this
  }

  /** What has been written; valid until the next write. */
  get written(): Uint8Array {
    return this.#bytes.subarray(0, this.#used)
  }

  #head(tag: number, length: number, flags: number): number {
    const start = this.#used
    const end = start + 8 + length
    if (end > this.#bytes.length) {
      const bytes = new Uint8Array(Math.max(end, this.#bytes.length * 2))
      bytes.set(this.written)
      this.#bytes = bytes
      this.#view = new DataView(bytes.buffer)
    }
    this.#view.setUint16(start, tag, true)
    this.#view.setUint16(start + 2, flags, true)
    this.#view.setUint32(start + 4, length, true)
    this.#used = end
    return start + 8
  }
}

const encoder = new TextEncoder()
const decoder = new TextDecoder()

const setHeader = (bytes: Uint8Array, kind: number, id: number, flags: number, channel: number): Uint8Array => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, FRAME_HEADER)
  view.setUint32(0, bytes.length - FRAME_HEADER, true)
  view.setUint8(4, kind)
  view.setUint8(5, flags)
  view.setUint16(6, channel, true)
  view.setUint32(8, id, true)
  return bytes
}

/** A frame of fields. `size`: how large it may become, so that a large one need not grow on the way; bytes. */
export const fieldFrame = (kind: number, id: number, fill: (fields: FieldWriter) => void = () => {}, size = 512): Uint8Array => {
  const fields = new FieldWriter(FRAME_HEADER, size)
  fill(fields)
  return setHeader(fields.written, kind, id, 0, 0)
}

/** A DATA frame: bytes and the offset of the first of them. */
export const dataFrame = (id: number, channel: number, offset: number, data: Uint8Array): Uint8Array => {
  const bytes = new Uint8Array(FRAME_HEADER + 8 + data.length)
  setHeader(bytes, kinds.DATA, id, 0, channel)
  setU64(new DataView(bytes.buffer), FRAME_HEADER, offset)
  bytes.set(data, FRAME_HEADER + 8)
  return bytes
}

/** The end of a channel at `offset`. */
export const dataEndFrame = (id: number, channel: number, offset: number): Uint8Array => {
  const bytes = new Uint8Array(FRAME_HEADER + 8)
  setHeader(bytes, kinds.DATA_END, id, 0, channel)
  setU64(new DataView(bytes.buffer), FRAME_HEADER, offset)
  return bytes
}

/** What is safely kept (`acknowledged`) and how far the other side may send (`limit`), both absolute. */
export const creditFrame = (id: number, channel: number, acknowledged: number, limit: number): Uint8Array => {
  const bytes = new Uint8Array(FRAME_HEADER + 16)
  setHeader(bytes, kinds.CREDIT, id, 0, channel)
  const view = new DataView(bytes.buffer)
  setU64(view, FRAME_HEADER, acknowledged)
  setU64(view, FRAME_HEADER + 8, limit)
  return bytes
}

/** The `index`th u64 at the head of a DATA, CREDIT or DATA_END frame. Throws FrameError when there is none or it is beyond 2^53. */
export const frameOffset = (frame: Frame, index = 0): number => {
  if (frame.payload.length < 8 * (index + 1)) throw new FrameError(`kind ${frame.kind} without an offset`)
  return getU64(new DataView(frame.payload.buffer, frame.payload.byteOffset + 8 * index, 8), 0)
}

export const frameData = (frame: Frame): Uint8Array => frame.payload.subarray(8)

/** The fields of a frame by tag, in order. Throws FrameError when malformed. */
export class Fields {
  readonly #values = new Map<number, Uint8Array[]>()

  constructor(payload: Uint8Array) {
    const view = new DataView(payload.buffer, payload.byteOffset, payload.length)
    for (let at = 0; at < payload.length;) {
      if (payload.length - at < 8) throw new FrameError('a field without a head')
      const tag = view.getUint16(at, true)
      const length = view.getUint32(at + 4, true)
      if (length > payload.length - at - 8) throw new FrameError(`field ${tag} is longer than its frame`)
      const list = this.#values.get(tag)
      const value = payload.subarray(at + 8, at + 8 + length)
      if (list === undefined) this.#values.set(tag, [value])
      else list.push(value)
      at += 8 + length
    }
  }

  bytes(tag: number): Uint8Array | undefined {
    return this.#values.get(tag)?.[0]
  }

  text(tag: number): string | undefined {
    const value = this.bytes(tag)
    return value === undefined ? undefined : decoder.decode(value)
  }

  texts(tag: number): string[] {
    return (this.#values.get(tag) ?? []).map((value) => decoder.decode(value))
  }

  u32(tag: number): number | undefined {
    const value = this.bytes(tag)
    if (value === undefined) return undefined
    if (value.length !== 4) throw new FrameError(`field ${tag} is not a u32`)
    return new DataView(value.buffer, value.byteOffset, 4).getUint32(0, true)
  }

  u64(tag: number): number | undefined {
    return this.u64s(tag)[0]
  }

  u64s(tag: number): number[] {
    return (this.#values.get(tag) ?? []).map((value) => {
      if (value.length !== 8) throw new FrameError(`field ${tag} is not a u64`)
      return getU64(new DataView(value.buffer, value.byteOffset, 8), 0)
    })
  }
}

const TWO_32 = 4294967296

const setU64 = (view: DataView, at: number, value: number): void => {
  view.setUint32(at, value % TWO_32, true)
  view.setUint32(at + 4, Math.floor(value / TWO_32), true)
}

const getU64 = (view: DataView, at: number): number => {
  const high = view.getUint32(at + 4, true)
  if (high >= 0x200000) throw new FrameError('an offset beyond 2^53')
  return high * TWO_32 + view.getUint32(at, true)
}
