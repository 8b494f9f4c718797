import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { codes } from '../../src/model/error.ts'
import { fieldsOf, shapeOf, withDefaults, type Shape } from '../../src/protocol/fields.ts'
import { operations, type Name } from '../../src/protocol/operation/index.ts'
import type { Operation } from '../../src/protocol/operation/operation.ts'
import type { Build } from '../../src/protocol/schema.ts'
import { decodeAnswer, decodeInput, encode, jsonSchemaOf } from '../../src/protocol/validate.ts'

const create = operations['sandbox.create'].input
const start = operations['exec.start'].input
const signal = operations['exec.signal'].input
const output = operations['exec.output'].events

const rows: readonly Operation[] = Object.values(operations)
const written = rows.flatMap(({ input, output: answer, events }) => [
  input,
  ...(answer === undefined ? [] : [answer]),
  ...(events === undefined ? [] : [events]),
])

describe('input from outside', () => {
  it('is filled with the defaults of the table', () => {
    assert.deepEqual(decodeInput(create, {}), { root: { kind: 'host' }, grants: [], env: {}, user: 'user', tools: true, hostname: 'sandlot', labels: {} })
  })

  it('gets the same defaults in process as over a wire', () => {
    const least: { readonly [N in Name]?: object } = { 'exec.start': { sandbox: 's', argv: ['a'] }, 'exec.signal': { sandbox: 's', exec: 'e', signal: 9 } }
    for (const operation of rows) {
      const name = operation.name as Name
      const names = fieldsOf(name).map((field) => field.name)
      const input = least[name] ?? Object.fromEntries(['sandbox', 'exec'].filter((each) => names.includes(each)).map((each) => [each, 'x']))
      assert.deepEqual(withDefaults(name, input), decodeInput(operation.input, input), name)
    }
  })

  it('is refused with the place, what was found and what it may be', () => {
    const cases: readonly (readonly [Operation['input'], unknown, string])[] = [
      [create, { grants: [{ source: '/a', access: 'rw' }] }, 'grants[0].access is "rw"; it must be one of read, write, overlay'],
      [create, { grants: [{ source: '/a' }] }, 'grants[0].access is missing; it must be one of read, write, overlay'],
      [create, { root: { kind: 'tar' } }, 'root.kind is "tar"; it must be one of host, dir'],
      [create, { root: { kind: 'dir' } }, 'root.path is missing; it must be a string'],
      [create, { root: 'host' }, 'root is "host"; it must be an object whose kind is one of host, dir'],
      [create, { env: { 'A B': 1 } }, 'env["A B"] is 1; it must be a string'],
      [create, { ttlMs: 0.5 }, 'ttlMs is 0.5; it must be a whole number of milliseconds, at least 1'],
      [create, { tools: 'no' }, 'tools is "no"; it must be true or false'],
      [create, { user: '' }, 'user is ""; it must be a string that is not empty'],
      [create, null, /^the input is null; it must be an object with driver\?, root\?/ as unknown as string],
      [start, { sandbox: 's' }, 'argv is missing; it must be a list that is not empty'],
      [start, { sandbox: 's', argv: [] }, 'argv is an empty list; it must be a list that is not empty'],
      [start, { sandbox: 's', argv: ['a', 1] }, 'argv[1] is 1; it must be a string'],
      [start, { sandbox: 's', argv: ['a'], logBytes: 1 }, 'logBytes is 1; it must be a whole number of bytes from 4096 to 1073741824'],
      [signal, { sandbox: 's', exec: 'e', signal: 65 }, 'signal is 65; it must be a whole number from 1 to 64'],
    ]
    for (const [schema, value, message] of cases) assert.throws(() => decodeInput(schema, value), { code: 'argument.invalid', message }, JSON.stringify(value))
  })

  it('with a field that is not there is refused, naming the one that was meant', () => {
    assert.throws(() => decodeInput(create, { grant: [] }), {
      code: 'argument.unknown',
      message: 'the input has no field "grant"',
      hint: 'did you mean grants?',
    })
    assert.throws(() => decodeInput(create, { grants: [{ source: '/a', access: 'read', tarjet: '/b' }] }), {
      message: 'grants[0] has no field "tarjet"',
      hint: 'did you mean target?',
    })
    assert.throws(() => decodeInput(operations['system.version'].input, { a: 1 }), { code: 'argument.unknown', hint: 'it may have none' })
  })

  it('of any shape is taken or refused with a code, nothing else, and nothing gets into a prototype', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...rows),
        fc.oneof(
          fc.jsonValue(),
          fc.record(
            { sandbox: fc.jsonValue(), exec: fc.jsonValue(), argv: fc.jsonValue(), grants: fc.jsonValue(), root: fc.jsonValue(), env: fc.jsonValue() },
            { requiredKeys: [] },
          ),
        ),
        (operation, json) => {
          try {
            decodeInput(operation.input, json)
          } catch (error) {
            assert.match(String((error as { code?: unknown }).code), /^argument\.(invalid|unknown)$/, String(error))
          }
        },
      ),
      { numRuns: 500 },
    )
    const hostile = JSON.parse('{"env":{"__proto__":"x","constructor":"y"}}') as unknown
    try {
      const { env } = decodeInput(create, hostile)
      assert.equal(Object.getPrototypeOf(env), Object.prototype)
    } catch (error) {
      assert.equal((error as { code?: unknown }).code, 'argument.invalid')
    }
    assert.equal(({} as { x?: unknown }).x, undefined)
  })
})

