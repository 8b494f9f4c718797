// What sandlot says on hosts that withhold something: one sentence, one hint, exit code 125, and nothing left behind.
// The hosts are imitated: a seccomp filter refuses system calls (fixture/withhold.c), small and layered file systems are mounted in a mount namespace of
// the test's own. The same in a real container: docker.test.ts.

import assert from 'node:assert/strict'
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { SandlotError } from '../../src/model/error.ts'
import { type Host, wayOut } from '../../src/host/withheld.ts'
import { ended, entry, type Ended } from '../fixture/cli.ts'

const root = resolve(import.meta.dirname, '../..')
const isRoot = process.geteuid?.() === 0
let base: string
let project: string
let withhold: string

before(() => {
  base = realpathSync(mkdtempSync(join(homedir(), 'sandlot-withheld-')))
  project = join(base, 'project')
  mkdirSync(project)
  writeFileSync(join(project, 'kept'), 'as it was\n')
  withhold = join(base, 'withhold')
  execFileSync('cc', ['-O1', '-Wall', '-Wextra', '-Werror', '-o', withhold, join(root, 'test/fixture/withhold.c')])
})
after(() => rmSync(base, { recursive: true, force: true }))

type Options = { readonly env?: { readonly [name: string]: string | undefined }; readonly cwd?: string }

const start = async (argv: readonly string[], options: Options = {}): Promise<Ended> => {
  const [program, ...rest] = argv
  const child = spawn(program!, rest, { cwd: options.cwd ?? project, stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...options.env } })
  return ended(child)
}

const cli = [process.execPath, entry] as const

/** The CLI below a filter with these rules, with a state directory of its own. */
const runWithout = async (rules: readonly string[], argv: readonly string[] = ['run', '--', 'cat', 'kept']): Promise<Ended & { readonly state: string }> => {
  const state = mkdtempSync(join(base, 'state-'))
  return { ...(await start([withhold, ...rules, '--', ...cli, ...argv], { env: { SANDLOT_STATE_DIR: state } })), state }
}

const refused = ({ code, stdout, stderr }: Ended, says: RegExp, hint: RegExp): void => {
  const said = stderr.replace(/^sandlot: compiling .*\n/, '')
  const lines = said.split('\n')
  assert.equal(lines.length, 3, said)
  assert.match(lines[0]!, /^sandlot: /)
  assert.match(lines[0]!, says)
  assert.match(lines[1]!, /^ {2}hint: /)
  assert.match(lines[1]!, hint)
  assert.deepEqual([code, stdout.toString(), lines[2]], [125, '', ''])
}

const entriesOf = (path: string): string[] => (existsSync(path) ? readdirSync(path) : [])

