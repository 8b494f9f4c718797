import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isWithin } from '../../src/policy/path.ts'
import { toolchains } from '../../src/policy/toolchain.ts'
import { fakeHost, grant, stepAt, targets } from './fixture.ts'

const HOME = '/home/me'
const tool = (view: { plan: ReturnType<ReturnType<typeof fakeHost>['view']>['plan'] }): string[] =>
  view.plan.flatMap((step) => (step.step === 'bind' && step.target !== '/usr' ? [step.target] : []))

test('pyenv on PATH shows whole, read-only, and says where it is', () => {
  const path = [`${HOME}/.pyenv/shims`, `${HOME}/.pyenv/bin`, '/usr/bin']
  const view = fakeHost({ path, places: path }).view()
  const step = stepAt(view, `${HOME}/.pyenv`)
  assert.ok(step?.step === 'bind' && step.readonly && step.optional === true)
  assert.equal(view.env.get('PYENV_ROOT'), `${HOME}/.pyenv`)
  assert.ok(view.path.startsWith(`${HOME}/.pyenv/shims:${HOME}/.pyenv/bin:/usr/bin`))
})

test('what is in home but not on PATH does not show', () => {
  assert.deepEqual(tool(fakeHost({ places: [`${HOME}/.pyenv/shims`, `${HOME}/.cargo/bin`, `${HOME}/.nvm`] }).view()), [])
})

test('of cargo only the programs show: its credentials do not', () => {
  const host = fakeHost({
    path: [`${HOME}/.cargo/bin`],
    places: [`${HOME}/.cargo/bin`, `${HOME}/.rustup/toolchains`],
    files: [`${HOME}/.cargo/credentials.toml`],
  })
  const view = host.view()
  assert.deepEqual(tool(view), [`${HOME}/.cargo/bin`, `${HOME}/.rustup`])
  assert.equal(view.env.get('RUSTUP_HOME'), `${HOME}/.rustup`)
  assert.equal(view.env.get('CARGO_HOME'), undefined)
})

test('a place that a variable moved is found there', () => {
  const view = fakeHost({ path: ['/data/py/shims'], places: ['/data/py/shims'], variables: { PYENV_ROOT: '/data/py' } }).view()
  assert.deepEqual(tool(view), ['/data/py'])
  assert.equal(view.env.get('PYENV_ROOT'), '/data/py')
})

test('a variable that points at home, above it, or at a private directory shows nothing', () => {
  for (const root of [
    HOME,
    '/home',
    '/',
    `${HOME}/.config`,
    `${HOME}/.local`,
    `${HOME}/.ssh`,
    `${HOME}/.ssh/x`,
    `${HOME}/.local/state/sandlot`,
    `${HOME}/.cache/sandlot/x`,
    '/etc/x',
    '/run/x',
    '/tmp',
  ]) {
    const shims = root === '/' ? '/shims' : `${root}/shims`
    const host = fakeHost({ path: [shims], places: [shims], variables: { PYENV_ROOT: root } })
    assert.deepEqual(tool(host.view()), [], root)
    assert.equal(host.view().env.get('PYENV_ROOT'), undefined, root)
  }
})

test('a toolchain that is a link into a private directory does not show', () => {
  const host = fakeHost({ path: [`${HOME}/.pyenv/shims`], places: [`${HOME}/.ssh/shims`], links: { [`${HOME}/.pyenv`]: `${HOME}/.ssh` } })
  assert.deepEqual(tool(host.view()), [])
})

test('a version that nvm put on PATH brings nvm, and its global npm configuration is covered', () => {
  const bin = `${HOME}/.nvm/versions/node/v24.1.0/bin`
  const view = fakeHost({ path: [bin], places: [bin, `${HOME}/.nvm/versions/node/v24.1.0/etc`] }).view()
  assert.deepEqual(tool(view), [`${HOME}/.nvm`])
  assert.deepEqual(view.hidden, [`${HOME}/.nvm/versions/node/v24.1.0/etc`])
  assert.ok(view.path.startsWith(bin))
})

test('fnm puts a link on PATH that leads into what shows: PATH inside names where it leads', () => {
  const bin = `${HOME}/.local/share/fnm/node-versions/v24/installation/bin`
  const link = '/run/user/1000/fnm_multishells/1_2'
  const view = fakeHost({ path: [`${link}/bin`], places: [bin], links: { [link]: `${HOME}/.local/share/fnm/node-versions/v24/installation` } }).view()
  assert.deepEqual(tool(view), [`${HOME}/.local/share/fnm`])
  assert.ok(view.path.startsWith(`${bin}:`), view.path)
})

test('what links in ~/.local/bin lead to shows as well: pipx, uv and its pythons', () => {
  const places = [`${HOME}/.local/bin`, `${HOME}/.local/share/uv/python/cpython-3.13/bin`, `${HOME}/.local/share/pipx/venvs`, `${HOME}/.local/share/keyrings`]
  assert.deepEqual(tool(fakeHost({ path: [`${HOME}/.local/bin`], places }).view()), [
    `${HOME}/.local/bin`,
    `${HOME}/.local/share/pipx`,
    `${HOME}/.local/share/uv/python`,
  ])
})

