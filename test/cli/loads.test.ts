// What a call of `run` loads. Every file costs start-up time, so what is not used is not loaded: the list here grows only on purpose.

import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { describe, it } from 'node:test'
import { entry } from '../fixture/cli.ts'

const list = new URL('../fixture/list-modules.js', import.meta.url).href

const loadedBy = (...argv: string[]): { readonly own: string[]; readonly node: string[]; readonly foreign: string[] } => {
  const { output, status } = spawnSync(process.execPath, ['--import', list, entry, ...argv], {
    stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
    encoding: 'utf8',
    env: { ...process.env, LIST_MODULES_FD: '3' },
  })
  assert.equal(status, 0, String(output[2]))
  const urls = String(output[3])
    .trim()
    .split('\n')
    .filter((url) => url !== list)
  const source = new URL('../../src/', import.meta.url).href
  return {
    own: urls.filter((url) => url.startsWith(source)).map((url) => url.slice(source.length)),
    node: urls.filter((url) => url.startsWith('node:')),
    foreign: urls.filter((url) => !url.startsWith(source) && !url.startsWith('node:')),
  }
}

/** Floors whose files are all needed to make any sandbox, but for those that are loaded when asked. */
const engine = /^(engine|driver|host|policy)\//
const onlyWhenAsked =
  /^(host\/(doctor|hidden|withheld)|cli\/(text|help)|cli\/command\/(?!run\.)|protocol\/(validate|refusal|nearest)|api\/(openapi|library)|index|model\/unit)\b/
const others = new Set([
  'cli/sandlot.js',
  'cli/main.ts',
  'cli/flags.ts',
  'cli/stdio.ts',
  'cli/signals.ts',
  'cli/command/run.ts',
  'client/client.ts',
  'api/local.ts',
  'protocol/fields.ts',
  'protocol/frame.ts',
  'protocol/generation.ts',
  'protocol/operation/index.ts',
  'protocol/operation/exec.ts',
  'protocol/operation/sandbox.ts',
  'protocol/operation/system.ts',
  'model/error.ts',
  'model/errno.ts',
  'model/outcome.ts',
])
const builtins = new Set(['child_process', 'crypto', 'fs', 'module', 'net', 'os', 'path', 'url'].map((name) => `node:${name}`))

describe('`run -- true`', () => {
  const { own, node, foreign } = loadedBy('run', '--', 'true')

  it('loads no library', () => {
    assert.deepEqual(foreign, [])
  })

  it('loads no file that it does not use', () => {
    assert.deepEqual(
      own.filter((file) => onlyWhenAsked.test(file) || !(engine.test(file) || others.has(file))),
      [],
    )
  })

  it('loads few files', () => {
    assert.ok(own.length <= 52, `${own.length} files:\n${own.join('\n')}`)
  })

  it('loads only what it needs of Node', () => {
    assert.deepEqual(
      node.filter((name) => !builtins.has(name)),
      [],
    )
  })
})

it('help loads no engine', () => {
  const { own, foreign } = loadedBy('run', '--help')
  assert.deepEqual([...foreign, ...own.filter((file) => engine.test(file) || file.startsWith('api/'))], [])
})

it('the list is made of what is loaded, so the tests above can fail', () => {
  const seen = execFileSync(process.execPath, ['--import', list, '--input-type=module', '-e', "await import('zod')"], {
    encoding: 'utf8',
    cwd: new URL('../..', import.meta.url),
  })
  assert.match(seen, /node_modules\/zod/)
})
