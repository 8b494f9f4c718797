import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fakeHost, grant } from './fixture.ts'

const SECRETS = {
  AWS_SECRET_ACCESS_KEY: 'x',
  GITHUB_TOKEN: 'x',
  HTTPS_PROXY: 'http://user:pass@proxy',
  LD_PRELOAD: '/x.so',
  BASH_ENV: '/x',
  NODE_OPTIONS: '--require /x',
  PYTHONPATH: '/x',
  SSH_AUTH_SOCK: '/x',
  DISPLAY: ':0',
  DBUS_SESSION_BUS_ADDRESS: 'x',
}

test('nothing of the caller’s environment goes in but what the table names', () => {
  const { env } = fakeHost({ variables: { ...SECRETS, LC_TIME: 'de_DE.UTF-8', TERM: 'xterm', TZ: 'Europe/Berlin', NO_COLOR: '1' } }).view()
  assert.deepEqual(Object.fromEntries(env), {
    PATH: '/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin',
    HOME: '/home/user',
    USER: 'user',
    LOGNAME: 'user',
    SHELL: '/bin/bash',
    PWD: '/home/user',
    TMPDIR: '/tmp',
    LANG: 'C.UTF-8',
    LC_TIME: 'de_DE.UTF-8',
    TERM: 'xterm',
    TZ: 'Europe/Berlin',
    NO_COLOR: '1',
  })
})

test('what the caller names explicitly wins, PATH included', () => {
  const view = fakeHost().view({
    env: new Map([
      ['GITHUB_TOKEN', 'mine'],
      ['HOME', '/work'],
      ['PATH', '/my/bin'],
      ['__proto__', 'kept'],
    ]),
  })
  assert.equal(view.env.get('GITHUB_TOKEN'), 'mine')
  assert.equal(view.env.get('HOME'), '/work')
  assert.equal(view.env.get('PATH'), '/my/bin')
  assert.equal(view.env.get('__proto__'), 'kept')
  assert.equal(view.path, '/my/bin')
})

test('a variable that names a file of certificates is kept when that shows inside', () => {
  const certs = { path: '/etc/ssl/certs', kind: 'directory' as const, dev: 1, ino: 99, open: true }
  const variables = { SSL_CERT_FILE: '/etc/ssl/certs/ca-certificates.crt', REQUESTS_CA_BUNDLE: '/home/me/corporate.pem', CURL_CA_BUNDLE: '/usr/share/ca.pem' }
  const { env } = fakeHost({ variables, etc: [{ kind: 'tree', path: '/etc/ssl/certs', found: certs }] }).view()
  assert.equal(env.get('SSL_CERT_FILE'), '/etc/ssl/certs/ca-certificates.crt')
  assert.equal(env.get('CURL_CA_BUNDLE'), '/usr/share/ca.pem')
  assert.equal(env.get('REQUESTS_CA_BUNDLE'), undefined)
})

test('a file of certificates is not kept when something else shows under its name', () => {
  const host = fakeHost({ variables: { SSL_CERT_FILE: '/work/ca.pem' }, places: ['/work', '/data'] })
  assert.equal(host.view({ grants: [grant('read', '/work')] }).env.get('SSL_CERT_FILE'), '/work/ca.pem')
  assert.equal(host.view({ grants: [grant('read', '/data', '/work')] }).env.get('SSL_CERT_FILE'), undefined)
})

test('names and values that the kernel could not pass are refused', () => {
  for (const [name, value] of [
    ['', 'x'],
    ['a=b', 'x'],
    ['a\0', 'x'],
    ['a', 'x\0y'],
  ] as const) {
    assert.throws(() => fakeHost().view({ env: new Map([[name, value]]) }), { code: 'argument.invalid' })
  }
})
