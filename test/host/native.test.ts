import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { findNative, findOnPath, type NativeOptions, openNative, packageHint } from '../../src/host/native.ts'

const base = realpathSync(mkdtempSync(join(tmpdir(), 'sandlot-native-')))
after(() => rmSync(base, { recursive: true, force: true }))
const hasCompiler = ['cc', 'gcc', 'clang'].some((name) => findOnPath(name, process.env['PATH'] ?? '') !== undefined)
const needsCompiler = { skip: hasCompiler ? false : 'there is no C compiler' }

let count = 0
/** A package of its own with a tiny program, and a cache of its own. */
const fresh = (source = 'int main(void) { return 7; }\n'): NativeOptions & { installation: string; cache: string; said: string[] } => {
  const root = join(base, String(count++))
  mkdirSync(join(root, 'package/native'), { recursive: true })
  mkdirSync(join(root, 'cache'), { mode: 0o700 })
  writeFileSync(join(root, 'package/native/main.c'), source)
  const said: string[] = []
  return {
    installation: join(root, 'package'),
    cache: join(root, 'cache'),
    environment: { PATH: process.env['PATH'] },
    said,
    onProgress: (line) => said.push(line),
  }
}
/** Makes sources old enough to be trusted by their times. */
const settle = async (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 3100))
const exitCode = (path: string): number => {
  try {
    execFileSync(path)
    return 0
  } catch (error) {
    return (error as { status: number }).status
  }
}
/** A compiler that is a script: says what it is told to. */
const fakeCompiler = (script: string): NodeJS.ProcessEnv => {
  const directory = join(base, `compiler${count++}`)
  mkdirSync(directory)
  writeFileSync(join(directory, 'cc'), `#!/bin/sh\n${script}\n`)
  chmodSync(join(directory, 'cc'), 0o755)
  return { PATH: `${directory}:/usr/bin:/bin` }
}
const failure = async (options: NativeOptions): Promise<{ code: string; message: string; hint: string }> => {
  try {
    await openNative(options)
  } catch (error) {
    assert.ok(error instanceof Error && 'code' in error && 'hint' in error)
    return { code: String(error.code), message: error.message, hint: String(error.hint) }
  }
  assert.fail('it was compiled')
}

test('the program is compiled once, is private, and is found at once from then on', needsCompiler, async () => {
  const options = fresh()
  assert.equal(findNative(options), undefined)
  await settle()
  const path = await openNative(options)
  assert.equal(exitCode(path), 7)
  assert.deepEqual(options.said, ['compiling the native program (once)'])
  assert.equal(statSync(join(path, '..')).mode & 0o777, 0o700)
  assert.equal(findNative(options), path)
  assert.equal(await openNative(options), path)
  assert.equal(options.said.length, 1)
})

test('a change of a source, even with its size and times kept, gives another program', needsCompiler, async () => {
  const options = fresh()
  const source = join(options.installation, 'native/main.c')
  utimesSync(source, 1_700_000_000, 1_700_000_000)
  await settle()
  const first = await openNative(options)
  assert.equal(findNative(options), first)
  writeFileSync(source, readFileSync(source, 'utf8').replace('7', '8'))
  utimesSync(source, 1_700_000_000, 1_700_000_000)
  assert.equal(statSync(source).mtimeMs, 1_700_000_000_000)
  assert.equal(findNative(options), undefined)
  const second = await openNative(options)
  assert.notEqual(second, first)
  assert.equal(exitCode(second), 8)
  writeFileSync(source, readFileSync(source, 'utf8').replace('8', '7'))
  assert.equal(await openNative(options), first)
})

test('a program that was cut short, or that others can write, is not used but made anew', needsCompiler, async () => {
  const options = fresh()
  const path = await openNative(options)
  writeFileSync(path, '')
  assert.equal(exitCode(await openNative(options)), 7)
  chmodSync(path, 0o777)
  assert.equal(findNative(options), undefined)
  assert.equal(statSync(await openNative(options)).mode & 0o022, 0)
})

test('two first uses at once both succeed and leave nothing but the program', needsCompiler, async () => {
  const options = fresh()
  const [one, two] = await Promise.all([openNative(options), openNative(options)])
  assert.equal(one, two)
  assert.equal(exitCode(one), 7)
  assert.deepEqual(
    readdirSync(join(options.cache, 'native')).filter((name) => name.startsWith('compile-')),
    [],
  )
})

test('a warning does not keep a user from the program, but it keeps us', needsCompiler, async () => {
  const source = 'int main(int n, char **v) { int unused; return 7; }\n'
  const options = fresh(source)
  assert.equal(exitCode(await openNative(options)), 7)
  assert.equal(options.said.length, 2)
  const strict = await failure({ ...fresh(source), strict: true })
  assert.equal(strict.code, 'native.unavailable')
  assert.match(strict.message, /unused/)
})

