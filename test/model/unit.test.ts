import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { formatBytes, formatDuration, parseBytes, parseDuration } from '../../src/model/unit.ts'

describe('a duration', () => {
  it('is read as people write it', () => {
    const given = { '250ms': 250, '30s': 30_000, '1.5s': 1500, '5m': 300_000, '1h30m': 5_400_000, '2d': 172_800_000, '0s': 0, '1m1ms': 60_001 }
    for (const [text, ms] of Object.entries(given)) assert.equal(parseDuration(text), ms, text)
  })

  it('comes back the same when it was printed', () => {
    fc.assert(fc.property(fc.maxSafeNat(), (ms) => assert.equal(parseDuration(formatDuration(ms)), ms)))
    assert.equal(formatDuration(90_000), '1m30s')
    assert.equal(formatDuration(0), '0ms')
  })

  it('without a unit is refused, and the hint says how to write it', () => {
    assert.throws(() => parseDuration('30'), { code: 'argument.invalid', message: '"30" is no duration', hint: 'write 30s for seconds, 30ms for milliseconds' })
  })

  it('that is none is refused', () => {
    for (const text of ['', 's', '-1s', '1 s', '1s ', '1x', '1s,2m', '1e3s', '0x10s', '٣s']) {
      assert.throws(() => parseDuration(text), { code: 'argument.invalid' }, JSON.stringify(text))
    }
  })

  it('beyond 2^53 milliseconds is refused', () => {
    assert.throws(() => parseDuration(`${'9'.repeat(30)}d`), { code: 'argument.invalid', message: /too much/ })
  })
})

describe('a size', () => {
  it('is read as people write it', () => {
    const given = {
      '4096B': 4096,
      '64KiB': 65_536,
      '512MiB': 2 ** 29,
      '512M': 2 ** 29,
      '512m': 2 ** 29,
      '1.5GiB': 1.5 * 2 ** 30,
      '100MB': 1e8,
      '2TiB': 2 ** 41,
      '1kb': 1000,
    }
    for (const [text, bytes] of Object.entries(given)) assert.equal(parseBytes(text), bytes, text)
  })

  it('comes back the same when it was printed', () => {
    fc.assert(fc.property(fc.maxSafeNat(), (bytes) => assert.equal(parseBytes(formatBytes(bytes)), bytes)))
    assert.equal(formatBytes(8 * 2 ** 20), '8MiB')
    assert.equal(formatBytes(1000), '1000B')
    assert.equal(formatBytes(0), '0B')
  })

  it('without a unit is refused, and the hint says how to write it', () => {
    assert.throws(() => parseBytes('512'), { code: 'argument.invalid', hint: 'write 512MiB for mebibytes, 512B for bytes' })
  })

  it('that is none is refused', () => {
    for (const text of ['', 'MiB', '-1MiB', '1 MiB', '1PiB', '1MiBs', 'x1MiB', '1ib', '99999999999TiB']) {
      assert.throws(() => parseBytes(text), { code: 'argument.invalid' }, JSON.stringify(text))
    }
  })
})
