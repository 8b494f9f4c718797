import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { findPlaces, readFacts } from '../../src/host/facts.ts'
import type { Places } from '../../src/host/paths.ts'
import { makeSkeleton } from '../../src/policy/skeleton.ts'
import { viewQuestions } from '../../src/policy/question.ts'
import { makeView } from '../../src/policy/view.ts'

const base = realpathSync(mkdtempSync(join(tmpdir(), 'sandlot-facts-')))
after(() => rmSync(base, { recursive: true, force: true }))
const home = join(base, 'home')
for (const path of ['home/.pyenv/shims', 'home/.cargo/bin', 'home/.local/state/sandlot', 'data/rust']) mkdirSync(join(base, path), { recursive: true })
symlinkSync(join(base, 'data/rust'), join(home, '.rustup'))
const places: Places = {
  home,
  state: join(home, '.local/state/sandlot'),
  cache: join(home, '.cache/sandlot'),
  installation: join(base, 'sandlot'),
  memoryUpper: false,
}
const read = (environment: NodeJS.ProcessEnv) => readFacts(environment, places, viewQuestions)

test('PATH comes without what is relative, empty, absent or there twice', () => {
  const { searchPath } = read({ PATH: `:bin:${home}/.pyenv/shims/:${home}/none:/usr/bin:${home}/.pyenv/shims:.` })
  assert.deepEqual(
    searchPath.map(({ name }) => name),
    [`${home}/.pyenv/shims`, '/usr/bin'],
  )
})

test('only variables that are asked for are looked at', () => {
  const { variables } = read({ PATH: '/usr/bin', TERM: 'xterm', LANG: '', SECRET: 'x' })
  assert.deepEqual([...variables], [['TERM', 'xterm']])
})

test('a toolchain that is a link is found where it leads', () => {
  const facts = read({ PATH: `${home}/.cargo/bin` })
  assert.equal(facts.found.get(`${home}/.rustup`)?.path, join(base, 'data/rust'))
  const { plan } = makeView(
    { root: 'host', grants: [], here: undefined, cwd: undefined, tools: true, env: new Map(), user: { name: 'user', home: '/home/user' } },
    facts,
    new Map(),
  )
  const shown = plan.flatMap((step) => (step.step === 'bind' && step.source.path.startsWith(base) ? [[step.target, step.source.path]] : []))
  assert.deepEqual(
    shown,
    [
      [join(base, 'data/rust'), join(base, 'data/rust')],
      [`${home}/.cargo/bin`, `${home}/.cargo/bin`],
      [`${home}/.rustup`, join(base, 'data/rust')],
    ].toSorted((a, b) => (a[0]! < b[0]! ? -1 : 1)),
  )
})

test('a place is known by kind, device, inode and whether everybody may read it', async () => {
  writeFileSync(join(base, 'file'), '')
  mkdirSync(join(base, 'closed'), { mode: 0o700 })
  chmodSync(join(base, 'file'), 0o644)
  const server = createServer().listen(join(base, 'socket'))
  await new Promise((resolve) => server.once('listening', resolve))
  const found = findPlaces([join(base, 'file'), join(base, 'closed'), join(base, 'socket'), join(base, 'none'), 'relative/none'])
  server.close()
  const { dev, ino } = statSync(join(base, 'file'))
  assert.deepEqual(found.get(join(base, 'file')), { path: join(base, 'file'), kind: 'file', dev, ino, open: true })
  assert.equal(found.get(join(base, 'closed'))?.open, false)
  assert.equal(found.get(join(base, 'socket'))?.kind, 'other')
  assert.equal(found.size, 3)
})

test('the directories above what is ours are known by device and inode', () => {
  const { above } = read({})
  const { dev, ino } = statSync(home)
  assert.ok(above.some((place) => place.path === home && place.dev === dev && place.ino === ino))
  assert.ok(above.some((place) => place.path === base))
})

test('of this host’s /etc nothing comes that its table does not name, and every file is readable by all', () => {
  const { etc } = read({})
  assert.ok(etc.length > 0)
  for (const entry of etc) {
    assert.ok(!/shadow|private|ssh|machine-id/.test(entry.path), entry.path)
    if (entry.kind === 'file') assert.equal(entry.mode & 0o022, 0)
    if (entry.kind === 'link') assert.ok(entry.to.startsWith('/usr/'), `${entry.path} -> ${entry.to}`)
  }
})

test('a rule can name a directory or names that only begin so; links into /usr stay, others are followed; pipes and closed files are left out', () => {
  const etc = join(base, 'etc')
  mkdirSync(join(etc, 'tool1/deep'), { recursive: true })
  mkdirSync(join(etc, 'tool2'))
  const write = (name: string, mode = 0o644): void => {
    writeFileSync(join(etc, name), name)
    chmodSync(join(etc, name), mode)
  }
  write('tool1/deep/a')
  write('tool2/b', 0o600)
  write('elsewhere')
  symlinkSync(join(etc, 'elsewhere'), join(etc, 'tool2/out'))
  symlinkSync('/usr/bin', join(etc, 'tool2/in'))
  symlinkSync('/none', join(etc, 'tool2/broken'))
  execFileSync('mkfifo', [join(etc, 'tool2/pipe')])
  const rules = [
    { path: `${etc}/tool*`, how: 'copy' as const },
    { path: `${etc}/tool1`, how: 'show' as const },
    { path: `${etc}/none*/x`, how: 'copy' as const },
    { path: `${etc}/elsewhere/x`, how: 'copy' as const },
  ]
  const found = readFacts({}, places, { ...viewQuestions, etc: rules }).etc.map((entry) => {
    const what = entry.kind === 'file' ? Buffer.from(entry.bytes).toString() : entry.kind === 'link' ? entry.to : ''
    return [entry.kind, entry.path.slice(etc.length + 1), what]
  })
  assert.deepEqual(
    found.toSorted((a, b) => (a.join() < b.join() ? -1 : 1)),
    [
      ['directory', 'tool1', ''],
      ['directory', 'tool1/deep', ''],
      ['directory', 'tool2', ''],
      ['file', 'tool1/deep/a', 'tool1/deep/a'],
      ['file', 'tool2/out', 'elsewhere'],
      ['link', 'tool2/in', realpathSync('/usr/bin')],
      ['tree', 'tool1', ''],
    ],
  )
})

test('the skeleton of this very host is whole: a shell, /bin or its link, and names for ids', () => {
  const facts = read({ PATH: process.env['PATH'] })
  const paths = new Map(makeSkeleton(facts).map((entry) => [entry.path, entry]))
  for (const path of ['/usr', '/etc/passwd', '/tmp', '/home/user', '/bin', '/proc', '/dev']) assert.ok(paths.has(path), path)
  assert.ok(!paths.has('/sys'))
})

test('gathering costs a few milliseconds at most', () => {
  for (let i = 0; i < 20; i++) read(process.env)
  const start = performance.now()
  for (let i = 0; i < 20; i++) read(process.env)
  assert.ok((performance.now() - start) / 20 < 20, 'more than 20 ms a time')
})
