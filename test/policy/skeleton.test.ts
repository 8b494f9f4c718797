import assert from 'node:assert/strict'
import { test } from 'node:test'
import { etcTable } from '../../src/policy/etc.ts'
import { makeSkeleton } from '../../src/policy/skeleton.ts'
import { fakeHost, type HostOptions } from './fixture.ts'

const skeleton = (options: HostOptions = {}) => makeSkeleton(fakeHost(options).facts)
const at = (path: string, options: HostOptions = {}) => skeleton(options).find((entry) => entry.path === path)
const text = (path: string, options: HostOptions = {}): string => {
  const entry = at(path, options)
  assert.ok(entry?.entry === 'file', path)
  return new TextDecoder().decode(entry.bytes)
}

test('parents come before children and no path comes twice', () => {
  const bytes = new Uint8Array([1])
  const list = skeleton({
    path: ['/home/me/.pyenv/shims'],
    places: ['/home/me/.pyenv/shims'],
    etc: [{ kind: 'file', path: '/etc/perl/Net/libnet.cfg', mode: 0o644, bytes }],
  })
  const seen = new Set(['/'])
  for (const { path } of list) {
    assert.ok(!seen.has(path), `${path} twice`)
    assert.ok(seen.has(path.slice(0, path.lastIndexOf('/')) || '/'), `${path} before its parent`)
    seen.add(path)
  }
})

test('passwd knows root, user, nobody and the reserved id, with a shell that exists', () => {
  const rows = text('/etc/passwd').split('\n')
  assert.ok(rows.includes('root:x:0:0:root:/root:/bin/bash'))
  assert.ok(rows.includes('user:x:1000:1000:user:/home/user:/bin/bash'))
  assert.ok(rows.includes('nobody:x:65534:65534:nobody:/:/usr/sbin/nologin'))
  assert.ok(rows.some((row) => row.startsWith('sandlot:x:65533:')))
  assert.ok(text('/etc/group').split('\n').includes('user:x:1000:'))
})

test('home belongs to user, /tmp is everybody’s, /root is closed', () => {
  assert.deepEqual(at('/home/user'), { entry: 'directory', path: '/home/user', mode: 0o755, uid: 1000, gid: 1000 })
  assert.deepEqual(at('/tmp'), { entry: 'directory', path: '/tmp', mode: 0o1777, uid: 0, gid: 0 })
  assert.deepEqual(at('/root'), { entry: 'directory', path: '/root', mode: 0o700, uid: 0, gid: 0 })
})

test('when the caller’s home is /root its toolchains can be reached, but it cannot be listed', () => {
  const options = { home: '/root', path: ['/root/.pyenv/shims'], places: ['/root/.pyenv/shims'] }
  assert.deepEqual(at('/root', options), { entry: 'directory', path: '/root', mode: 0o711, uid: 0, gid: 0 })
  assert.equal(at('/root/.pyenv', options)?.entry, 'directory')
})

test('a merged /usr gives links, a split one gives directories to mount on', () => {
  assert.deepEqual(at('/bin'), { entry: 'link', path: '/bin', to: 'usr/bin' })
  assert.equal(at('/bin', { merged: false })?.entry, 'directory')
})

test('copied files come as they are, what we make ourselves wins', () => {
  const bytes = new TextEncoder().encode('secret')
  const etc = [
    { kind: 'file' as const, path: '/etc/passwd', mode: 0o644, bytes },
    { kind: 'file' as const, path: '/etc/timezone', mode: 0o644, bytes },
    { kind: 'link' as const, path: '/etc/localtime', to: '/usr/share/zoneinfo/UTC' },
  ]
  assert.equal(text('/etc/timezone', { etc }), 'secret')
  assert.ok(!text('/etc/passwd', { etc }).includes('secret'))
  assert.deepEqual(at('/etc/localtime', { etc }), { entry: 'link', path: '/etc/localtime', to: '/usr/share/zoneinfo/UTC' })
})

test('a login shell keeps the PATH of the sandbox', () => {
  assert.ok(!/\bPATH=/.test(text('/etc/profile')))
})

test('the table of /etc names nothing that holds keys, passwords or tokens', () => {
  const secret = /shadow|private|ssh|gitconfig|npmrc|pip\.conf|maven|wgetrc|netrc|environment|profile\.d|machine-id|sudoers|krb5|kubernetes|docker/
  for (const { path } of etcTable) assert.ok(!secret.test(path), path)
  for (const { path } of etcTable) assert.ok(path.startsWith('/etc/') && path.length > 5)
  for (const path of ['/etc/ssl', '/etc/pki', '/etc/pki/tls']) assert.ok(!etcTable.some((rule) => rule.path === path), `${path} holds private keys`)
})