test('what does not compile says the first errors in one line', needsCompiler, async () => {
  const { code, message } = await failure(fresh('int main(void) { return nothing_of_that_name; }\n'))
  assert.equal(code, 'native.unavailable')
  assert.match(message, /nothing_of_that_name/)
  assert.ok(!message.includes('\n'))
})

test('without a compiler the package to install is named', async () => {
  const { code, message, hint } = await failure({ ...fresh(), environment: { PATH: '/nowhere' } })
  assert.equal(code, 'native.unavailable')
  assert.match(message, /no C compiler/)
  assert.match(hint, /package that ships the program/)
})

test('what to install is said in the words of the distribution', () => {
  assert.match(packageHint('compiler', 'ID=debian\n'), /^apt install gcc libc6-dev/)
  assert.match(packageHint('static', 'ID="fedora"\n'), /^dnf install glibc-static/)
  assert.match(packageHint('static', 'ID=rocky\nID_LIKE="rhel centos fedora"\n'), /^dnf install glibc-static/)
  assert.match(packageHint('headers', 'ID=alpine\n'), /^apk add musl-dev linux-headers/)
  assert.match(packageHint('compiler', 'ID=ubuntu\nID_LIKE=debian\n'), /^apt /)
  assert.match(packageHint('compiler', ''), /install a C compiler/)
})

test('a missing C library, a missing header and a full disk are told apart', async () => {
  const library = await failure({ ...fresh(), environment: fakeCompiler('echo "/usr/bin/ld: cannot find -lc" >&2; exit 1') })
  assert.match(library.message, /C library for static programs is missing/)
  const header = await failure({
    ...fresh(),
    environment: fakeCompiler('echo "native/a.c:3:10: fatal error: linux/filter.h: No such file or directory" >&2; exit 1'),
  })
  assert.match(header.message, /linux\/filter.h is missing/)
  const full = await failure({ ...fresh(), environment: fakeCompiler('echo "error: closing a.o: No space left on device" >&2; exit 1') })
  assert.equal(full.code, 'disk.full')
  const nothing = await failure({ ...fresh(), environment: fakeCompiler('exit 0') })
  assert.equal(nothing.code, 'native.unavailable')
})

test('CC names the compiler, with arguments', async () => {
  const environment = fakeCompiler('echo "error: $1 was asked" >&2; exit 1')
  const cc = `${environment['PATH']!.split(':')[0]}/cc --special`
  assert.match((await failure({ ...fresh(), environment: { ...environment, CC: cc } })).message, /--special was asked/)
})

test('a shipped program is used where a package has one, sources or not', () => {
  const options = { ...fresh(), prebuilt: true }
  const path = join(options.installation, `dist/native/sandlot-linux-${process.arch}`)
  mkdirSync(join(options.installation, 'dist/native'), { recursive: true })
  copyFileSync('/bin/true', path)
  chmodSync(path, 0o755)
  assert.equal(findNative(options), path)
  assert.equal(findNative({ ...options, prebuilt: false }), undefined)
  chmodSync(path, 0o644)
  assert.equal(findNative(options), undefined)
})

test('a package with neither program nor sources says so', async () => {
  const options = fresh()
  rmSync(join(options.installation, 'native'), { recursive: true })
  assert.match((await failure(options)).message, /neither a program/)
})

test('a cache that belongs to others is refused', async () => {
  const options = fresh()
  mkdirSync(join(options.cache, 'native'))
  chmodSync(join(options.cache, 'native'), 0o777)
  assert.equal((await failure(options)).code, 'state.unusable')
})

test('what a killed compiler and old versions left is removed, after a while', needsCompiler, async () => {
  const options = fresh()
  const old = ['compile-abc', 'a'.repeat(32), 'b'.repeat(32)]
  mkdirSync(join(options.cache, 'native'), { mode: 0o700 })
  for (const name of old) mkdirSync(join(options.cache, 'native', name))
  const day = 24 * 3600
  const now = Date.now() / 1000
  utimesSync(join(options.cache, 'native', old[0]!), now - 2 * day, now - 2 * day)
  utimesSync(join(options.cache, 'native', old[1]!), now - 40 * day, now - 40 * day)
  utimesSync(join(options.cache, 'native', old[2]!), now - 2 * day, now - 2 * day)
  await openNative(options)
  assert.deepEqual(
    old.map((name) => existsSync(join(options.cache, 'native', name))),
    [false, false, true],
  )
})
