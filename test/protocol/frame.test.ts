import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import {
  creditFrame,
  dataEndFrame,
  dataFrame,
  Fields,
  FieldWriter,
  fieldFrame,
  FRAME_HEADER,
  type Frame,
  frameData,
  FrameError,
  frameOffset,
  FrameReader,
  kinds,
  tags,
} from '../../src/protocol/frame.ts'

// Only what is still held counts, not what waits to be collected.
setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void
const heldBytes = (): number => {
  collect()
  collect()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}

type Sent = { readonly kind: number; readonly flags: number; readonly channel: number; readonly id: number; readonly payload: Uint8Array }

const sent = (size = 300): fc.Arbitrary<Sent> =>
  fc.record(
    { kind: fc.nat(255), flags: fc.nat(255), channel: fc.nat(65535), id: fc.nat(2 ** 32 - 1), payload: fc.uint8Array({ maxLength: size }) },
    { noNullPrototype: true },
  )

const toBytes = ({ kind, flags, channel, id, payload }: Sent): Uint8Array => {
  const bytes = new Uint8Array(FRAME_HEADER + payload.length)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, payload.length, true)
  view.setUint8(4, kind)
  view.setUint8(5, flags)
  view.setUint16(6, channel, true)
  view.setUint32(8, id, true)
  bytes.set(payload, FRAME_HEADER)
  return bytes
}

/** Cuts `bytes` at places made of `cuts`. */
const cut = (bytes: Uint8Array, cuts: readonly number[]): Uint8Array[] => {
  const places = [...new Set([0, ...cuts.map((at) => at % (bytes.length + 1)), bytes.length])].sort((a, b) => a - b)
  return places.slice(1).map((end, at) => bytes.slice(places[at], end))
}

const readAll = (reader: FrameReader, chunks: readonly Uint8Array[]): Frame[] => {
  const frames: Frame[] = []
  for (const chunk of chunks) reader.push(chunk, (frame) => frames.push({ ...frame, payload: new Uint8Array(frame.payload) }))
  return frames
}

describe('a reader of frames', () => {
  it('gives the same frames however the bytes are cut', () => {
    fc.assert(
      fc.property(fc.array(sent(), { maxLength: 8 }), fc.array(fc.nat(), { maxLength: 30 }), (frames, cuts) => {
        const reader = new FrameReader(300)
        assert.deepEqual(readAll(reader, cut(Buffer.concat(frames.map(toBytes)), cuts)), frames)
        assert.equal(reader.unfinished, false)
      }),
      { numRuns: 500 },
    )
  })

  it('gives the same frames one byte at a time', () => {
    fc.assert(
      fc.property(fc.array(sent(40), { maxLength: 4 }), (frames) => {
        const bytes = Buffer.concat(frames.map(toBytes))
        assert.deepEqual(
          readAll(
            new FrameReader(40),
            [...bytes].map((byte) => Uint8Array.of(byte)),
          ),
          frames,
        )
      }),
    )
  })

  it('says that a stream was cut short, and gives nothing of the frame that was', () => {
    fc.assert(
      fc.property(sent(), fc.nat(), (frame, at) => {
        const bytes = toBytes(frame)
        const short = bytes.subarray(0, 1 + (at % (bytes.length - 1)))
        const reader = new FrameReader(300)
        assert.deepEqual(readAll(reader, [short]), [])
        assert.equal(reader.unfinished, true)
      }),
    )
  })

  it('refuses a length above its limit as soon as it sees it, whichever way it arrives', () => {
    fc.assert(
      fc.property(fc.integer({ min: 101, max: 2 ** 32 - 1 }), fc.array(fc.nat(), { maxLength: 12 }), fc.boolean(), (length, cuts, behind) => {
        const head = new Uint8Array(FRAME_HEADER)
        new DataView(head.buffer).setUint32(0, length, true)
        const before = behind ? toBytes({ kind: 1, flags: 0, channel: 0, id: 1, payload: new Uint8Array(5) }) : new Uint8Array(0)
        assert.throws(() => readAll(new FrameReader(100), cut(Buffer.concat([before, head]), cuts)), FrameError)
      }),
    )
  })

  it('never keeps more than one unfinished frame of a stream that goes on for ever', () => {
    const limit = 64 * 1024
    const frame = toBytes({ kind: 37, flags: 0, channel: 1, id: 1, payload: new Uint8Array(limit) })
    const stream = Buffer.concat([frame, frame, frame])
    const reader = new FrameReader(limit)
    const before = heldBytes()
    let frames = 0
    let most = 0
    for (let round = 0; round < 1000; round++) {
      for (let at = 0; at < stream.length; at += 10_000) reader.push(new Uint8Array(stream.subarray(at, at + 10_000)), () => frames++)
      if (round % 50 === 0) most = Math.max(most, heldBytes() - before)
    }
    assert.equal(frames, 3000)
    assert.ok(most < 32 * 1024 * 1024, `${most} bytes kept of a stream of ${stream.length * 1000}`)
  })

  it('keeps no more than a few times what a frame has so far when it comes byte by byte', () => {
    const frame = toBytes({ kind: 37, flags: 0, channel: 1, id: 1, payload: new Uint8Array(1024 * 1024 - 1) })
    const reader = new FrameReader(1024 * 1024)
    const before = heldBytes()
    let frames = 0
    let most = 0
    frame.forEach((byte, at) => {
      reader.push(Uint8Array.of(byte), () => frames++)
      if (at % 200_000 === 199_999) most = Math.max(most, heldBytes() - before)
    })
    assert.equal(frames, 1)
    assert.ok(most < 32 * 1024 * 1024, `${most} bytes for a frame of ${frame.length}`)
  })

  it('takes any garbage without anything but a FrameError', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 200 }), { maxLength: 10 }), (chunks) => {
        const reader = new FrameReader(150)
        try {
          readAll(reader, chunks)
        } catch (error) {
          assert.ok(error instanceof FrameError, String(error))
        }
      }),
      { numRuns: 500 },
    )
  })
})

