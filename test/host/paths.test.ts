import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, lchownSync, lstatSync, mkdirSync, mkdtempSync, realpathSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { cacheDirectory, fileSystemOf, installation, openDirectory, openPlaces, stateDirectory } from '../../src/host/paths.ts'

const base = realpathSync(mkdtempSync(join(tmpdir(), 'sandlot-paths-')))
after(() => rmSync(base, { recursive: true, force: true }))
let count = 0
const fresh = (): string => {
  const path = join(base, String(count++))
  mkdirSync(path, { mode: 0o755 })
  return path
}
const isRoot = process.geteuid?.() === 0
const mode = (path: string): number => lstatSync(path).mode & 0o777

const unusable = (message: RegExp) => (error: unknown) => {
  assert.ok(error instanceof Error && 'code' in error && 'hint' in error)
  assert.equal(error.code, 'state.unusable')
  assert.match(error.message, message)
  assert.match(String(error.hint), /SANDLOT_STATE_DIR/)
  return true
}

test('the variables decide where state and cache are, and relative ones do not count', () => {
  assert.equal(stateDirectory({ SANDLOT_STATE_DIR: '/s', XDG_STATE_HOME: '/x', HOME: base }), '/s')
  assert.equal(stateDirectory({ XDG_STATE_HOME: '/x', HOME: base }), '/x/sandlot')
  assert.equal(stateDirectory({ XDG_STATE_HOME: 'x', HOME: base }), `${base}/.local/state/sandlot`)
  assert.equal(cacheDirectory({ XDG_CACHE_HOME: '/c', HOME: base }), '/c/sandlot')
  assert.equal(cacheDirectory({ XDG_CACHE_HOME: '', HOME: base }), `${base}/.cache/sandlot`)
})

test('a slash at the end of HOME changes nothing', () => {
  const home = fresh()
  assert.equal(openPlaces({ HOME: `${home}/` }).home, home)
})

test('a relative SANDLOT_STATE_DIR is refused, not guessed at', () => {
  assert.throws(() => openPlaces({ SANDLOT_STATE_DIR: 'here', HOME: fresh() }), unusable(/not an absolute path/))
})

test('both directories are made closed to others, and found again', () => {
  const home = fresh()
  const places = openPlaces({ HOME: home })
  assert.deepEqual([places.state, places.cache, places.home], [`${home}/.local/state/sandlot`, `${home}/.cache/sandlot`, home])
  assert.deepEqual([mode(places.state), mode(places.cache)], [0o700, 0o700])
  assert.deepEqual(openPlaces({ HOME: home }), places)
})

test('a directory that others could only read is closed, one that they could write is refused', () => {
  const state = fresh()
  chmodSync(state, 0o755)
  openDirectory(state, 'state')
  assert.equal(mode(state), 0o700)
  chmodSync(state, 0o770)
  assert.throws(() => openDirectory(state, 'state'), unusable(/can be written by others/))
  assert.equal(mode(state), 0o770)
})

test('a directory in which anybody can put another in its place is refused, a sticky one is not', () => {
  const parent = fresh()
  chmodSync(parent, 0o777)
  assert.throws(() => openDirectory(join(parent, 'state'), 'state'), unusable(/which anybody can write/))
  chmodSync(parent, 0o1777)
  openDirectory(join(parent, 'state'), 'state')
})

test('a directory below one of somebody else is refused', { skip: isRoot ? false : 'only root can give things away' }, () => {
  const parent = fresh()
  mkdirSync(join(parent, 'state'), { mode: 0o700 })
  chownSync(parent, 12345, 12345)
  assert.throws(() => openDirectory(join(parent, 'state'), 'state'), unusable(/which belongs to user 12345/))
})

test('a link of our own is followed, and the answer has no link in it', () => {
  const home = fresh()
  mkdirSync(join(home, 'disk'), { mode: 0o700 })
  symlinkSync(join(home, 'disk'), join(home, 'state'))
  assert.equal(openDirectory(join(home, 'state'), 'state'), join(home, 'disk'))
})

test('a link or a directory of somebody else is refused', { skip: isRoot ? false : 'only root can give things away' }, () => {
  const home = fresh()
  mkdirSync(join(home, 'ours'), { mode: 0o700 })
  symlinkSync(join(home, 'ours'), join(home, 'link'))
  lchownSync(join(home, 'link'), 12345, 12345)
  assert.throws(() => openDirectory(join(home, 'link'), 'state'), unusable(/link that belongs to somebody else/))
  mkdirSync(join(home, 'theirs'), { mode: 0o700 })
  chownSync(join(home, 'theirs'), 12345, 12345)
  assert.throws(() => openDirectory(join(home, 'theirs'), 'state'), unusable(/belongs to user 12345/))
})

test('root with the HOME of a user keeps to its own home', { skip: isRoot ? false : 'only root can give things away' }, () => {
  const home = fresh()
  chownSync(home, 12345, 12345)
  assert.notEqual(stateDirectory({ HOME: home }), `${home}/.local/state/sandlot`)
})

test('a file in the way, a directory that cannot be written, and a circle of links say so', () => {
  const home = fresh()
  writeFileSync(join(home, 'file'), '')
  assert.throws(() => openDirectory(join(home, 'file'), 'state'), unusable(/is not a directory/))
  assert.throws(() => openDirectory(join(home, 'file', 'state'), 'state'), unusable(/a file is in the way/))
  symlinkSync(join(home, 'circle'), join(home, 'circle'))
  assert.throws(() => openDirectory(join(home, 'circle'), 'state'), unusable(/circle/))
  assert.throws(() => openDirectory('/proc/sandlot', 'state'), unusable(/cannot be made/))
  if (isRoot) return
  chmodSync(home, 0o500)
  assert.throws(() => openDirectory(join(home, 'state'), 'state'), unusable(/permission denied/))
  chmodSync(home, 0o700)
})

test('without a usable home a state directory that is named is enough: the cache lies in it', () => {
  const state = fresh()
  const places = openPlaces({ SANDLOT_STATE_DIR: state, HOME: '/proc' })
  assert.equal(places.cache, `${state}/cache`)
  assert.equal(mode(places.cache), 0o700)
})

test('a full disk is its own error', { skip: isRoot ? false : 'only root can mount one' }, (t) => {
  const disk = fresh()
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'nr_inodes=1', 'none', disk], { stdio: 'ignore' })
  } catch {
    t.skip('this root may not mount')
    return
  }
  try {
    assert.throws(() => openDirectory(join(disk, 'state'), 'state'), { code: 'disk.full' })
  } finally {
    execFileSync('umount', [disk])
  }
})

test('the file system of a directory has a name and a size', () => {
  const { name, freeBytes, bytes } = fileSystemOf(base)
  assert.match(name, /^[a-z0-9]+$/)
  assert.ok(freeBytes >= 0 && bytes >= freeBytes)
  assert.equal(fileSystemOf('/proc').name, '0x9fa0')
})

test('the installation is the directory that holds src', () => {
  assert.ok(statSync(join(installation, 'src/host/paths.ts')).isFile())
})
