import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { command as run } from '../../src/cli/command/run.ts'
import { fieldAt, type FlagTable, knownFlag, parseFlags } from '../../src/cli/flags.ts'
import { nearest } from '../../src/protocol/nearest.ts'

const table = {
  write: { field: 'sandbox.create.grants', kind: 'list', value: 'DIR' },
  tools: { field: 'sandbox.create.tools' },
  env: { field: 'sandbox.create.env', short: 'e' },
  cwd: { field: 'sandbox.create.cwd' },
  timeout: { field: 'exec.start.deadlineMs', value: 'TIME' },
  memory: { field: 'sandbox.create.memoryBytes' },
  overflow: { field: 'exec.start.overflow' },
  signal: { field: 'exec.signal.signal' },
  json: { kind: 'switch' },
  quiet: { kind: 'switch', short: 'q' },
} as const satisfies FlagTable

const parse = (...argv: string[]) => parseFlags(table, argv, { command: true, usage: 'x --help' })

describe('flags', () => {
  it('take their value behind a blank or an equals sign', async () => {
    for (const parsed of [await parse('--cwd', '/a', '--timeout', '30s'), await parse('--cwd=/a', '--timeout=30s')]) {
      assert.equal(parsed.text('cwd'), '/a')
      assert.equal(parsed.number('timeout'), 30_000)
    }
    assert.equal((await parse('--cwd=a=b')).text('cwd'), 'a=b')
  })

  it('are what the type of their field says', async () => {
    assert.equal((await parse('--memory', '512MiB')).number('memory'), 2 ** 29)
    assert.equal((await parse('--signal', '9')).number('signal'), 9)
    assert.equal((await parse('--overflow', 'drop')).text('overflow'), 'drop')
    assert.equal((await parse('--json')).has('json'), true)
  })

  it('may be repeated where the field is a list or a record, and only there', async () => {
    assert.deepEqual((await parse('--write', 'a', '--write=b', '-e', 'X=1', '-eY=2', '-e=Z')).list('write'), ['a', 'b'])
    assert.deepEqual((await parse('--write', 'a', '--write=b', '-e', 'X=1', '-eY=2', '--env', 'Z')).list('env'), ['X=1', 'Y=2', 'Z'])
    await assert.rejects(parse('--cwd', 'a', '--cwd', 'b'), { code: 'argument.invalid', message: '--cwd is given twice' })
  })

  it('that are switches can be negated, and the last one counts', async () => {
    assert.equal((await parse()).on('tools'), undefined)
    assert.equal((await parse('--no-tools')).on('tools'), false)
    assert.equal((await parse('--no-tools', '--tools')).on('tools'), true)
    await assert.rejects(parse('--no-tools=1'), { message: '--no-tools takes no value' })
    await assert.rejects(parse('--json=1'), { message: '--json takes no value' })
    await assert.rejects(parse('--no-cwd'), { code: 'argument.unknown' })
  })

  it('end where the command begins, and the flags of the command stay its own', async () => {
    assert.deepEqual((await parse('--json', 'ls', '--cwd', '-e')).rest, ['ls', '--cwd', '-e'])
    assert.deepEqual((await parse('--json', '--', '--cwd', '--')).rest, ['--cwd', '--'])
    assert.deepEqual((await parse('-')).rest, ['-'])
    assert.deepEqual((await parse('--')).rest, [])
  })

  it('may stand behind words where no command follows', async () => {
    const parsed = await parseFlags(table, ['a', '--json', 'b', '--', '--c'], { usage: '' })
    assert.deepEqual([parsed.rest, parsed.has('json')], [['a', 'b', '--c'], true])
  })

  it('that are not there are refused, naming the nearest', async () => {
    const cases = { '--tmeout': '--timeout', '--time': '--timeout', '--wirte': '--write', '--no-tool': '--no-tools', '--jso=1': '--json' }
    for (const [given, meant] of Object.entries(cases)) await assert.rejects(parse(given), { code: 'argument.unknown', hint: `did you mean ${meant}?` }, given)
    await assert.rejects(parse('--volume'), { code: 'argument.unknown', message: 'there is no flag --volume', hint: 'x --help' })
    await assert.rejects(parse('-x'), { code: 'argument.unknown', message: 'there is no flag -x' })
    for (const name of ['--__proto__', '--constructor', '--toString', '--no-valueOf']) await assert.rejects(parse(name), { code: 'argument.unknown' }, name)
  })

  it('without a value are refused, also when another flag follows', async () => {
    for (const argv of [['--cwd'], ['--cwd', '--'], ['--cwd', '--json'], ['-e'], ['--write', '--cwd=/']]) {
      await assert.rejects(parse(...argv), { code: 'argument.invalid', message: /needs a value$/ }, argv.join(' '))
    }
    assert.equal((await parse('--cwd=--json')).text('cwd'), '--json')
    assert.equal((await parse('--cwd', '-dash')).text('cwd'), '-dash')
  })

  it('with an empty value are refused: an unset variable must not grant the current directory', async () => {
    for (const argv of [['--write', ''], ['--write='], ['--cwd=', 'x']])
      await assert.rejects(parse(...argv), { code: 'argument.invalid', message: /its value is empty/ })
  })

  it('whose value cannot be are refused under their name', async () => {
    await assert.rejects(parse('--timeout', '30'), { message: '--timeout: "30" is no duration', hint: 'write 30s for seconds, 30ms for milliseconds' })
    await assert.rejects(parse('--timeout', '0s'), { message: '--timeout: 0ms is too little', hint: 'at least 1ms' })
    await assert.rejects(parse('--memory', 'lots'), { message: '--memory: "lots" is no size' })
    await assert.rejects(parse('--overflow', 'wait'), { message: '--overflow: "wait" is none of hold, drop' })
    await assert.rejects(parse('--signal', 'TERM'), { message: '--signal: "TERM" is no whole number' })
  })

  it('of any words are taken or refused with a code, and never change a prototype', async () => {
    const word = fc.oneof(fc.string(), fc.constantFrom('--', '-', '--cwd', '--cwd=', '--json', '-e', '-q', '--no-tools', '--__proto__=1', '--timeout=1s'))
    await fc.assert(
      fc.asyncProperty(fc.array(word, { maxLength: 8 }), async (argv) => {
        try {
          await parse(...argv)
        } catch (error) {
          assert.match(String((error as { code?: unknown }).code), /^argument\.(invalid|unknown)$/, String(error))
        }
      }),
      { numRuns: 1000 },
    )
  })
})

