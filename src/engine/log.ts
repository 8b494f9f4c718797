// The output of one exec: a log with one offset space over both channels, in order of arrival. Readers come and go, each at its own position.
// The log decides how far the init may send (its limit), and that is the whole of back-pressure: what may not be sent stays in the init's ring, then in the
// pipe, then the producer waits.

import { SandlotError } from '../model/error.ts'
import type { Channel, Overflow } from '../model/exec.ts'
import { WINDOW } from '../protocol/frame.ts'

export type Entry = { readonly channel: Channel; readonly offset: number; readonly bytes: Uint8Array }

export type Log = {
  /** Position behind the last byte. */
  readonly end: number
  /** First byte still kept. */
  readonly first: number
  /** How far the init may send, absolute; grows as readers move. */
  readonly limit: number
  append(channel: Channel, offset: number, bytes: Uint8Array): void
  /** No more bytes will come: readers that have read all end. */
  close(): void
  /** Attaches a reader at `from`. Throws `output.gone` when that is no longer kept. */
  read(from: number): Reader
  /** Holds bytes from here on until the first reader attaches or this is released. */
  reserve(): void
  /** Called when `limit` has grown. */
  onRoom(listener: () => void): void
}

export type Reader = {
  /** The next bytes, at most one entry; undefined after the last. What was returned before counts as read. Throws `output.gone` when overtaken. */
  next(): Promise<Entry | undefined>
  /** Like `next`, but undefined also when nothing is there yet. */
  poll(): Entry | undefined
  /** Resolves when there may be more: bytes, the end, or a `wake`. */
  more(): Promise<void>
  readonly position: number
  detach(): void
}

// Where a piece lies; its bytes are in the ring.
type Piece = { readonly channel: Channel; readonly offset: number; readonly length: number }

const SMALLEST_RING = 4096

/** `bytes`: the bound, at least WINDOW. */
export const createLog = (overflow: Overflow, bytes: number): Log => {
  const bound = Math.max(bytes, WINDOW)
  const entries: Piece[] = []
  let head = 0 // entries before it are dropped; the array is cut now and then, not at every drop
  let first = 0
  let end = 0
  let closed = false
  let reserved = false
  let onRoom = (): void => {}
  const readers = new Set<{ position: number; wake: () => void }>()

  const slowest = (): number => {
    if (reserved) return first
    let position = end
    for (const reader of readers) if (reader.position < position) position = reader.position
    return position
  }

  const limit = (): number => (overflow === 'hold' && (reserved || readers.size > 0) ? slowest() + bound : end + WINDOW)

  // The bytes first..end, by absolute offset. Not the buffers in which they came: those would live just long enough to become old, and what is old is only
  // swept when the whole heap is.
  let ring = new Uint8Array(0)

  const makeRoom = (size: number): void => {
    while (end + size - first > bound && head < entries.length) {
      const oldest = entries[head]!
      entries[head++] = undefined as never
      first = oldest.offset + oldest.length
    }
    if (head > 1024 && head * 2 > entries.length) {
      entries.splice(0, head)
      head = 0
    }
    const wanted = end + size - first
    if (wanted <= ring.length) return
    resize(Math.max(wanted, Math.min(2 * ring.length, bound), SMALLEST_RING))
  }

  const resize = (length: number): void => {
    const other = new Uint8Array(length)
    if (end > first) put(other, first, take(first, end - first))
    ring = other
  }

  const put = (into: Uint8Array, offset: number, bytes: Uint8Array): void => {
    const at = offset % into.length
    const fits = Math.min(bytes.length, into.length - at)
    into.set(bytes.subarray(0, fits), at)
    into.set(bytes.subarray(fits), 0)
  }

  const take = (offset: number, length: number): Uint8Array => {
    const at = offset % ring.length
    const bytes = new Uint8Array(length)
    const fits = Math.min(length, ring.length - at)
    bytes.set(ring.subarray(at, at + fits), 0)
    bytes.set(ring.subarray(0, length - fits), fits)
    return bytes
  }

  // The entry that holds `position`; positions ascend, so a binary search does.
  const find = (position: number): Piece | undefined => {
    let low = head
    let high = entries.length - 1
    while (low <= high) {
      const middle = (low + high) >> 1
      const entry = entries[middle]!
      if (position < entry.offset) high = middle - 1
      else if (position >= entry.offset + entry.length) low = middle + 1
      else return entry
    }
    return undefined
  }

  const attach = (from: number): Reader => {
    if (from < first) throw gone(first)
    reserved = false
    const state = { position: from, wake: () => {} }
    let reading = from // the position behind what was handed out: it counts as read when more is asked for
    readers.add(state)
    const poll = (): Entry | undefined => {
      if (state.position !== reading) {
        state.position = reading
        onRoom()
      }
      if (state.position < first) throw gone(first)
      const entry = find(state.position)
      if (entry === undefined) return undefined
      reading = entry.offset + entry.length
      return { channel: entry.channel, offset: state.position, bytes: take(state.position, reading - state.position) }
    }
    return {
      poll,
      more: () =>
        new Promise((resolve) => {
          state.wake = resolve
        }),
      next: async () => {
        for (;;) {
          const entry = poll()
          if (entry !== undefined) return entry
          if (closed) return undefined
          await new Promise<void>((resolve) => {
            state.wake = resolve
          })
        }
      },
      get position() {
        return reading
      },
      detach: () => {
        readers.delete(state)
        onRoom()
        state.wake()
      },
    }
  }

  return {
    get end() {
      return end
    },
    get first() {
      return first
    },
    get limit() {
      return limit()
    },
    append: (channel, offset, chunk) => {
      // A frame repeated after a reconnect: what is known is skipped.
      const fresh = offset < end ? chunk.subarray(end - offset) : chunk
      if (fresh.length === 0) return
      makeRoom(fresh.length)
      put(ring, end, fresh)
      entries.push({ channel, offset: end, length: fresh.length })
      end += fresh.length
      for (const reader of readers) reader.wake()
    },
    close: () => {
      closed = true
      // A finished command is remembered for a while, with no more memory than its output.
      if (end - first < ring.length) resize(end - first)
      for (const reader of readers) reader.wake()
    },
    read: attach,
    reserve: () => {
      reserved = true
    },
    onRoom: (listener) => {
      onRoom = listener
    },
  }
}

const gone = (first: number): SandlotError => new SandlotError('output.gone', `output before byte ${first} is no longer kept`, { detail: { first } })
