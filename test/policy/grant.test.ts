import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fakeHost, grant, stepAt, targets } from './fixture.ts'

const refusal = (run: () => unknown): { code: string; message: string; hint: string } => {
  try {
    run()
  } catch (error) {
    assert.ok(error instanceof Error && 'code' in error && 'hint' in error)
    return { code: String(error.code), message: error.message, hint: String(error.hint) }
  }
  assert.fail('it was not refused')
}

test('the three kinds of grant become the step they mean', () => {
  const host = fakeHost({ places: ['/work/a', '/work/b', '/work/c'] })
  const view = host.view({ grants: [grant('read', '/work/a'), grant('write', '/work/b'), grant('overlay', '/work/c', '/mnt/c')] })
  assert.deepEqual(targets(view), ['/mnt/c', '/usr', '/work/a', '/work/b'])
  const [a, b, c] = [stepAt(view, '/work/a'), stepAt(view, '/work/b'), stepAt(view, '/mnt/c')]
  assert.ok(a?.step === 'bind' && a.readonly)
  assert.ok(b?.step === 'bind' && !b.readonly && b.source.ids === 'owner')
  assert.ok(c?.step === 'overlay' && c.layers[0]?.path === '/work/c')
})

test('a write is refused where the guest would command sandlot or the host, and the message names the path and a way out', () => {
  const host = fakeHost({
    places: ['/etc/cron.d', '/run/user/1', '/tmp', '/opt', '/usr/local/bin', '/work/app/node_modules/sandlot/dist'],
    installation: '/work/app/node_modules/sandlot',
  })
  for (const [source, reason] of [
    ['/', 'everything'],
    ['/proc', 'kernel'],
    ['/sys', 'kernel'],
    ['/dev', 'kernel'],
    ['/run', 'sockets'],
    ['/run/user/1', 'sockets'],
    ['/etc', 'host itself'],
    ['/etc/cron.d', 'host itself'],
    ['/usr', 'host itself'],
    ['/usr/local/bin', 'host itself'],
    ['/tmp', 'shared'],
    ['/opt', 'too much'],
    ['/home', 'home/me/.local/state/sandlot'],
    ['/home/me', 'home/me/.local/state/sandlot'],
    ['/home/me/.local', 'holds sandlot'],
    ['/home/me/.local/state/sandlot', 'is sandlot'],
    ['/home/me/.cache', 'holds sandlot'],
    ['/home/me/.cache/sandlot', 'is sandlot'],
    ['/work/app/node_modules/sandlot', 'installation'],
    ['/work/app/node_modules/sandlot/dist', 'installation'],
    ['/work/app', 'holds sandlot'],
    ['/work', 'holds sandlot'],
  ] as const) {
    const local = fakeHost({ places: [source, '/home/me/.local/state/sandlot', '/home/me/.cache/sandlot'], installation: host.facts.installation })
    const { code, message, hint } = refusal(() => local.view({ grants: [grant('write', source, '/mnt/x')] }))
    assert.equal(code, 'grant.refused', source)
    assert.ok(message.startsWith(source), message)
    assert.ok(message.includes(reason), `${source}: ${message}`)
    assert.notEqual(hint, '')
  }
})

test('home is refused for writes also when state and cache lie elsewhere', () => {
  const host = fakeHost({ state: '/var/lib/sandlot', cache: '/var/cache/sandlot' })
  assert.match(refusal(() => host.view({ grants: [grant('write', '/home/me')] })).message, /home directory/)
  assert.match(refusal(() => host.view({ grants: [grant('overlay', '/home')] })).message, /home directory/)
})

test('reading home is a fair wish: it shows, our own directories in it are covered', () => {
  const host = fakeHost({ places: ['/home/me/.local/state/sandlot', '/home/me/.cache/sandlot'] })
  assert.deepEqual(host.view({ grants: [grant('read', '/home/me')] }).hidden, ['/home/me/.local/state/sandlot', '/home/me/.cache/sandlot'])
  assert.deepEqual(host.view({ grants: [grant('read', '/home/me', '/mnt')] }).hidden, ['/mnt/.local/state/sandlot', '/mnt/.cache/sandlot'])
})

test('reading our own directories, or an overlay above them, is refused', () => {
  const host = fakeHost({ places: ['/home/me/.local/state/sandlot/box/1', '/home/me/.cache/sandlot'] })
  for (const source of ['/home/me/.local/state/sandlot', '/home/me/.local/state/sandlot/box/1', '/home/me/.cache/sandlot']) {
    assert.equal(refusal(() => host.view({ grants: [grant('read', source, '/mnt')] })).code, 'grant.refused', source)
  }
  assert.equal(refusal(() => host.view({ grants: [grant('overlay', '/home/me/.local')] })).code, 'grant.refused')
})

test('a state directory in /usr or /opt is covered where those show', () => {
  const host = fakeHost({ state: '/usr/local/var/sandlot', cache: '/opt/tool/cache', path: ['/opt/tool/bin'], places: ['/opt/tool/bin', '/opt/tool/cache'] })
  const view = host.view()
  assert.deepEqual(view.hidden, ['/usr/local/var/sandlot'])
  assert.ok(!targets(view).includes('/opt/tool'))
})

