import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { type Check, diagnose, judge, lookAround, type Seen, type Trial } from '../../src/host/doctor.ts'
import { SandlotError } from '../../src/model/error.ts'

const base = realpathSync(mkdtempSync(join(tmpdir(), 'sandlot-doctor-')))
after(() => rmSync(base, { recursive: true, force: true }))

const V2 = '25 1 8:1 / / rw - ext4 /dev/sda rw\n30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n'
const files = (more: { readonly [path: string]: string } = {}): ReadonlyMap<string, string> =>
  new Map(
    Object.entries({
      '/etc/os-release': 'ID=debian\n',
      '/etc/subuid': 'me:100000:65536\n',
      '/etc/subgid': 'me:100000:65536\n',
      '/proc/filesystems': 'nodev\toverlay\n\text4\n',
      '/proc/self/mountinfo': V2,
      '/proc/sys/kernel/seccomp/actions_avail': 'kill allow\n',
      '/proc/sys/user/max_user_namespaces': '15000\n',
      '/sys/kernel/security/lsm': 'lockdown,landlock\n',
      '/sys/devices/system/cpu/smt/active': '0\n',
      '/sys/kernel/mm/ksm/run': '0\n',
      ...more,
    }),
  )
const healthy: Seen = {
  kernel: '6.12.3-amd64',
  node: '26.12.1',
  arch: 'x64',
  uid: 1000,
  user: 'me',
  state: { path: '/home/me/.local/state/sandlot', fileSystem: 'ext4', memoryUpper: false, freeBytes: 50e9 },
  native: { program: '/x/sandlot', compiler: '/usr/bin/cc' },
  files: files(),
  programs: new Map([
    ['newuidmap', '/usr/bin/newuidmap'],
    ['newgidmap', '/usr/bin/newgidmap'],
  ]),
  cgroupWritable: true,
}
const made: Trial = { made: true, identity: 'subordinate' }
const refused = (code: 'userns.unavailable' | 'mount.failed', message: string): Trial => ({ made: false, error: new SandlotError(code, message) })
const check = (name: string, seen: Partial<Seen>, trial: Trial | undefined = made): Check => {
  const found = judge({ ...healthy, ...seen }, trial).checks.find((each) => each.name === name)
  assert.ok(found, name)
  return found
}

test('a healthy host is ok, and what is not enforced yet is said all the same', () => {
  const { ok, checks } = judge(healthy, made)
  assert.equal(ok, true)
  assert.deepEqual(
    checks.filter(({ state }) => state !== 'ok').map(({ name }) => name),
    ['limits', 'Landlock'],
  )
})

test('AppArmor on Ubuntu, a sysctl at zero and root-only user namespaces are told apart, each with its setting', () => {
  const denied = refused('userns.unavailable', 'no')
  const apparmor = check('sandbox', { files: files({ '/proc/sys/kernel/apparmor_restrict_unprivileged_userns': '1\n' }) }, denied)
  assert.match(apparmor.fix!, /apparmor_restrict_unprivileged_userns=0/)
  assert.match(check('sandbox', { files: files({ '/proc/sys/user/max_user_namespaces': '0\n' }) }, denied).fix!, /max_user_namespaces=15000/)
  assert.match(check('sandbox', { files: files({ '/proc/sys/user/max_net_namespaces': '0\n' }) }, denied).fix!, /max_net_namespaces=15000/)
  assert.match(check('sandbox', { files: files({ '/proc/sys/kernel/unprivileged_userns_clone': '0\n' }) }, denied).fix!, /unprivileged_userns_clone=1/)
})

test('what holds for ordinary users only is not blamed on root', () => {
  const seen = { uid: 0, files: files({ '/proc/sys/kernel/apparmor_restrict_unprivileged_userns': '1\n' }) }
  assert.ok(!check('sandbox', seen, refused('mount.failed', 'no')).says.includes('AppArmor'))
})

test('a sandbox that works is proof, whatever the settings say', () => {
  assert.equal(check('sandbox', { files: files({ '/proc/sys/kernel/apparmor_restrict_unprivileged_userns': '1\n' }) }).state, 'ok')
})

test('in a container that keeps namespaces away the option of docker is named', () => {
  const seen = {
    files: files({
      '/.dockerenv': '',
      '/proc/self/status': 'Seccomp:\t2\n',
      '/proc/self/mountinfo': '1 0 0:1 / / rw - overlay overlay rw\n2 1 0:2 / /proc/kcore rw - tmpfs tmpfs rw\n',
    }),
  }
  const denied = refused('userns.unavailable', 'clone: EPERM')
  assert.match(check('sandbox', seen, denied).fix!, /docker run: --security-opt seccomp=unconfined --security-opt systempaths=unconfined$/)
  assert.equal(check('container', seen, denied).state, 'missing')
  assert.match(check('/proc', seen, denied).fix!, /systempaths=unconfined/)
  assert.equal(check('container', seen).state, 'ok')
})

