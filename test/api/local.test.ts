import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { describe, it } from 'node:test'
import { promisify } from 'node:util'
import { toLocalTransport } from '../../src/api/local.ts'
import { createClient } from '../../src/client/client.ts'
import type { Call } from '../../src/model/call.ts'
import type { OutputEvent } from '../../src/model/exec.ts'
import { SandlotError } from '../../src/model/error.ts'
import { operations } from '../../src/protocol/operation/index.ts'
import { handlersWith } from '../fixture/handlers.ts'

const root = resolve(import.meta.dirname, '../..')
const usage = { userUs: 0, systemUs: 0, peakBytes: 0 }

describe('a call in process', () => {
  it('reaches its handler with the defaults of the table, and with what was given over them', async () => {
    const seen: unknown[] = []
    const client = createClient(
      toLocalTransport(
        handlersWith({
          'exec.wait': async (input) => {
            seen.push(input)
            return { kind: 'exited', code: 3, usage }
          },
        }),
      ),
    )
    assert.deepEqual(await client.exec.wait({ sandbox: 's', exec: 'e' }), { kind: 'exited', code: 3, usage })
    await client.exec.wait({ sandbox: 's', exec: 'e', until: 'ended' })
    assert.deepEqual(seen, [
      { sandbox: 's', exec: 'e', until: 'exited' },
      { sandbox: 's', exec: 'e', until: 'ended' },
    ])
  })

  it('carries who asked, until when, and whether it is still wanted', async () => {
    const calls: Call[] = []
    const client = createClient(
      toLocalTransport(
        handlersWith({
          'sandbox.destroy': async (_, call) => {
            calls.push(call)
          },
        }),
      ),
    )
    const { signal } = new AbortController()
    const before = Date.now()
    await client.sandbox.destroy({ sandbox: 's' }, { signal, timeoutMs: 1000 })
    await client.sandbox.destroy({ sandbox: 's' })
    assert.equal(calls[0]?.signal, signal)
    assert.ok(calls[0].deadlineMs !== undefined && calls[0].deadlineMs >= before + 1000 && calls[0].deadlineMs <= Date.now() + 1000)
    assert.deepEqual([calls[1]?.signal, calls[1]?.deadlineMs], [undefined, undefined])
    assert.notEqual(calls[0].id, calls[1]?.id)
  })

  it('passes an error on as it is', async () => {
    const error = new SandlotError('sandbox.not_found', 'no such sandbox')
    const client = createClient(
      toLocalTransport(
        handlersWith({
          'sandbox.get': async () => {
            throw error
          },
        }),
      ),
    )
    await assert.rejects(client.sandbox.get({ sandbox: 's' }), (thrown) => thrown === error)
  })

  it('takes events one at a time as they are asked for, and ends them when the reader leaves', async () => {
    let made = 0
    let ended = false
    const client = createClient(
      toLocalTransport(
        handlersWith({
          'exec.output': async function* ({ from, follow }) {
            assert.deepEqual([from, follow], [0, true])
            try {
              for (;;) yield { kind: 'data', channel: 'stdout', offset: made++, bytes: new Uint8Array(1) } satisfies OutputEvent
            } finally {
              ended = true
            }
          },
        }),
      ),
    )
    const events = client.exec.output({ sandbox: 's', exec: 'e' })
    assert.equal(made, 0)
    for await (const event of events) if (event.offset === 2) break
    assert.deepEqual([made, ended], [3, true])
  })

  it('gives bytes to their handler as it takes them', async () => {
    let offered = 0
    async function* bytes(): AsyncGenerator<Uint8Array> {
      for (; offered < 100; offered++) yield Uint8Array.of(offered)
    }
    const client = createClient(
      toLocalTransport(
        handlersWith({
          'exec.input': async ({ close }, input) => {
            assert.equal(close, true)
            for await (const chunk of input) if (chunk[0] === 4) break
            return { offset: 5 }
          },
        }),
      ),
    )
    assert.deepEqual(await client.exec.input({ sandbox: 's', exec: 'e' }, bytes()), { offset: 5 })
    assert.ok(offered < 6, `${offered} of 100 were taken`)
  })
})

it('the client has one method an operation and no other', () => {
  const client = createClient(toLocalTransport(handlersWith({})))
  const methods = Object.entries(client).flatMap(([noun, verbs]) => Object.keys(verbs).map((verb) => `${noun}.${verb}`))
  assert.deepEqual(methods.sort(), Object.keys(operations).sort())
})

it('an engine without a handler for an operation fails the type check, which names it', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sandlot-types-'))
  try {
    const file = (name: string, body: string): Promise<void> => writeFile(join(folder, name), body)
    const source = JSON.stringify(relative(folder, join(root, 'src/protocol/handlers.ts')))
    await file('package.json', '{"type":"module"}')
    await file('complete.ts', `import type { Handlers } from ${source}\ndeclare const all: Handlers\nexport const handlers: Handlers = { ...all }\n`)
    await file(
      'missing.ts',
      `import type { Handlers } from ${source}\ndeclare const some: Omit<Handlers, 'exec.wait'>\nexport const handlers: Handlers = { ...some }\n`,
    )
    await file(
      'wrong.ts',
      `import type { Handlers } from ${source}\nexport const handler: Handlers['exec.wait'] = async () => ({ kind: 'exited', code: '1' })\n`,
    )
    await file(
      'tsconfig.json',
      JSON.stringify({ extends: `${root}/tsconfig.json`, compilerOptions: { typeRoots: [`${root}/node_modules/@types`] }, include: ['*.ts'] }),
    )
    const { stdout } = await promisify(execFile)(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', folder]).catch(
      (error: { stdout: string }) => error,
    )
    const errors = stdout.split('\n').filter((line) => line.includes('error TS'))
    assert.equal(errors.length, 2, stdout)
    assert.match(stdout, /missing\.ts\(3,14\): error TS2741: Property '"exec\.wait"' is missing/)
    assert.match(stdout, /wrong\.ts\(2,\d+\): error TS2322/)
  } finally {
    await rm(folder, { recursive: true })
  }
})