test('a second name of a directory that holds ours is known by device and inode', () => {
  const host = fakeHost({ places: ['/srv/homes/me'], same: { '/srv/homes': '/home', '/srv/homes/me': '/home/me' } })
  assert.match(refusal(() => host.view({ grants: [grant('write', '/srv/homes/me')] })).message, /holds sandlot's state directory/)
  assert.deepEqual(host.view({ grants: [grant('read', '/srv/homes/me')] }).hidden, ['/srv/homes/me/.local/state/sandlot', '/srv/homes/me/.cache/sandlot'])
  assert.match(host.view({ here: '/srv/homes/me' }).notes[0]!, /home directory/)
})

test('a socket is never granted, and a single file only to be read', () => {
  const host = fakeHost({ files: ['/work/data.csv'], sockets: ['/work/docker.sock'] })
  assert.match(refusal(() => host.view({ grants: [grant('read', '/work/docker.sock')] })).message, /socket/)
  assert.match(refusal(() => host.view({ grants: [grant('write', '/work/data.csv')] })).message, /only be read/)
  const step = stepAt(host.view({ grants: [grant('read', '/work/data.csv')] }), '/work/data.csv')
  assert.ok(step?.step === 'bind' && step.readonly)
})

test('a grant by way of a link is judged and mounted by where it leads', () => {
  const host = fakeHost({
    places: ['/home/me/.local/state/sandlot', '/data/project'],
    links: { '/work/state': '/home/me/.local/state/sandlot', '/work/project': '/data/project' },
  })
  assert.match(refusal(() => host.view({ grants: [grant('read', '/work/state')] })).message, /\/work\/state \(\/home\/me\/.local\/state\/sandlot\)/)
  const step = stepAt(host.view({ grants: [grant('write', '/work/project')] }), '/work/project')
  assert.ok(step?.step === 'bind' && step.source.path === '/data/project')
})

test('nothing is shown at the root, in /proc, /dev or /sys, or over /etc and /usr', () => {
  const host = fakeHost({ places: ['/work'] })
  for (const target of ['/', '/proc', '/proc/sys', '/dev/shm', '/sys', '/etc', '/usr', '/work/../proc']) {
    assert.equal(refusal(() => host.view({ grants: [grant('read', '/work', target)] })).code, 'grant.refused', target)
  }
  assert.equal(refusal(() => host.view({ grants: [grant('read', '/work', 'relative')] })).code, 'argument.invalid')
})

test('a place to mount on has to be there where none can be made, or one would be left on the host', () => {
  const host = fakeHost({ places: ['/data', '/work', '/usr/share/there', '/work/there'] })
  for (const target of ['/usr/share/none', '/work/none']) {
    const { code, message } = refusal(() => host.view({ grants: [grant('write', '/work'), grant('read', '/data', target)] }))
    assert.equal(code, 'grant.refused')
    assert.ok(message.includes(target), message)
  }
  for (const target of ['/usr/share/there', '/work/there', '/mnt/new/place']) {
    assert.ok(stepAt(host.view({ grants: [grant('write', '/work'), grant('read', '/data', target)] }), target))
  }
  assert.ok(stepAt(host.view({ grants: [grant('overlay', '/work'), grant('read', '/data', '/work/none')] }), '/work/none'))
})

test('the same grant twice is one, two different ones for a target are a mistake', () => {
  const host = fakeHost({ places: ['/work'] })
  assert.deepEqual(targets(host.view({ grants: [grant('read', '/work'), grant('read', '/work')] })), ['/usr', '/work'])
  assert.equal(refusal(() => host.view({ grants: [grant('read', '/work'), grant('write', '/work')] })).code, 'argument.invalid')
})

test('what does not exist is not found, a relative source is a mistake', () => {
  assert.equal(refusal(() => fakeHost().view({ grants: [grant('read', '/none')] })).code, 'grant.not_found')
  assert.equal(refusal(() => fakeHost().view({ grants: [grant('read', 'work')] })).code, 'argument.invalid')
})

test('files of the system show with their owners, so that what only root may read stays so', () => {
  const host = fakeHost({ places: ['/var/log', '/work'] })
  const view = host.view({ grants: [grant('read', '/var/log', '/mnt/log'), grant('read', '/work')] })
  const [log, work] = [stepAt(view, '/mnt/log'), stepAt(view, '/work')]
  assert.ok(log?.step === 'bind' && log.source.ids === 'system')
  assert.ok(work?.step === 'bind' && work.source.ids === 'owner')
})

test('a grant over a part of /etc or over a toolchain leaves no mount of ours below it', () => {
  const certs = { path: '/etc/ssl/certs', kind: 'directory' as const, dev: 1, ino: 99, open: true }
  const host = fakeHost({
    places: ['/work/ssl', '/opt/tool/bin', '/work/opt'],
    path: ['/opt/tool/bin'],
    etc: [{ kind: 'tree', path: '/etc/ssl/certs', found: certs }],
  })
  assert.deepEqual(targets(host.view()), ['/etc/ssl/certs', '/opt/tool', '/usr'])
  assert.deepEqual(targets(host.view({ grants: [grant('write', '/work/ssl', '/etc/ssl'), grant('write', '/work/opt', '/opt')] })), ['/etc/ssl', '/opt', '/usr'])
})
