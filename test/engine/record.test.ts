import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { utc } from '../../src/engine/record.ts'

test('a time is written as the runtime itself would write it (property)', () => {
  for (const ms of [0, 951_782_399_999, 951_782_400_000, 1_709_164_800_000, 4_107_542_400_000]) assert.equal(utc(ms), new Date(ms).toISOString())
  fc.assert(fc.property(fc.integer({ min: 0, max: 253_402_300_799_999 }), (ms) => assert.equal(utc(ms), new Date(ms).toISOString())))
})