const readOne = (bytes: Uint8Array): Frame => {
  const frames = readAll(new FrameReader(2 ** 20), [bytes])
  assert.equal(frames.length, 1)
  return frames[0]!
}

describe('fields', () => {
  it('come back as they were written, repeated ones in their order', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: 'grapheme' })),
        fc.nat(2 ** 32 - 1),
        fc.nat(Number.MAX_SAFE_INTEGER),
        fc.uint8Array({ maxLength: 3000 }),
        (texts, small, large, bytes) => {
          const frame = readOne(
            fieldFrame(kinds.EXEC, 7, (fields) => {
              fields.texts(tags.ARGV, texts).u32(tags.UID, small).u64(tags.DEADLINE_MS, large).bytes(tags.FILTER, bytes)
            }),
          )
          assert.deepEqual([frame.kind, frame.id, frame.channel], [kinds.EXEC, 7, 0])
          const fields = new Fields(frame.payload)
          assert.deepEqual(fields.texts(tags.ARGV), texts)
          assert.equal(fields.u32(tags.UID), small)
          assert.equal(fields.u64(tags.DEADLINE_MS), large)
          assert.deepEqual(fields.bytes(tags.FILTER), bytes)
          assert.equal(fields.text(tags.CWD), undefined)
        },
      ),
    )
  })

  it('nest', () => {
    const writer = new FieldWriter().fields(tags.MOUNT, (inner) => inner.text(tags.TARGET, '/a').fields(tags.LAYER, (layer) => layer.text(tags.SOURCE, '/b')))
    const inner = new Fields(new Fields(writer.written).bytes(tags.MOUNT)!)
    assert.equal(inner.text(tags.TARGET), '/a')
    assert.equal(new Fields(inner.bytes(tags.LAYER)!).text(tags.SOURCE), '/b')
  })

  it('are refused when they are cut, too long or of the wrong width', () => {
    const whole = new FieldWriter().text(tags.CWD, '/some/where').written
    for (let length = 1; length < whole.length; length++) assert.throws(() => new Fields(whole.subarray(0, length)), FrameError, `cut at ${length}`)
    const fields = new Fields(new FieldWriter().bytes(tags.UID, new Uint8Array(3)).bytes(tags.COUNT, new Uint8Array(8).fill(255)).written)
    assert.throws(() => fields.u32(tags.UID), FrameError)
    assert.throws(() => fields.u64(tags.UID), FrameError)
    assert.throws(() => fields.u64(tags.COUNT), FrameError, 'beyond 2^53')
  })

  it('of any garbage are read or refused, nothing else', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        try {
          new Fields(bytes).texts(tags.ARGV)
        } catch (error) {
          assert.ok(error instanceof FrameError, String(error))
        }
      }),
      { numRuns: 500 },
    )
  })
})

describe('frames of a stream', () => {
  it('carry bytes with the offset of the first of them, up to 2^53', () => {
    fc.assert(
      fc.property(fc.nat(65535), fc.nat(Number.MAX_SAFE_INTEGER), fc.uint8Array({ maxLength: 500 }), (channel, offset, bytes) => {
        const frame = readOne(dataFrame(3, channel, offset, bytes))
        assert.deepEqual([frame.kind, frame.id, frame.channel, frameOffset(frame)], [kinds.DATA, 3, channel, offset])
        assert.deepEqual(frameData(frame), bytes)
      }),
    )
  })

  it('say where a channel ends, and what may be sent', () => {
    const end = readOne(dataEndFrame(3, 2, 5_000_000_000))
    assert.deepEqual([end.kind, end.channel, frameOffset(end)], [kinds.DATA_END, 2, 5_000_000_000])
    const credit = readOne(creditFrame(3, 1, 10, 2 ** 40))
    assert.deepEqual([credit.kind, frameOffset(credit), frameOffset(credit, 1)], [kinds.CREDIT, 10, 2 ** 40])
  })

  it('are refused without an offset or with one that no number can hold', () => {
    const empty = readOne(fieldFrame(kinds.DATA, 1))
    assert.throws(() => frameOffset(empty), FrameError)
    const far = dataEndFrame(1, 0, 0)
    far.fill(255, FRAME_HEADER)
    assert.throws(() => frameOffset(readOne(far)), FrameError)
  })
})
