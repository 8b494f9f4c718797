// The CLI's own stdin, stdout and stderr: bytes exact, with back-pressure, and such that a reader or writer that stands still never holds up signals or exit.
//
// Node's process.stdout blocks the whole process while a pipe is full; a thread that is blocked in write(2) or read(2) holds up process.exit. So pipes are
// opened anew through /proc, which gives a file description of our own that can be made non-blocking without doing the same to whoever shares the pipe.

import type { Stats } from 'node:fs'
import type { Socket } from 'node:net'

// Not by import: that would read every export of node:fs, its promises included, which takes three milliseconds.
const { closeSync, constants, fstatSync, openSync, read, readFileSync, writeSync } = process.getBuiltinModule('node:fs')

export type Output = {
  /** Resolves when the bytes are with the system. Rejects with the system's error, EPIPE when nobody reads any more. */
  write(bytes: Uint8Array): Promise<void>
  /** True while a write waits for a reader. */
  readonly waiting: boolean
}

/** stdout (1) or stderr (2). Opened when first written to. */
export const openOutput = (fd: 1 | 2): Output => {
  let socket: Promise<Socket> | undefined
  let waiting = 0
  const stats = statOf(fd)
  const direct = stats === undefined || !(stats.isFIFO() || stats.isSocket())

  const write = async (bytes: Uint8Array): Promise<void> => {
    if (bytes.length === 0) return
    if (direct) return writeAll(fd, bytes)
    const to = await (socket ??= openSocket(fd, stats, constants.O_WRONLY))
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    to.write(bytes, (error) => (error === null || error === undefined ? resolve() : reject(error)))
    await promise
  }

  return {
    write: async (bytes) => {
      waiting++
      try {
        await write(bytes)
      } finally {
        waiting--
      }
    },
    get waiting() {
      return waiting > 0
    },
  }
}

/**
 * What can be read from stdin, taken only when asked for; undefined when there is nothing to read. It ends where it cannot be read, and `unreadable` hears why.
 * Call `stop` when nobody wants it any more.
 */
export const openInput = (unreadable: (error: Error) => void): { readonly bytes: AsyncIterable<Uint8Array>; stop(): void } | undefined => {
  const stats = statOf(0)
  if (stats === undefined || isNull(stats)) return undefined
  let socket: Socket | undefined
  async function* bytes(): AsyncGenerator<Uint8Array, void, void> {
    if (stats!.isFIFO() || stats!.isSocket()) {
      socket = await openSocket(0, stats!, constants.O_RDONLY)
      yield* socket as AsyncIterable<Uint8Array>
    } else if (stats!.isCharacterDevice() && (await isTerminal(0))) {
      const { ReadStream } = await import('node:tty')
      await foreground()
      socket = new ReadStream(0)
      yield* socket as AsyncIterable<Uint8Array>
    } else {
      yield* readAll(0)
    }
  }
  async function* readable(): AsyncGenerator<Uint8Array, void, void> {
    try {
      yield* bytes()
    } catch (error) {
      unreadable(error as Error)
    }
  }
  return {
    bytes: readable(),
    // Whoever writes into our stdin learns that nobody reads it, as it would from the command itself. Something has to stay at 0, or the next file would get that number.
    stop: () => {
      socket?.destroy()
      if (!stats.isFIFO() && !stats.isSocket()) return
      try {
        closeSync(0)
        openSync('/dev/null', constants.O_RDONLY)
      } catch {
        // It was closed with the socket.
      }
    },
  }
}

/** Is this descriptor a terminal? Asks cheaply first: the module that knows is not loaded for anything else. */
export const isTerminal = async (fd: number): Promise<boolean> => statOf(fd)?.isCharacterDevice() === true && (await import('node:tty')).isatty(fd)

/** True when two descriptors lead to the same place: what is written to both keeps its order only when it comes as one. */
export const isSameFile = (a: number, b: number): boolean => {
  const [first, second] = [statOf(a), statOf(b)]
  return first !== undefined && second !== undefined && first.dev === second.dev && first.ino === second.ino
}

const statOf = (fd: number): Stats | undefined => {
  try {
    return fstatSync(fd)
  } catch {
    return undefined
  }
}

const isNull = (stats: Stats): boolean => stats.isCharacterDevice() && stats.rdev === 0x103

const openSocket = async (fd: number, stats: Stats, access: number): Promise<Socket> => {
  const { Socket } = await import('node:net')
  let own = fd
  if (stats.isFIFO()) {
    try {
      own = openSync(`/proc/self/fd/${fd}`, access | constants.O_NONBLOCK)
    } catch {
      // A pipe of another user's, or no /proc: then the shared description is made non-blocking, and Node sets it back at the end.
    }
  }
  const socket = new Socket({ fd: own, readable: access === constants.O_RDONLY, writable: access === constants.O_WRONLY })
  socket.on('error', () => {})
  return socket
}

const writeAll = async (fd: number, bytes: Uint8Array): Promise<void> => {
  for (let at = 0; at < bytes.length;) {
    try {
      at += writeSync(fd, bytes, at)
    } catch (error) {
      // A terminal that somebody else made non-blocking.
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }
}

// Files and devices such as /dev/zero: they never keep a reader waiting.
async function* readAll(fd: number): AsyncGenerator<Uint8Array, void, void> {
  for (;;) {
    const buffer = new Uint8Array(65_536)
    const count = await new Promise<number>((resolve, reject) =>
      read(fd, buffer, 0, buffer.length, null, (error, got) => (error === null ? resolve(got) : reject(error))),
    )
    if (count === 0) return
    yield buffer.subarray(0, count)
  }
}

/** Resolves when this process may read its terminal: a background job that tries is stopped by the system. Nothing tells a job that it was brought to the front. */
const foreground = async (): Promise<void> => {
  while (!isForeground()) await new Promise((resolve) => setTimeout(resolve, 200))
}

const isForeground = (): boolean => {
  try {
    // pid (name) state ppid pgrp session tty tpgid
    const fields = readFileSync('/proc/self/stat', 'latin1')
      .replace(/^.*\) /s, '')
      .split(' ')
    return fields[2] === fields[5]
  } catch {
    return true
  }
}
