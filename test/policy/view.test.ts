import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { hostPathInside } from '../../src/policy/mount.ts'
import { isWithin, rebase } from '../../src/policy/path.ts'
import { fakeHost, grant, sources, stepAt, targets } from './fixture.ts'

const refuses = (code: string, message: RegExp) => (error: unknown) => {
  assert.ok(error instanceof Error && 'code' in error && 'hint' in error)
  assert.equal(error.code, code)
  assert.match(error.message, message)
  assert.notEqual(error.hint, '')
  return true
}

test('with nothing granted only /usr of the host shows, read-only and with what is mounted below it', () => {
  const host = fakeHost()
  const view = host.view()
  assert.deepEqual(sources(view), ['', '/usr'])
  assert.deepEqual(stepAt(view, '/usr'), {
    step: 'bind',
    source: { path: '/usr', ids: 'system', seen: { dev: 1, ino: host.find(['/usr']).get('/usr')!.ino! } },
    target: '/usr',
    readonly: true,
    recursive: true,
  })
  assert.equal(view.cwd, '/home/user')
})

test('where /bin and /lib are directories of their own they show as well', () => {
  assert.deepEqual(targets(fakeHost({ merged: false }).view()), ['/bin', '/lib', '/sbin', '/usr'])
})

test('the current directory shows as an overlay at the same path, and commands start there', () => {
  const view = fakeHost({ places: ['/work/project'] }).view({ here: '/work/project' })
  const step = stepAt(view, '/work/project')
  assert.equal(step?.step, 'overlay')
  assert.equal(view.cwd, '/work/project')
  assert.deepEqual(view.notes, [])
})

test('a current directory that holds too much is not shown, and a note says why and how', () => {
  const host = fakeHost({ places: ['/tmp', '/etc/ssl', '/run/user/1', '/home/me/.local/state/sandlot/box'] })
  for (const [here, why] of [
    ['/', 'holds everything'],
    ['/home', 'holds your home directory'],
    ['/home/me', 'is your home directory'],
    ['/home/me/.local', "holds sandlot's state directory"],
    ['/home/me/.local/state/sandlot/box', "in sandlot's state directory"],
    ['/tmp', 'shared by all programs'],
    ['/etc/ssl', 'belongs to the system'],
    ['/run/user/1', 'belongs to the system'],
  ] as const) {
    const view = host.view({ here })
    assert.deepEqual(sources(view), ['', '/usr'], here)
    assert.equal(view.cwd, '/home/user', here)
    assert.equal(view.notes.length, 1, here)
    assert.ok(view.notes[0]!.includes(why), view.notes.join())
  }
  assert.match(host.view({ here: '/home/me' }).notes[0]!, /--read \/home\/me shows it/)
})

test('another directory granted over the current one is what shows there', () => {
  const host = fakeHost({ places: ['/work/project', '/data'] })
  const view = host.view({ here: '/work/project', grants: [grant('read', '/data', '/work/project')] })
  assert.deepEqual([sources(view), view.cwd], [['', '/usr', '/data'], '/work/project'])
  const above = host.view({ here: '/work/project', grants: [grant('read', '/data', '/work')] })
  assert.deepEqual([sources(above), above.cwd, above.notes.length], [['', '/usr', '/data'], '/home/user', 1])
})

test('an explicit place to start needs no note about the current directory', () => {
  assert.deepEqual(fakeHost().view({ here: '/home/me', cwd: '/tmp' }).notes, [])
})

test('a current directory in /usr is there already, one in /usr/src is for building and gets an overlay', () => {
  const host = fakeHost({ places: ['/usr/share/doc', '/usr/src/app'] })
  assert.deepEqual(sources(host.view({ here: '/usr/share/doc' })), ['', '/usr'])
  assert.equal(host.view({ here: '/usr/share/doc' }).cwd, '/usr/share/doc')
  assert.equal(stepAt(host.view({ here: '/usr/src/app' }), '/usr/src/app')?.step, 'overlay')
})

test('a current directory that was deleted is an error that says so', () => {
  assert.throws(() => fakeHost().view({ here: '/work/gone' }), refuses('argument.invalid', /does not exist any more/))
})

test('a grant of the current directory or of one above it takes the place of the overlay', () => {
  const host = fakeHost({ places: ['/work/project'] })
  for (const source of ['/work/project', '/work']) {
    const view = host.view({ here: '/work/project', grants: [grant('write', source)] })
    assert.deepEqual(targets(view), ['/usr', source])
    assert.equal(view.cwd, '/work/project')
  }
})

test('a grant below the current directory comes after its overlay', () => {
  const view = fakeHost({ places: ['/work/project/build'] }).view({ here: '/work/project', grants: [grant('write', '/work/project/build')] })
  assert.deepEqual(targets(view), ['/usr', '/work/project', '/work/project/build'])
})

