import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { findHidden } from '../../src/host/hidden.ts'

const base = realpathSync(mkdtempSync(join(tmpdir(), 'sandlot-hidden-')))
after(() => rmSync(base, { recursive: true, force: true }))
const program = (path: string, mode = 0o755): string => {
  const whole = join(base, path)
  mkdirSync(dirname(whole), { recursive: true })
  writeFileSync(whole, '#!/bin/sh\n')
  chmodSync(whole, mode)
  return whole
}
const shown = join(base, 'shown')
const find = (name: string, path: string, more: { toolsLeftOut?: boolean } = {}) =>
  findHidden({
    program: name,
    searchPath: path,
    home: join(base, 'home'),
    isVisible: (real) => real === shown || real.startsWith(`${shown}/`),
    toolsLeftOut: false,
    ...more,
  })

test('a program in a bin directory is shown with what lies beside that', () => {
  const path = program('tool/bin/zap')
  const hidden = find('zap', dirname(path))
  assert.deepEqual([hidden?.path, hidden?.flag], [path, `--read ${join(base, 'tool')}`])
  assert.match(hidden!.text, /zap exists on this machine and is not shown inside; --read /)
})

test('of home only the directory itself is named, never home', () => {
  assert.equal(find('mine', dirname(program('home/bin/mine')))?.flag, `--read ${join(base, 'home/bin')}`)
  assert.equal(find('other', dirname(program('home/.local/bin/other')))?.flag, `--read ${join(base, 'home/.local/bin')}`)
})

test('a link that shows and leads to what does not is explained by where it leads', () => {
  const real = program('app/bin/run')
  mkdirSync(join(shown, 'bin'), { recursive: true })
  symlinkSync(real, join(shown, 'bin/run'))
  assert.equal(find('run', join(shown, 'bin'))?.flag, `--read ${join(base, 'app')}`)
})

test('what shows already, is not executable, is a directory, or does not exist, is not named', () => {
  program('shown/bin/there')
  assert.equal(find('there', join(shown, 'bin')), undefined)
  assert.equal(find('text', dirname(program('tool/share/text', 0o644))), undefined)
  assert.equal(find('share', join(base, 'tool')), undefined)
  assert.equal(find('none', join(base, 'tool/bin')), undefined)
})

test('a path instead of a name is looked at as it is', () => {
  const path = program('tool/bin/zap')
  assert.equal(find(path, '')?.flag, `--read ${join(base, 'tool')}`)
})

test('when tools were left out on request, that is what is said', () => {
  const hidden = find('py', dirname(program('home/.pyenv/bin/py')), { toolsLeftOut: true })
  assert.equal(hidden?.flag, undefined)
  assert.match(hidden!.text, /leave out --no-tools/)
})
