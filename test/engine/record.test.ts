import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { openRecord, recordable, utc } from '../../src/engine/record.ts'

test('a time is written as the runtime itself would write it (property)', () => {
  for (const ms of [0, 951_782_399_999, 951_782_400_000, 1_709_164_800_000, 4_107_542_400_000]) assert.equal(utc(ms), new Date(ms).toISOString())
  fc.assert(fc.property(fc.integer({ min: 0, max: 253_402_300_799_999 }), (ms) => assert.equal(utc(ms), new Date(ms).toISOString())))
})

const entry = { operation: 'exec.start', atMs: 0, durationMs: 1, input: { argv: ['true'] }, result: 'ok' }

test('lines are chained: each names the hash of the one before, and its own can be computed again', () => {
  const directory = mkdtempSync(join(tmpdir(), 'sandlot-record-'))
  const record = openRecord(directory, 'engine')
  record.append(entry)
  record.append(entry)
  record.close()
  const [name = ''] = readdirSync(directory)
  let previous = ''
  for (const line of readFileSync(join(directory, name), 'utf8').trimEnd().split('\n')) {
    const parsed = JSON.parse(line) as { readonly previous: string; readonly hash: string }
    assert.equal(parsed.previous, previous)
    const body = line.replace(/,"hash":"[0-9a-f]+"\}$/, '}')
    assert.equal(parsed.hash, createHash('sha256').update(body).digest('hex'))
    previous = parsed.hash
  }
  rmSync(directory, { recursive: true })
})

test('a record does not grow without end: a large file is set aside, and only so many are kept', () => {
  const directory = mkdtempSync(join(tmpdir(), 'sandlot-record-'))
  for (let round = 0; round < 20; round++) {
    const record = openRecord(directory, `engine${round}`)
    record.append({ ...entry, atMs: Date.now() })
    record.close()
    const today = readdirSync(directory).find((name) => /^\d{4}-\d\d-\d\d\.jsonl$/.test(name)) ?? ''
    truncateSync(join(directory, today), 17 * 1024 * 1024)
  }
  assert.ok(readdirSync(directory).length <= 17, readdirSync(directory).join(' '))
  rmSync(directory, { recursive: true })
})

test('values of variables and the rest of what is very long are left out', () => {
  const text = JSON.stringify(recordable({ argv: Array.from({ length: 1000 }, () => 'x'.repeat(100_000)), env: { TOKEN: 'secret' } }))
  assert.ok(text.length < 200_000)
  assert.ok(text.includes('TOKEN') && !text.includes('secret'))
})