test('the program may start in a directory inside, but not by way of /proc', () => {
  const host = fakeHost()
  assert.equal(host.view({ cwd: '/tmp/../var//tmp/' }).cwd, '/var/tmp')
  assert.throws(() => host.view({ cwd: '/proc/self/fd/3' }), refuses('argument.invalid', /do not start/))
  assert.throws(() => host.view({ cwd: 'tmp' }), refuses('argument.invalid', /absolute/))
})

test('a directory as root shows nothing of the host but what is granted', () => {
  const host = fakeHost({ places: ['/srv/image', '/work/project', '/home/me/.pyenv/shims'], path: ['/home/me/.pyenv/shims', '/usr/bin'] })
  const view = host.view({ root: { dir: '/srv/image' }, grants: [grant('read', '/work/project')] })
  assert.deepEqual(sources(view), ['/srv/image', '/work/project'])
  assert.equal(view.env.get('HOME'), '/tmp')
  assert.equal(view.env.get('PYENV_ROOT'), undefined)
  assert.equal(view.cwd, '/')
  assert.ok(!view.path.includes('.pyenv'))
})

test('a root that holds our own directories, is absent, or a file, is refused', () => {
  const host = fakeHost({ files: ['/srv/image.tar'] })
  assert.throws(() => host.view({ root: { dir: '/home/me' } }), refuses('grant.refused', /cannot be a root/))
  assert.throws(() => host.view({ root: { dir: '/' } }), refuses('grant.refused', /cannot be a root/))
  assert.throws(() => host.view({ root: { dir: '/srv/none' } }), refuses('argument.invalid', /does not exist/))
  assert.throws(() => host.view({ root: { dir: '/srv/image.tar' } }), refuses('argument.invalid', /not a directory/))
})

test('a host path is found inside by its own name first, and not where something lies over it', () => {
  const host = fakeHost({ places: ['/work/project/sub', '/data'] })
  const view = host.view({ grants: [grant('read', '/work', '/mnt/work'), grant('read', '/work'), grant('read', '/data', '/work/project')] })
  assert.equal(hostPathInside(view, '/work/other'), '/work/other')
  assert.equal(hostPathInside(view, '/work/project/sub'), '/mnt/work/project/sub')
  assert.equal(hostPathInside(view, '/data'), '/work/project')
  assert.equal(hostPathInside(view, '/home/me'), undefined)
})

const segment = fc.constantFrom('a', 'b', 'c', 'proc', 'tmp', 'work', 'usr', 'opt', 'me', 'home', '.pyenv', '.ssh', '.local', 'state', 'sandlot')
const path = fc.array(segment, { minLength: 1, maxLength: 5 }).map((parts) => `/${parts.join('/')}`)
const anyGrant = fc.record({
  access: fc.constantFrom('read' as const, 'write' as const, 'overlay' as const),
  source: path,
  target: fc.option(path, { nil: undefined }),
})
const anyRequest = fc.record({
  grants: fc.array(anyGrant, { maxLength: 4 }),
  here: fc.option(path, { nil: undefined }),
  searchPath: fc.array(path, { maxLength: 4 }),
  root: path,
})

test('whatever is asked for: no source outside of what was granted, targets are unique, parents come first', () => {
  let made = 0
  fc.assert(
    fc.property(anyRequest, ({ grants, here, searchPath, root }) => {
      const all = [...grants.map(({ source }) => source), ...(here === undefined ? [] : [here]), ...searchPath, '/home/me/.pyenv/shims']
      const host = fakeHost({ places: all, path: ['/home/me/.pyenv/shims', ...searchPath], variables: { PYENV_ROOT: root } })
      const asked = grants.map(({ access, source, target }) => grant(access, source, target))
      let view
      try {
        view = host.view({ grants: asked, here })
      } catch (error) {
        assert.ok(error instanceof Error && 'code' in error && (error.code === 'grant.refused' || error.code === 'argument.invalid'), String(error))
        return
      }
      made++
      const allowed = [...grants.map(({ source }) => source), ...(here === undefined ? [] : [here]), ...host.facts.found.keys(), '/usr', '']
      for (const source of sources(view)) assert.ok(allowed.includes(source), source)
      const mounts = targets(view).filter((_, i) => view.plan[i + 1]!.step !== 'hide')
      assert.equal(new Set(mounts).size, mounts.length)
      for (const [i, target] of mounts.entries()) for (const later of mounts.slice(i + 1)) assert.ok(!isWithin(target, later), `${later} after ${target}`)
      // Nothing of ours shows unless something covers it.
      for (const own of [host.facts.state, host.facts.cache]) {
        for (const { source, target } of view.shown) {
          assert.ok(!isWithin(source, own))
          if (isWithin(own, source)) assert.ok(view.hidden.includes(rebase(own, source, target)), `${own} shows by way of ${source}`)
        }
      }
      for (const { source, access } of view.shown) if (access === 'write') assert.ok(!isWithin(host.facts.installation, source))
      for (const entry of view.path.split(':')) assert.ok(entry.startsWith('/'))
    }),
    { numRuns: 3000 },
  )
  assert.ok(made > 500, `only ${made} views were made`)
})