/** Processes that were started with this word in their environment, other than us. */
const processesOf = (word: string): string[] =>
  readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/environ`, 'latin1').includes(word)
    } catch {
      return false
    }
  })

const leavesNothing = async (state: string): Promise<void> => {
  const left = (): string[] => [...entriesOf(join(state, 'launcher')), ...entriesOf(join(state, 'box')), ...processesOf(state)]
  for (let i = 0; i < 200 && left().length > 0; i++) await sleep(25)
  assert.deepEqual(left(), [])
  assert.ok(!readFileSync('/proc/self/mountinfo', 'utf8').includes(state))
}

describe('a host that forbids', () => {
  const filter = /seccomp filter/
  const unfiltered = /seccomp=unconfined|outside of what put the filter on it/
  for (const [what, rules, says, hint] of [
    ['user namespaces', ['userns=EPERM'], filter, unfiltered],
    ['a mount namespace in a new user namespace, as AppArmor does', ['mntns=EPERM'], filter, unfiltered],
    ['mounts and host names in a new user namespace', ['mount=EPERM', 'sethostname=EPERM'], filter, unfiltered],
    ['the newer calls for mounts', ['fsopen=EPERM', 'fsmount=EPERM', 'move_mount=EPERM', 'open_tree=EPERM', 'mount_setattr=EPERM'], /EPERM/, unfiltered],
    ['to change the root', ['pivot_root=EPERM'], filter, unfiltered],
    ['to set a host name', ['sethostname=EPERM'], /host name/, unfiltered],
    ['openat2 as if it did not know it', ['openat2=ENOSYS'], /ENOSYS/, unfiltered],
    ['to make a directory for want of space', ['mkdirat=ENOSPC'], /state-.*ENOSPC/, /free space|SANDLOT_STATE_DIR/],
  ] as const) {
    test(`${what} is told in one sentence with a way out`, async () => {
      const seen = await runWithout(rules)
      refused(seen, says, hint)
      await leavesNothing(seen.state)
    })
  }

  test(
    'further user namespaces because their number is used up: the number is named, not a filter',
    { skip: isRoot && 'root makes them in another way' },
    async () => {
      const seen = await runWithout(['userns=ENOSPC'])
      refused(seen, /max_user_namespaces is used up/, /max_user_namespaces=/)
      await leavesNothing(seen.state)
    },
  )

  test('is described by the doctor, who fails no worse', async () => {
    const { code, stdout, stderr } = await runWithout(['mntns=EPERM'], ['doctor'])
    assert.deepEqual([code, stderr.replace(/^sandlot: compiling .*\n/, '')], [1, ''])
    assert.match(stdout.toString(), /^FAILED +sandbox +.*seccomp filter.*\n +-> /)
  })

  test('nothing lets a sandbox be made: the imitation itself stands in no way', async () => {
    const { code, stdout, stderr } = await runWithout(['0999=ENOSYS'])
    assert.deepEqual([code, stdout.toString(), stderr.replace(/^sandlot: compiling .*\n/, '')], [0, 'as it was\n', ''])
  })
})

describe('a host without', () => {
  test('a compiler and without the program: the package that gives one is named', async () => {
    const cache = mkdtempSync(join(base, 'cache-'))
    const env = { PATH: '/nowhere', CC: undefined, XDG_CACHE_HOME: cache }
    const seen = await start([...cli, 'run', '--', 'true'], { env })
    refused(seen, /there is no C compiler/, /install|CC=|package that ships/)
    const doctor = await start([...cli, 'doctor'], { env: { ...env, PATH: '' } })
    assert.doesNotMatch(doctor.stderr, /\n {4}at /)
  })

  test('HOME: the home of the password file counts', async () => {
    const { code, stdout } = await start([...cli, 'run', '--', 'cat', 'kept'], { env: { HOME: undefined } })
    assert.deepEqual([code, stdout.toString()], [0, 'as it was\n'])
  })

  test(
    'a home at all: the variable that names a state directory is named',
    { skip: !isRoot && 'only root can become somebody whom nobody knows' },
    async () => {
      const seen = await start(['setpriv', '--reuid=54321', '--regid=54321', '--clear-groups', ...cli, 'run', '--', 'true'], {
        env: { HOME: undefined },
        cwd: '/',
      })
      if (/cannot (?:start|find)|EACCES|Cannot find/.test(seen.stderr)) return // this clone is not for everybody to read
      refused(seen, /no home directory/, /SANDLOT_STATE_DIR/)
    },
  )

  test('the current directory any more: it is told, and nothing is started', async () => {
    const state = mkdtempSync(join(base, 'state-'))
    const seen = await start(['sh', '-c', 'mkdir gone; cd gone; rmdir ../gone; exec "$@"', 'sh', ...cli, 'run', '--', 'true'], {
      env: { SANDLOT_STATE_DIR: state },
    })
    refused(seen, /current directory/, /one that/)
    await leavesNothing(state)
  })
})

test('certificates for npm are read by no call', async () => {
  // A pipe that nobody writes to: whoever reads it waits for ever.
  const certificates = join(base, 'certificates.pem')
  execFileSync('mkfifo', [certificates])
  const { code, stdout, stderr } = await start(['timeout', '60', join(root, 'sandlot'), 'run', '--', 'cat', 'kept'], {
    env: { NODE_EXTRA_CA_CERTS: certificates },
  })
  assert.deepEqual([code, stdout.toString(), stderr], [0, 'as it was\n', ''])
})

// Root of the machine, or of a user namespace of its own.
const unshare = isRoot ? ['unshare', '-m'] : ['unshare', '-Urm']
const mounts = spawnSync(unshare[0]!, [...unshare.slice(1), 'sh', '-c', `mount -t tmpfs none /mnt`]).status === 0

describe('file systems', { skip: !mounts && 'none can be mounted here' }, () => {
  const inNamespace = (script: string, env: Options['env'] = {}): Promise<Ended> => start([...unshare, 'sh', '-c', script, 'sh', ...cli], { env })
  const mountPoint = (): string => mkdtempSync(join(base, 'mount-'))

  test('a state directory on a full disk is told, and which one it is', async () => {
    const at = mountPoint()
    for (const inodes of [1, 6]) {
      const seen = await inNamespace(`mount -t tmpfs -o nr_inodes=${inodes},mode=700 none ${at} && exec "$@" run -- true`, { SANDLOT_STATE_DIR: `${at}/state` })
      refused(seen, new RegExp(`${at}/state`), /free space|SANDLOT_STATE_DIR/)
    }
  })

  test('a cache on a full disk is told, and which one it is', async () => {
    const at = mountPoint()
    for (const options of ['nr_inodes=1', 'size=64k']) {
      const fill = '{ head -c 100000 /dev/zero > fill; } 2>/dev/null;'
      const script = `mount -t tmpfs -o ${options},mode=700 none ${at} && cd ${at} && { ${fill} cd ${project}; exec "$@" run -- true; }`
      refused(await inNamespace(script, { XDG_CACHE_HOME: at }), new RegExp(`no space .*${at}`), /XDG_CACHE_HOME/)
    }
  })

  test('a full state directory without anything to write into it is none of our business', async () => {
    const at = mountPoint()
    const script = `mount -t tmpfs -o size=64k,mode=700 none ${at} && { head -c 100000 /dev/zero > ${at}/fill; exec "$@" run -- cat kept; } 2>/dev/null`
    const { code, stdout } = await inNamespace(script, { SANDLOT_STATE_DIR: `${at}/state` })
    assert.deepEqual([code, stdout.toString()], [0, 'as it was\n'])
  })

  /** A place whose files lie on an overlay, as all of a container's do. */
  const onOverlay = (script: string): string => {
    const at = mountPoint()
    for (const name of ['lower', 'upper', 'work', 'merged']) mkdirSync(join(at, name))
    return `mount -t overlay -o lowerdir=${at}/lower,upperdir=${at}/upper,workdir=${at}/work none ${at}/merged && cd ${at}/merged && export SANDLOT_STATE_DIR=${at}/merged/state && mkdir here && cd here && { ${script}; }`
  }
  const overlays = (): boolean => spawnSync(unshare[0]!, [...unshare.slice(1), 'sh', '-c', onOverlay('true')]).status === 0

  describe('on an overlay', { skip: !(mounts && isRoot) && 'only root can make one that is like a container’s' }, () => {
    test('the current directory is read and written inside, and nothing of that is outside', async () => {
      assert.ok(overlays())
      const inside = 'cat f; echo new > f; cat f; echo more >> sub/g; cat sub/g; mv sub other; rm other/g; stat -c %U . f other'
      const seen = await inNamespace(onOverlay(`echo old > f; mkdir sub; echo deep > sub/g; "$@" run -- sh -c '${inside}'; echo $?; cat f sub/g`))
      assert.deepEqual([seen.stdout.toString(), seen.stderr], ['old\nnew\ndeep\nmore\nuser\nuser\nuser\n0\nold\ndeep\n', ''])
    })

    test('links are not followed and set-id bits do not come along', async () => {
      const inside = 'readlink l d; stat -c %a s; cat l'
      const seen = await inNamespace(onOverlay(`ln -s /etc/shadow l; ln -s / d; echo x > s; chmod 4755 s; mkfifo p; "$@" run -- sh -c '${inside}'`))
      assert.equal(seen.stdout.toString(), '/etc/shadow\n/\n755\n')
    })

    test('that it is a copy, and that writes are kept in memory, is in the report', async () => {
      const program = `
        const { createSandbox } = await import(${JSON.stringify(join(root, 'src/index.ts'))})
        await using sandbox = await createSandbox({ grants: [{ source: process.cwd(), access: 'overlay' }] })
        for (const { layer, reason } of (await sandbox.info()).report.missing) console.log(layer, reason)`
      writeFileSync(join(base, 'report.mjs'), program)
      const seen = await inNamespace(onOverlay(`echo x > f; "$1" ${base}/report.mjs`))
      assert.match(seen.stdout.toString(), /ids .*\/here is on overlayfs, which cannot map owners: what shows is a copy/, seen.stderr)
      assert.match(seen.stdout.toString(), /upper .*in memory/)
    })

    test('a directory too large to be copied is refused by name and size', async () => {
      const many = await inNamespace(onOverlay(`seq 20100 | xargs touch; exec "$@" run -- true`))
      refused(many, /more than 20,000 files in .*\/here \(overlayfs\)/, /smaller directory.*volume.*ordinary user/)
      const big = await inNamespace(onOverlay(`mkdir sub; truncate -s 300M sub/f; exec "$@" run -- true`))
      refused(big, /more than 256 MiB in .*\/here \(overlayfs\)/, /smaller directory/)
    })

    test('a directory cannot be written for real, and a file system that could is named', async () => {
      refused(await inNamespace(onOverlay(`exec "$@" run --write . -- true`)), /\/here \(overlayfs\)/, /ext4.*volume/)
    })
  })
})

describe('the way out of a refusal', () => {
  const host = (uid: number, files: { readonly [path: string]: string }): Host => ({ uid, files: new Map(Object.entries(files)) })
  const status = (seccomp: number, capabilities: string): string => `Name:\tx\nCapEff:\t${capabilities}\nSeccomp:\t${seccomp}\n`
  const masked = '1 0 0:1 / / rw - overlay overlay rw\n2 1 0:2 / /proc/kcore rw - tmpfs tmpfs rw\n'
  const denied = new SandlotError('userns.unavailable', 'no', { detail: { step: 'make a user namespace', errno: 1 } })

  test('of a container is everything that stands in the way, at once', () => {
    const docker = { '/.dockerenv': '', '/proc/self/mountinfo': masked, '/proc/self/status': status(2, '00000000a80425fb') }
    assert.equal(
      wayOut(denied, host(0, docker)),
      'add to docker run: --security-opt seccomp=unconfined --security-opt systempaths=unconfined --user 1000 (or --cap-add SYS_ADMIN)',
    )
    const ubuntu = { ...docker, '/proc/self/attr/current': 'docker-default (enforce)\n' }
    assert.match(wayOut(denied, host(1000, ubuntu))!, /seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined$/)
    assert.match(
      wayOut(denied, host(1000, { ...docker, '/.dockerenv': '', '/proc/self/status': status(0, '0') }))!,
      /run: --security-opt systempaths=unconfined$/,
    )
  })

  test('is a setting where one is at fault, and the covered place where /proc is', () => {
    assert.match(wayOut(denied, host(1000, { '/proc/sys/user/max_user_namespaces': '0\n' }))!, /max_user_namespaces=15000/)
    const proc = new SandlotError('mount.failed', 'no', { detail: { step: 'mount /proc: parts of it are covered', errno: 1 } })
    const covered = '1 0 0:1 / / rw - ext4 /dev/sda rw\n2 1 0:2 / /proc/kcore rw - tmpfs tmpfs rw\n'
    assert.match(wayOut(proc, host(1000, { '/proc/self/mountinfo': covered }))!, /\/proc\/kcore/)
  })

  test('is left to the error where nothing better is known', () => {
    assert.equal(wayOut(new SandlotError('grant.refused', 'no'), host(0, {})), undefined)
    assert.equal(wayOut(new SandlotError('mount.failed', 'no', { detail: { step: 'x', errno: 5 } }), host(0, { '/.dockerenv': '' })), undefined)
  })
})
