// A channel over any duplex stream of Node: a unix socket now, a process's stdio elsewhere.

import type { Socket } from 'node:net'
import type { Channel } from './contract.ts'

export const channelOf = (stream: Socket): Channel => {
  let ended = false
  let draining: Promise<void> | undefined
  let cause: Error | undefined
  let onEnd: ((cause: Error | undefined) => void) | undefined
  const end = (): void => {
    if (ended) return
    ended = true
    onEnd?.(cause)
  }
  stream.on('error', (error) => {
    cause = error
  })
  stream.on('close', end)
  stream.on('end', () => stream.destroy())
  return {
    write: (bytes) => stream.write(bytes),
    drained: () => {
      if (!stream.writableNeedDrain || stream.destroyed) return Promise.resolve()
      // One promise for everybody who waits: a listener each would pile up on a stream that drains often.
      draining ??= new Promise((resolve) => {
        const done = (): void => {
          draining = undefined
          stream.removeListener('drain', done)
          stream.removeListener('close', done)
          resolve()
        }
        stream.once('drain', done)
        stream.once('close', done)
      })
      return draining
    },
    onData: (listener) => {
      stream.on('data', listener)
    },
    onEnd: (listener) => {
      onEnd = listener
      if (ended) listener(cause)
    },
    pause: () => {
      stream.pause()
    },
    resume: () => {
      stream.resume()
    },
    keepAlive: (wanted) => {
      if (wanted) stream.ref()
      else stream.unref()
    },
    close: () => {
      stream.destroy()
    },
  }
}
