// A corrupted init: the other end of a real socket, saying what no init should.

import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { channelOf } from '../../src/driver/stream-channel.ts'
import { startExec } from '../../src/engine/exec.ts'
import { connectInit, type InitConnection } from '../../src/engine/init.ts'
import { dataEndFrame, dataFrame, fieldFrame, FRAME_LIMIT_OUT, kinds, tags } from '../../src/protocol/frame.ts'

const directory = mkdtempSync(join(tmpdir(), 'sandlot-init-'))
after(() => rmSync(directory, { recursive: true, force: true }))
let sockets = 0

const pair = async (): Promise<{ init: InitConnection; guest: Socket; close: () => void }> => {
  const path = join(directory, String(sockets++))
  const server = createServer()
  const accepted = new Promise<Socket>((resolve) => server.once('connection', resolve))
  await new Promise<void>((resolve) => server.listen(path, resolve))
  const stream = connect(path)
  await new Promise<void>((resolve) => stream.once('connect', resolve))
  const guest = await accepted
  guest.on('error', () => {})
  guest.resume()
  const init = connectInit(channelOf(stream))
  init.hold()
  return {
    init,
    guest,
    close: () => {
      init.close()
      guest.destroy()
      server.close()
    },
  }
}

const welcome = fieldFrame(kinds.WELCOME, 0, (fields) => fields.u32(tags.GENERATION, 1))
const header = (length: number, kind: number, id: number): Uint8Array => {
  const bytes = new Uint8Array(12)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, length, true)
  view.setUint8(4, kind)
  view.setUint32(8, id, true)
  return bytes
}
const spec = {
  id: '1',
  sandbox: 'box',
  argv: ['true'],
  env: [],
  cwd: '/',
  user: { name: 'user', uid: 1000, gid: 1000, groups: [1000] },
  stdin: 'none',
  merge: false,
  deadlineMs: 0,
  overflow: 'hold',
  logBytes: 1 << 20,
  reserveReader: true,
  nowMs: 0,
} as const

for (const [what, bytes] of [
  ['a frame that claims to be longer than any', header(FRAME_LIMIT_OUT + 1, kinds.WELCOME, 0)],
  ['something else than WELCOME first', fieldFrame(kinds.STARTED, 1)],
  ['a field longer than its frame', new Uint8Array([...header(8, kinds.WELCOME, 0), 1, 0, 0, 0, 255, 0, 0, 0])],
  ['text instead of frames', Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n')],
] as const) {
  test(`an init that says ${what} ends its sandbox with an error that says so`, async () => {
    const { init, guest, close } = await pair()
    guest.write(bytes)
    const error = await init.ended
    assert.equal(error?.code, 'sandbox.corrupted')
    await assert.rejects(init.welcome, { code: 'sandbox.corrupted' })
    close()
  })
}

for (const [what, bytes] of [
  ['output for a stream that was never opened', dataFrame(99, 1, 0, new Uint8Array(1))],
  ['output that leaves a gap', dataFrame(1, 1, 10, new Uint8Array(1))],
  ['output without an offset', header(0, kinds.DATA, 1)],
  ['output beyond its limit', Buffer.concat(Array.from({ length: 14 }, (_, i) => dataFrame(1, 1, i * 100_000, new Uint8Array(100_000))))],
  ['output after its end', Buffer.concat([dataEndFrame(1, 1, 0), dataFrame(1, 1, 0, new Uint8Array(1))])],
  ['an end before an exit', fieldFrame(kinds.ENDED, 1)],
  ['a kind that an exec does not have', fieldFrame(kinds.READY, 1)],
] as const) {
  test(`an init that says ${what} loses its command, not its engine`, async () => {
    const { init, guest, close } = await pair()
    guest.write(welcome)
    const exec = startExec(init, spec, () => {})
    guest.write(fieldFrame(kinds.STARTED, 1, (fields) => fields.u32(tags.PID, 2)))
    guest.write(bytes)
    const outcome = await exec.outcome
    assert.equal(outcome.kind, 'lost')
    assert.equal((await init.ended)?.code, 'sandbox.corrupted')
    close()
  })
}

test('a connection cut in the middle of a frame is lost, and says that it was cut', async () => {
  const { init, guest, close } = await pair()
  guest.end(Buffer.concat([welcome, header(100, kinds.STARTED, 1)]))
  const error = await init.ended
  assert.equal(error?.code, 'sandbox.lost')
  assert.match(error.message, /middle of a frame/)
  close()
})

test('frames without end do not grow the engine: an endless payload is refused at its header', async () => {
  const { init, guest, close } = await pair()
  guest.write(welcome)
  await init.welcome
  guest.write(header(0xffff_ffff, kinds.DATA, 1))
  assert.equal((await init.ended)?.code, 'sandbox.corrupted')
  close()
})

test('whatever bytes come, the engine lives and the sandbox ends or waits (property)', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.uint8Array({ maxLength: 64 }), { maxLength: 8 }), fc.boolean(), async (chunks, polite) => {
      const { init, guest, close } = await pair()
      if (polite) guest.write(welcome)
      for (const chunk of chunks) guest.write(chunk)
      guest.end()
      const error = await init.ended
      assert.ok(error?.code === 'sandbox.corrupted' || error?.code === 'sandbox.lost' || error?.code === 'internal', String(error))
      close()
    }),
    { numRuns: 200 },
  )
})