describe('bytes', () => {
  it('are base64 in JSON and the same bytes again on the other side', () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.maxSafeNat(), (bytes, offset) => {
        const event = { kind: 'data', channel: 'stderr', offset, bytes } as const
        const json = encode(output, event)
        assert.deepEqual(json, { ...event, bytes: Buffer.from(bytes).toString('base64') })
        assert.deepEqual(decodeAnswer(output, JSON.parse(JSON.stringify(json))), event)
      }),
    )
  })

  it('that are no base64 are refused', () => {
    assert.throws(() => decodeAnswer(output, { kind: 'data', channel: 'stdout', offset: 0, bytes: 'not base64!' }), {
      code: 'argument.invalid',
      message: /^bytes is "not base64!"; it must be bytes in base64$/,
    })
  })
})

describe('an answer', () => {
  it('of a later version, with fields that we do not know, is still understood', () => {
    const outcome = { kind: 'exited', code: 0, usage: { userUs: 1, systemUs: 2, peakBytes: 3, swapBytes: 4 }, later: true }
    assert.deepEqual(decodeAnswer(operations['exec.wait'].output, outcome), { kind: 'exited', code: 0, usage: { userUs: 1, systemUs: 2, peakBytes: 3 } })
  })

  it('leaves out in JSON what has no value', () => {
    const report = { driver: 'namespace', level: 'container', identity: 'range', enforced: [], missing: [] } as const
    const info = { id: 'a', state: 'ready', driver: 'namespace', root: 'host', labels: {}, createdAtMs: 1, expiresAtMs: undefined, report, notes: [] } as const
    const json = JSON.parse(JSON.stringify(encode(operations['sandbox.get'].output, info))) as object
    assert.ok(!('expiresAtMs' in json))
    assert.equal(decodeAnswer(operations['sandbox.get'].output, json).expiresAtMs, undefined)
  })
})