describe('the flags of run', () => {
  it('each fill a field of an operation', () => {
    for (const [name, flag] of Object.entries(run.flags)) {
      assert.ok(flag.field !== undefined, name)
      assert.ok(fieldAt(flag.field).doc !== '', name)
    }
  })

  it('have the docs, kinds and defaults of their fields', () => {
    const user = knownFlag('user', run.flags.user)
    assert.deepEqual([user.kind, user.doc, user.default], ['text', fieldAt('sandbox.create.user').doc.replaceAll('`', ''), 'user'])
    assert.equal(knownFlag('timeout', run.flags.timeout).kind, 'duration')
    assert.equal(knownFlag('memory', run.flags.memory).kind, 'bytes')
    const tools = knownFlag('tools', run.flags.tools)
    assert.deepEqual([tools.kind, tools.doc, tools.default], ['switch', `do not ${fieldAt('sandbox.create.tools').doc}`, true])
    for (const [name, flag] of Object.entries(run.flags)) assert.notEqual(knownFlag(name, flag).doc, '', name)
  })

  it('cover every field of sandbox.create that a person may want to set', () => {
    const covered = new Set<string>(Object.values(run.flags).map((flag) => flag.field))
    const left = ['here', 'hostname', 'labels', 'ttlMs'].map((field) => `sandbox.create.${field}`)
    for (const name of ['driver', 'root', 'cwd', 'grants', 'env', 'user', 'tools', 'memoryBytes']) assert.ok(covered.has(`sandbox.create.${name}`), name)
    for (const field of left) assert.ok(!covered.has(field) && fieldAt(field) !== undefined)
  })
})

describe('the nearest word', () => {
  it('is one with a letter missing, added, replaced or swapped, or one that goes on', () => {
    for (const [word, meant] of [
      ['timeuot', 'timeout'],
      ['timout', 'timeout'],
      ['timeouts', 'timeout'],
      ['dimeout', 'timeout'],
      ['doc', 'doctor'],
    ] as const) {
      assert.equal(nearest(word, ['timeout', 'write', 'doctor']), meant, word)
    }
  })

  it('is none where all are far', () => {
    for (const word of ['', 'x', 'volume', 'publish']) assert.equal(nearest(word, ['timeout', 'write', 'env']), undefined, word)
  })

  it('is the word itself when it is among them', () => {
    fc.assert(fc.property(fc.uniqueArray(fc.string({ minLength: 1 }), { minLength: 1 }), (words) => assert.equal(nearest(words[0]!, words), words[0])))
  })
})
