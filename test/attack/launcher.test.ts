// A guest may have the caller's own uid, and a socket can be connected to through a read-only mount: so whoever reaches a launcher's socket must still not
// get a sandbox of his own making from it. The test connects as the caller, who has every right that such a guest could have.

import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createEngine } from '../../src/index.ts'
import { filterFor } from '../../src/policy/seccomp.ts'
import { type FieldWriter, fieldFrame, kinds, tags } from '../../src/protocol/frame.ts'

const state = mkdtempSync(join(tmpdir(), 'sandlot-attack-'))
const engine = createEngine({ stateDirectory: state })
after(async () => {
  await engine.close()
  rmSync(state, { recursive: true, force: true })
})

/** What the launcher says to a CREATE, until it closes. */
const create = async (secret: ((fields: FieldWriter) => void) | undefined): Promise<string> => {
  const [id] = readdirSync(join(state, 'launcher'))
  const stream = connect(join(state, 'launcher', id!, 'socket'))
  stream.write(
    fieldFrame(kinds.CREATE, 0, (fields) => {
      fields.u32(tags.GENERATION, 1).text(tags.BOX, 'stranger').text(tags.HOSTNAME, 'stranger')
      secret?.(fields)
      fields.fields(tags.MOUNT, (step) => step.u32(tags.ENTRY, 1).fields(tags.LAYER, (layer) => layer.text(tags.SOURCE, '').u32(tags.IDS, 0)))
      fields.bytes(tags.FILTER, filterFor(process.arch === 'arm64' ? 'arm64' : 'x64'))
    }),
  )
  stream.write(fieldFrame(kinds.HELLO, 0, (fields) => fields.u32(tags.GENERATION, 1).u32(tags.EPOCH, 1).u32(tags.ON_EOF, 0)))
  const parts: Buffer[] = []
  stream.on('data', (bytes) => parts.push(bytes as Buffer))
  // Closed with our HELLO unread: a reset is an end as well.
  await new Promise<void>((resolve) => stream.once('close', () => resolve()).once('error', () => {}))
  return Buffer.concat(parts).toString('latin1')
}

test('a launcher makes no sandbox for whoever does not know its secret', { timeout: 20_000 }, async () => {
  const first = await engine.create({})
  assert.equal(await create(undefined), '')
  assert.equal(await create((fields) => fields.text(tags.SECRET, '')), '')
  assert.equal(await create((fields) => fields.text(tags.SECRET, 'x'.repeat(26))), '')
  assert.deepEqual(
    readdirSync(join(state, 'box')).filter((name) => name.includes('stranger')),
    [],
  )
  const second = await engine.create({})
  for (const box of [first, second]) assert.equal((await box.run(['true'])).outcome.kind, 'exited')
})