test('without a program nothing was tried, and without a compiler there is no sandbox', () => {
  assert.match(judge({ ...healthy, native: { program: undefined, compiler: '/usr/bin/cc' } }, undefined).checks[0]!.says, /not tried/)
  const { ok, checks } = judge({ ...healthy, native: { program: undefined, compiler: undefined } }, undefined)
  assert.equal(ok, false)
  assert.match(checks.find(({ name }) => name === 'native program')!.fix!, /apt install gcc libc6-dev/)
})

test('ids: what was given counts, then what is set up; each lack has its remedy', () => {
  assert.equal(check('user ids', {}).state, 'ok')
  assert.equal(check('user ids', { uid: 0 }, { made: true, identity: 'range' }).state, 'ok')
  assert.match(check('user ids', { programs: new Map() }, { made: true, identity: 'single' }).fix!, /uidmap/)
  assert.match(check('user ids', { files: files({ '/etc/subuid': '' }) }, { made: true, identity: 'single' }).fix!, /--add-subuids/)
  assert.match(check('user ids', {}, { made: true, identity: 'single' }).fix!, /set-uid root/)
})

test('an old kernel, no seccomp and an unusable state directory fail; an overlay below the state directory is said', () => {
  assert.equal(check('kernel', { kernel: '4.19.0' }).state, 'failed')
  assert.equal(check('kernel', { kernel: '5.15.0', uid: 0 }).state, 'missing')
  assert.equal(check('kernel', { kernel: '5.15.0' }).state, 'ok')
  const without = new Map([...files()].filter(([path]) => !path.includes('seccomp')))
  assert.equal(check('seccomp', { files: without }).state, 'failed')
  assert.equal(check('state directory', { state: new SandlotError('state.unusable', 'it lies on nfs') }).state, 'failed')
  assert.match(check('state directory', { state: { path: '/s', fileSystem: 'overlay', memoryUpper: true, freeBytes: 50e9 } }).says, /in memory/)
  assert.equal(check('state directory', { state: { path: '/s', fileSystem: 'ext4', memoryUpper: false, freeBytes: 1e6 } }).state, 'failed')
})

test('cgroups: the layout is named, and whether we may make our own', () => {
  assert.match(check('cgroups', {}).says, /^v2, and we may make/)
  assert.match(check('cgroups', { cgroupWritable: false }).fix!, /Delegate=yes/)
  const hybrid = `${V2}31 25 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n`
  assert.match(check('cgroups', { files: files({ '/proc/self/mountinfo': hybrid }) }).says, /^hybrid/)
  assert.match(check('cgroups', { files: files({ '/proc/self/mountinfo': '' }) }).says, /none are mounted/)
})

test('pages that are merged across programs are named', () => {
  assert.match(check('side channels', { files: files({ '/sys/kernel/mm/ksm/run': '1\n' }) }).fix!, /ksm/)
})

test('looking at this very host takes well under a second, writes only where it may, and asks for the trial once', async () => {
  const home = join(base, 'home')
  mkdirSync(home)
  const start = performance.now()
  let tried = 0
  const tryOut = async (): Promise<Trial> => {
    tried++
    return made
  }
  const { checks } = await diagnose({ environment: { HOME: home, PATH: process.env['PATH'] }, prepare: async () => {}, tryOut })
  assert.ok(performance.now() - start < 1000)
  assert.ok(checks.length >= 10)
  assert.equal(tried, 0, 'there is no program in this home yet')
  assert.ok(lookAround({ HOME: home }).files.has('/proc/self/mountinfo'))
})

test('a state directory that cannot be had is a finding, not an exception', async () => {
  const { ok, checks } = await diagnose({ environment: { SANDLOT_STATE_DIR: '/proc/x', HOME: base }, prepare: async () => {}, tryOut: async () => made })
  assert.equal(ok, false)
  assert.equal(checks.find(({ name }) => name === 'state directory')?.state, 'failed')
})

test('where the native program cannot be had, sandboxes do not work here, and why is said', async () => {
  const prepare = (): Promise<never> => Promise.reject(new SandlotError('native.unavailable', 'there is no C compiler', { hint: 'install one' }))
  const { ok, checks } = await diagnose({ environment: { HOME: join(base, 'nobody'), PATH: '/usr/bin' }, prepare, tryOut: async () => made })
  assert.equal(ok, false)
  assert.deepEqual(
    checks.filter(({ name }) => name === 'native program').map(({ state, says, fix }) => [state, says, fix]),
    [['failed', 'there is no C compiler', 'install one']],
  )
})
