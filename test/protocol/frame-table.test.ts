// The table of frames stands twice, for C and for TypeScript. These tests hold the two together.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { it } from 'node:test'
import * as frame from '../../src/protocol/frame.ts'
import { GENERATION } from '../../src/protocol/generation.ts'

const header = readFileSync(new URL('../../native/frame.h', import.meta.url), 'utf8')
const code = header.replace(/\/\/.*$/gm, '')

/** The members of `enum name { PREFIX_A = 1, ... }`, without the prefix. */
const members = (name: string, prefix: string): { [member: string]: number } => {
  const [, body] = new RegExp(`enum ${name} \\{([^}]*)\\}`).exec(code) ?? []
  assert.ok(body !== undefined, `native/frame.h has no enum ${name}`)
  return Object.fromEntries(
    body
      .split(',')
      .map((line) => line.trim())
      .filter((line) => line !== '')
      .map((line) => {
        const [, member, value] = new RegExp(`^${prefix}(\\w+) = (\\d+)$`).exec(line) ?? []
        assert.ok(member !== undefined, `cannot read ${JSON.stringify(line)} in enum ${name}`)
        return [member, Number(value)]
      }),
  )
}

/** The value of `#define NAME value`, a number or a shift of one. */
const constant = (name: string): number => {
  const [, value, shift] = new RegExp(`^#define ${name} \\(?(\\d+)u?(?: << (\\d+)\\))?\\s*$`, 'm').exec(code) ?? []
  assert.ok(value !== undefined, `native/frame.h has no ${name}`)
  return Number(value) * 2 ** Number(shift ?? 0)
}

it('C and TypeScript know the same kinds of frames', () => {
  assert.deepEqual(members('kind', 'KIND_'), { ...frame.kinds })
})

it('C and TypeScript know the same tags of fields', () => {
  assert.deepEqual(members('tag', 'TAG_'), { ...frame.tags })
})

it('no number stands for two kinds or two tags', () => {
  for (const table of [frame.kinds, frame.tags]) assert.equal(new Set(Object.values(table)).size, Object.keys(table).length)
})

it('C and TypeScript agree on limits, channels, flags and the generation', () => {
  for (const name of ['FRAME_HEADER', 'FRAME_LIMIT_IN', 'FRAME_LIMIT_OUT', 'WINDOW'] as const) assert.equal(constant(name), frame[name], name)
  assert.equal(constant('GENERATION'), GENERATION)
  assert.deepEqual(members('field_flag', 'FIELD_'), { MUST: frame.FIELD_MUST })
  assert.deepEqual(members('channel', 'CHANNEL_'), { STDIN: frame.CHANNEL_STDIN, STDOUT: frame.CHANNEL_STDOUT, STDERR: frame.CHANNEL_STDERR })
})