describe('the table', () => {
  it('names every operation by its key, noun before verb', () => {
    for (const [key, operation] of Object.entries(operations)) {
      assert.equal(operation.name, key)
      assert.match(key, /^[a-z]+\.[a-z]+$/)
    }
  })

  it('has a doc for every operation and every field, in whole words', () => {
    for (const { name, doc } of rows) assert.match(doc, /^[A-Z].*[.!]$/, name)
    const visit = (shape: Shape, path: string): void => {
      if (shape.type === 'object') for (const field of shape.fields) visit(field.shape, `${path}.${field.name}`)
      else if (shape.type === 'list' || shape.type === 'record') visit(shape.of, `${path}[]`)
      else if (shape.type === 'union') for (const member of shape.members) visit(member, path)
      if (shape.type !== 'literal' && !(shape.type === 'object' && !path.includes('[')))
        assert.notEqual(shape.doc.trim() === '' && shape.type !== 'object', true, `${path} has no doc`)
    }
    for (const { name, input } of rows) visit(shapeOf(input), name)
  })

  it('has defaults only for the uppermost fields of an input, where a call in process fills them in', () => {
    const visit = (shape: Shape, depth: number, path: string): void => {
      if (shape.type === 'object') {
        for (const field of shape.fields) {
          if (depth > 0) assert.equal(field.default, undefined, `${path}.${field.name}`)
          visit(field.shape, depth + 1, `${path}.${field.name}`)
        }
      } else if (shape.type === 'list' || shape.type === 'record') visit(shape.of, depth + 1, path)
      else if (shape.type === 'union') for (const member of shape.members) visit(member, depth + 1, path)
    }
    for (const { name, input } of rows) visit(shapeOf(input), 0, name)
  })

  it('gives one name to one shape only', () => {
    const named = new Map<string, Shape>()
    const visit = (shape: Shape): void => {
      if ((shape.type === 'object' || shape.type === 'union') && shape.name !== undefined) {
        const known = named.get(shape.name)
        if (known === undefined) named.set(shape.name, shape)
        else assert.deepEqual(shape, known, shape.name)
      }
      if (shape.type === 'object') for (const field of shape.fields) visit(field.shape)
      else if (shape.type === 'list' || shape.type === 'record') visit(shape.of)
      else if (shape.type === 'union') for (const member of shape.members) visit(member)
    }
    for (const each of written) visit(shapeOf(each))
    assert.ok(named.has('Outcome') && named.has('Grant'))
  })

  it('lists only codes of the code table, each once', () => {
    for (const { name, errors } of rows) {
      for (const code of errors) assert.ok(Object.hasOwn(codes, code), `${name}: ${code}`)
      assert.equal(new Set(errors).size, errors.length, name)
    }
  })

  it('loads no library', () => {
    const script = `import './src/protocol/operation/index.ts'; import { fieldsOf } from './src/protocol/fields.ts'; fieldsOf('sandbox.create')
      console.log(process.moduleLoadList.length, Object.keys(require.cache ?? {}).length)`
    const seen = execFileSync(
      process.execPath,
      ['--import', new URL('../fixture/list-modules.js', import.meta.url).href, '--input-type=module', '-e', script.replace(/console.log.*/, '')],
      {
        cwd: new URL('../..', import.meta.url),
        encoding: 'utf8',
      },
    )
    assert.match(seen, /src\/protocol\/operation\/index\.ts/)
    assert.doesNotMatch(seen, /node_modules|node:/)
  })
})

it('every kind of schema is recorded, validated and described alike', () => {
  const all = (s: Build) =>
    s.object({
      text: s.string('text'),
      count: s.integer('count', { min: 1, max: 9 }),
      part: s.number('part', { min: 0 }),
      flag: s.boolean('flag'),
      raw: s.bytes('raw'),
      pick: s.choice('pick', ['a', 'b']),
      many: s.list(s.string('one'), 'many', { minLength: 1 }),
      named: s.record(s.integer('value'), 'named'),
      shape: s.union('kind', [s.object({ kind: s.literal('x'), a: s.integer('a') }), s.object({ kind: s.literal('y') })], { doc: 'shape' }),
      perhaps: s.optional(s.string('perhaps')),
      unset: s.maybe(s.string('unset')),
      filled: s.default(s.integer('filled', { unit: 'ms' }), 5),
    })
  const value = {
    text: 't',
    count: 3,
    part: 0.5,
    flag: true,
    raw: Uint8Array.of(1, 2),
    pick: 'a',
    many: ['m'],
    named: { n: 1 },
    shape: { kind: 'x', a: 1 },
    unset: undefined,
    filled: 7,
  } as const
  const json = JSON.parse(JSON.stringify(encode(all, value))) as object
  const { unset: _, ...present } = value
  assert.deepEqual(decodeInput(all, json), present)
  const { filled: __, ...unfilled } = json as { filled: number }
  assert.equal(decodeInput(all, unfilled).filled, 5)

  const shape = shapeOf(all)
  assert.ok(shape.type === 'object')
  assert.deepEqual(
    shape.fields.map(({ name, optional, default: filled, shape: { type } }) => [name, type, optional, filled]),
    [
      ['text', 'string', false, undefined],
      ['count', 'integer', false, undefined],
      ['part', 'number', false, undefined],
      ['flag', 'boolean', false, undefined],
      ['raw', 'bytes', false, undefined],
      ['pick', 'choice', false, undefined],
      ['many', 'list', false, undefined],
      ['named', 'record', false, undefined],
      ['shape', 'union', false, undefined],
      ['perhaps', 'string', true, undefined],
      ['unset', 'string', true, undefined],
      ['filled', 'integer', true, 5],
    ],
  )
  const schema = jsonSchemaOf(all, 'input', new Map()) as {
    required: string[]
    properties: { [name: string]: { type?: string; description?: string; contentEncoding?: string } }
  }
  assert.deepEqual(schema.required, ['text', 'count', 'part', 'flag', 'raw', 'pick', 'many', 'named', 'shape'])
  for (const field of shape.fields) assert.match(schema.properties[field.name]?.description ?? '', new RegExp(field.doc), field.name)
  assert.equal(schema.properties['raw']?.contentEncoding, 'base64')
})