test('an active virtual environment shows with the interpreters that its links lead to', () => {
  const places = ['/work/venv/bin', `${HOME}/.pyenv/versions/3.13/bin`]
  const host = fakeHost({ path: ['/work/venv/bin'], places, variables: { VIRTUAL_ENV: '/work/venv' } })
  assert.deepEqual(tool(host.view()), [`${HOME}/.pyenv/versions`, '/work/venv'])
  // In the current directory it is there already, and may be written to.
  const inside = host.view({ here: '/work' })
  assert.deepEqual(targets(inside), [`${HOME}/.pyenv/versions`, '/usr', '/work'])
  assert.equal(inside.env.get('VIRTUAL_ENV'), '/work/venv')
})

test('a PATH entry in /opt brings its package, one of Nix the store, others do not show', () => {
  const path = ['/opt/tool/bin', '/nix/store/abc-git/bin', '/snap/bin', '/srv/tools/bin', `${HOME}/bin`]
  const view = fakeHost({ path, places: path }).view()
  assert.deepEqual(tool(view), ['/nix/store', '/opt/tool'])
  assert.equal(view.path, '/opt/tool/bin:/nix/store/abc-git/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin')
})

test('a toolchain in /usr is not mounted again, its variable is kept', () => {
  const view = fakeHost({ path: ['/usr/local/go/bin'], places: ['/usr/local/go/bin'], variables: { GOROOT: '/usr/local/go' } }).view()
  assert.deepEqual(tool(view), [])
  assert.equal(view.env.get('GOROOT'), '/usr/local/go')
  assert.ok(view.path.startsWith('/usr/local/go/bin:'))
})

test('a home that is a link shows its toolchains under both names', () => {
  const host = fakeHost({ path: [`${HOME}/.pyenv/shims`], places: ['/data/me/.pyenv/shims'], links: { [HOME]: '/data/me' } })
  const view = host.view()
  assert.deepEqual(tool(view), ['/data/me/.pyenv', `${HOME}/.pyenv`])
  assert.ok(view.path.startsWith(`${HOME}/.pyenv/shims:`), view.path)
})

test('without tools neither they nor their variables nor their PATH entries are there', () => {
  const path = [`${HOME}/.pyenv/shims`, '/opt/x/bin', '/usr/bin']
  const view = fakeHost({ path, places: path }).view({ tools: false })
  assert.deepEqual(tool(view), [])
  assert.equal(view.env.get('PYENV_ROOT'), undefined)
  assert.equal(view.path, '/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin')
})

test('a toolchain that only its owner may read is shown as the user’s own', () => {
  const path = [`${HOME}/.pyenv/shims`, `${HOME}/.volta/bin`]
  const view = fakeHost({ path, places: path, closed: [`${HOME}/.volta`] }).view()
  const [open, closed] = [stepAt(view, `${HOME}/.pyenv`), stepAt(view, `${HOME}/.volta`)]
  assert.ok(open?.step === 'bind' && open.source.ids === 'system')
  assert.ok(closed?.step === 'bind' && closed.source.ids === 'owner')
})

test('granting a toolchain for writing takes the place of its read-only mount', () => {
  const host = fakeHost({ path: [`${HOME}/.pyenv/shims`], places: [`${HOME}/.pyenv/shims`], state: '/var/lib/sandlot', cache: '/var/cache/sandlot' })
  const step = stepAt(host.view({ grants: [grant('write', `${HOME}/.pyenv`)] }), `${HOME}/.pyenv`)
  assert.ok(step?.step === 'bind' && !step.readonly)
})

test('no row of the table shows a directory that holds credentials', () => {
  const secrets = [
    '.ssh/id_ed25519',
    '.cargo/credentials.toml',
    '.npmrc',
    '.config/gh/hosts.yml',
    '.docker/config.json',
    '.aws/credentials',
    '.gem/credentials',
    '.netrc',
    '.pypirc',
    '.m2/settings.xml',
    '.gradle/gradle.properties',
  ]
  for (const row of toolchains) {
    for (const shown of row.shows) {
      const [first, ...rest] = shown.split('/')
      const standard = first!.startsWith('$') ? [row.variables?.[first!.slice(1)] ?? '', ...rest].join('/') : shown
      assert.notEqual(row.variables === undefined && first!.startsWith('$'), true, `${row.name} names a variable that it does not have`)
      if (standard !== '' && !standard.startsWith('/')) for (const secret of secrets) assert.ok(!isWithin(secret, standard), `${row.name} shows ${secret}`)
    }
    for (const name of row.keeps ?? [])
      assert.ok(
        row.shows.some((shown) => shown.startsWith(`$${name}`)),
        `${row.name} keeps ${name} without showing it`,
      )
  }
})
