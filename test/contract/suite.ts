// What every driver must do, each meaning once. A driver's own test file calls `contract` with how to make an engine on it.
// Real programs of the host's /usr are what runs inside; the oracle is what the caller sees, or the host, never the guest's word alone.

import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import type { Engine, Exec, RunResult, Sandbox } from '../../src/index.ts'
import { isSandlotError } from '../../src/model/error.ts'
import { exitCode } from '../../src/model/outcome.ts'

const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString()
const sh = (script: string): string[] => ['/bin/sh', '-c', script]
const code = (expected: string) => (error: unknown) => isSandlotError(error) && error.code === expected

export const contract = (name: string, makeEngine: () => Engine): void => {
  describe(`${name} keeps the contract`, () => {
    const engine = makeEngine()
    let shared: Promise<Sandbox> | undefined
    const box = (): Promise<Sandbox> => (shared ??= engine.create({}))
    const scratch = mkdtempSync(join(tmpdir(), 'sandlot-contract-'))
    after(async () => {
      await engine.close()
      rmSync(scratch, { recursive: true, force: true })
    })

    const run = async (argv: readonly string[], options: Parameters<Sandbox['run']>[1] = {}): Promise<RunResult> => (await box()).run(argv, options)
    const out = async (script: string, options: Parameters<Sandbox['run']>[1] = {}): Promise<string> => {
      const result = await run(sh(script), options)
      assert.equal(exitCode(result.outcome), 0, `${script}: ${text(result.stderr)}`)
      return text(result.stdout).trimEnd()
    }
    const read = async (exec: Exec, from = 0): Promise<string> => {
      let all = ''
      for await (const event of exec.output({ from })) if (event.kind === 'data') all += text(event.bytes)
      return all
    }

    describe('outcomes', () => {
      test('an exit code is the outcome, not an error', async () => {
        for (const value of [0, 1, 42, 255]) {
          const { outcome } = await run(sh(`exit ${value}`))
          assert.equal(outcome.kind === 'exited' && outcome.code, value)
        }
      })
      test('a signal is the outcome and counts as 128+n', async () => {
        for (const [signal, expected] of [
          ['SEGV', 139],
          ['TERM', 143],
          ['KILL', 137],
        ] as const) {
          const { outcome } = await run(sh(`kill -${signal} $$`))
          assert.equal(outcome.kind, 'signalled')
          assert.equal(exitCode(outcome), expected)
        }
      })
      test('an absent program is an outcome that counts as 127', async () => {
        for (const program of ['no-such-program', '/no/such/program']) {
          const { outcome } = await run([program])
          assert.equal(outcome.kind === 'unstarted' && outcome.reason, 'not_found')
          assert.equal(exitCode(outcome), 127)
        }
      })
      test('a file that cannot be executed is an outcome that counts as 126', async () => {
        assert.equal(exitCode((await run(['/etc/passwd'])).outcome), 126)
        assert.equal(exitCode((await run(['/usr'])).outcome), 126)
      })
      test('a script whose interpreter is missing counts as 127', async () => {
        await out(`printf '#!/no/such/interpreter\\n' > /tmp/script && chmod +x /tmp/script`)
        assert.equal(exitCode((await run(['/tmp/script'])).outcome), 127)
      })
      test('a script without a first line is run by the shell, as execvp does', async () => {
        await out(`echo 'echo from the shell' > /tmp/bare && chmod +x /tmp/bare`)
        assert.equal(text((await run(['/tmp/bare'])).stdout), 'from the shell\n')
      })
      test('a working directory that does not exist is an outcome of its own', async () => {
        const { outcome } = await run(['true'], { cwd: '/no/such/directory' })
        assert.equal(outcome.kind === 'unstarted' && outcome.reason, 'no_cwd')
      })
      test('10 MB of arguments is the kernel’s refusal, and the sandbox lives on', async () => {
        const { outcome } = await run(['/bin/true', ...Array.from({ length: 100 }, () => 'x'.repeat(100_000))])
        assert.equal(outcome.kind === 'unstarted' && outcome.reason, 'too_large')
        assert.equal(exitCode(outcome), 126)
        assert.equal(await out('echo alive'), 'alive')
      })
      test('an argument or variable with a NUL byte is refused before anything starts', async () => {
        await assert.rejects(run(['echo', 'a\0b']), code('argument.invalid'))
        await assert.rejects(run(['true'], { env: { NAME: 'a\0b' } }), code('argument.invalid'))
        await assert.rejects(run(['true'], { env: { 'A=B': 'c' } }), code('argument.invalid'))
        await assert.rejects(run([]), code('argument.invalid'))
      })
      test('usage of cpu and memory comes with the outcome', async () => {
        const { outcome } = await run(sh('i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'))
        assert.ok(outcome.kind === 'exited' && outcome.usage.userUs > 10_000 && outcome.usage.peakBytes > 500_000, JSON.stringify(outcome))
      })
    })

    describe('output', () => {
      test('bytes survive: invalid UTF-8, NUL, no newline at the end', async () => {
        const { stdout } = await run(sh(`printf '\\377\\000\\376 no newline'`))
        assert.deepEqual([...stdout], [0xff, 0, 0xfe, ...Buffer.from(' no newline')])
      })
      test('stdout and stderr are told apart, or merged in order when asked', async () => {
        const apart = await run(sh('echo one; echo two >&2'))
        assert.deepEqual([text(apart.stdout), text(apart.stderr)], ['one\n', 'two\n'])
        const merged = await run(sh('echo one; echo two >&2; echo three'), { merge: true })
        assert.deepEqual([text(merged.stdout), text(merged.stderr)], ['one\ntwo\nthree\n', ''])
      })
      test('several readers, from any byte, during and after, see the same bytes', async () => {
        const exec = await (await box()).exec(sh('for i in 1 2 3 4 5 6 7 8 9; do echo line $i; sleep 0.02; done'))
        const expected = Array.from({ length: 9 }, (_, i) => `line ${i + 1}\n`).join('')
        const during = await Promise.all([read(exec), read(exec, 3), read(exec, 20)])
        assert.deepEqual(during, [expected, expected.slice(3), expected.slice(20)])
        assert.equal(await read(exec, 40), expected.slice(40))
      })
      test('the events of an exec that is over: data in order of offsets, exit once, end last', async () => {
        const exec = await (await box()).exec(sh('echo a; echo b >&2; exit 3'))
        await exec.wait()
        const events = []
        for await (const event of exec.output()) events.push(event)
        assert.equal(events.filter((event) => event.kind === 'exit').length, 1)
        const last = events.at(-1)
        assert.ok(last?.kind === 'end' && last.outcome.kind === 'exited' && last.outcome.code === 3)
        let at = 0
        for (const event of events) {
          assert.equal(event.offset, at)
          if (event.kind === 'data') at += event.bytes.length
        }
      })
      test('64 MiB arrive whole', async () => {
        const { stdout } = await run(sh('head -c 67108864 /dev/zero | tr "\\0" x'), { maxOutputBytes: 100 << 20 })
        assert.equal(stdout.length, 64 << 20)
        assert.ok(stdout.every((byte) => byte === 0x78))
      })
      test('with `drop` the oldest bytes go and reading them answers output.gone with the first kept byte', async () => {
        const exec = await (await box()).exec(sh('head -c 4000000 /dev/zero'), { overflow: 'drop', logBytes: 1 << 20 })
        await exec.wait()
        const { outputFirst, outputBytes } = await exec.info()
        assert.equal(outputBytes, 4_000_000)
        assert.ok(outputFirst > 0)
        await assert.rejects(read(exec), (error) => isSandlotError(error) && error.code === 'output.gone' && error.detail['first'] === outputFirst)
        assert.equal((await read(exec, outputFirst)).length, outputBytes - outputFirst)
      })
      test('with `hold` a producer waits for its slowest reader and loses nothing', async () => {
        const exec = await (await box()).exec(sh('seq 1 400000'), { overflow: 'hold', logBytes: 1 << 18, reserveReader: true })
        const reader = exec.output()
        const first = await reader.next()
        assert.equal(first.value?.kind, 'data')
        // The producer has nowhere to go: it is still alive although its output would have taken no time.
        const { state, outputBytes } = await exec.info()
        assert.equal(state, 'running')
        assert.ok(outputBytes <= (1 << 18) + (1 << 18), `${outputBytes} bytes were taken`)
        const hash = createHash('sha256').update((first.value as { bytes: Uint8Array }).bytes)
        for await (const event of reader) if (event.kind === 'data') hash.update(event.bytes)
        const expected = createHash('sha256')
        for (let i = 1; i <= 400_000; i++) expected.update(`${i}\n`)
        assert.equal(hash.digest('hex'), expected.digest('hex'))
      })
    })

    describe('stdin', () => {
      test('300 kB of random bytes through cat come back equal', async () => {
        const input = randomBytes(300_000)
        const { stdout } = await run(['cat'], { stdin: input })
        assert.ok(Buffer.from(stdout).equals(input))
      })
      test('8 MiB into a slow reader arrive whole', async () => {
        const input = randomBytes(8 << 20)
        const { stdout } = await run(sh('sleep 0.2; sha256sum'), { stdin: input })
        assert.equal(text(stdout).slice(0, 64), createHash('sha256').update(input).digest('hex'))
      })
      test('without stdin a command reads an end at once', async () => {
        assert.equal(await out('wc -c'), '0')
      })
      test('stdin stays open until it is closed', async () => {
        const exec = await (await box()).exec(['cat'], { stdin: 'pipe' })
        await exec.write('one ')
        await exec.write('two')
        await exec.closeInput()
        assert.equal(await read(exec), 'one two')
        await assert.rejects(exec.write('three'), code('exec.stdin_closed'))
      })
      test('a command that does not read its stdin ends all the same', async () => {
        const { outcome, stdout } = await run(sh('head -c 3; exec true'), { stdin: randomBytes(4 << 20) })
        assert.equal(exitCode(outcome), 0)
        assert.equal(stdout.length, 3)
      })
    })

    describe('the process', () => {
      test('its environment is the allow-list and what was asked for', async () => {
        process.env['SANDLOT_TEST_SECRET'] = 'do not show'
        try {
          const fresh = await engine.create({ env: { ASKED: 'box' } })
          const { stdout } = await fresh.run(['env'], { env: { MORE: 'exec' } })
          const names = text(stdout)
            .trim()
            .split('\n')
            .map((line) => line.split('=')[0]!)
          assert.ok(names.includes('ASKED') && names.includes('MORE') && names.includes('PATH') && names.includes('HOME'))
          assert.ok(!text(stdout).includes('SANDLOT_TEST_SECRET'))
          const allowed =
            /^(PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_[A-Z]+|TZ|TERM|COLORTERM|NO_COLOR|PWD|TMPDIR|ASKED|MORE|[A-Z]+_HOME|[A-Z]+_ROOT|[A-Z]+_DIR|[A-Z]+_INSTALL|GOROOT|[A-Z_]*(CERT|CA)_?[A-Z]*_?(FILE|DIR|INFO|BUNDLE|CAINFO)|CURL_CA_BUNDLE|_)$/
          assert.deepEqual(
            names.filter((each) => !allowed.test(each)),
            [],
          )
          await fresh.destroy()
        } finally {
          delete process.env['SANDLOT_TEST_SECRET']
        }
      })
      test('it runs as `user`, in its home, with a umask of 022', async () => {
        assert.equal(await out('id -un; id -u; id -g; pwd; echo $HOME; umask'), 'user\n1000\n1000\n/home/user\n/home/user\n0022')
      })
      test('a working directory is where it was asked to be', async () => {
        assert.equal(text((await run(['pwd'], { cwd: '/usr/bin' })).stdout), '/usr/bin\n')
      })
      test('it sees no process but its own sandbox’s', async () => {
        const pids = await out('ls /proc | grep -E "^[0-9]+$" | wc -l')
        assert.ok(Number(pids) < 20, `${pids} processes`)
        assert.equal(await out(`ls /proc/${process.pid}/status 2>/dev/null || echo none`), 'none')
      })
      test('it leads a session of its own and has no terminal', async () => {
        assert.equal(await out('cut -d" " -f1,6,7 /proc/self/stat | sed "s/ .*//" >/dev/null; (exec 3</dev/tty) 2>/dev/null && echo tty || echo none'), 'none')
        const [pid, session, terminal] = (await out('read -r a < /proc/$$/stat; set -- $a; echo $1 $6 $7')).split(' ')
        assert.deepEqual([session, terminal], [pid, '0'])
      })
      test('it has descriptors 0, 1 and 2 and no other', async () => {
        assert.equal(await out('ls /proc/$$/fd; true'), '0\n1\n2')
      })
      test('it has no capability, cannot gain one and runs under the filter', async () => {
        const status = await out('grep -E "^(Cap...|NoNewPrivs|Seccomp):" /proc/self/status')
        for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb']) assert.match(status, new RegExp(`${set}:\\s+0000000000000000`))
        assert.match(status, /NoNewPrivs:\s+1/)
        assert.match(status, /Seccomp:\s+2/)
      })
      test('it cannot read what PID 1 is made of', async () => {
        for (const file of ['environ', 'mem', 'maps', 'exe'])
          assert.equal(await out(`(cat /proc/1/${file} >/dev/null) 2>/dev/null && echo readable || echo no`), 'no', file)
        for (const directory of ['root', 'cwd', 'fd'])
          assert.equal(await out(`ls /proc/1/${directory}/ >/dev/null 2>&1 && echo readable || echo no`), 'no', directory)
      })
      test('its host name is the sandbox’s', async () => {
        assert.equal(await out('cat /proc/sys/kernel/hostname'), 'sandlot')
        assert.notEqual(hostname(), 'sandlot')
      })
    })

    describe('the fence', () => {
      test('the network is loopback, up, and nothing else', async () => {
        assert.equal(await out('tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d " "'), 'lo')
        const answer = await out(`python3 -c '
import socket, threading
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen()
c = socket.create_connection(s.getsockname(), 2); print("loopback")
try:
    socket.create_connection(("198.51.100.1", 80), 2); print("outside")
except OSError as e: print("unreachable")'`)
        assert.equal(answer, 'loopback\nunreachable')
      })
      test('nobody can write settings through /proc, uid 0 inside included', async () => {
        const files = [
          'kernel/core_pattern',
          'kernel/hostname',
          'vm/overcommit_memory',
          'net/ipv4/ip_forward',
          'net/core/somaxconn',
          'user/max_user_namespaces',
          'kernel/shmmax',
          'fs/mqueue/msg_max',
          'kernel/ns_last_pid',
        ]
        // Opened for writing and closed, never written.
        const script = `import os
for f in ${JSON.stringify([...files.map((file) => `/proc/sys/${file}`), '/proc/sysrq-trigger', '/proc/irq/default_smp_affinity', '/proc/scsi/scsi', '/proc/acpi/wakeup'])}:
    if not os.path.exists(f): continue
    try: os.close(os.open(f, os.O_WRONLY | os.O_CLOEXEC)); print("open", f)
    except OSError as e: pass
print("done")`
        for (const user of (await engine.capabilities()).users ? ['user', 'root'] : ['user']) {
          const result = await run(['python3', '-c', script], { user })
          assert.equal(text(result.stdout), 'done\n', text(result.stderr))
        }
      })
      test('there is no /sys, and /dev is the short list', async () => {
        assert.equal(await out('ls -A /sys 2>/dev/null | wc -l'), '0')
        const allowed = ['core', 'fd', 'full', 'mqueue', 'null', 'ptmx', 'pts', 'random', 'shm', 'stderr', 'stdin', 'stdout', 'tty', 'urandom', 'zero']
        const listed = (await out('ls /dev')).split('\n')
        assert.deepEqual(
          listed.filter((each) => !allowed.includes(each)),
          [],
        )
        assert.equal(await out('echo x > /dev/null; head -c 2 /dev/zero | wc -c; head -c 4 /dev/urandom | wc -c'), '2\n4')
      })
      test('no file of the host’s is there that was not shown', async () => {
        const canary = join(scratch, 'canary')
        writeFileSync(canary, 'CANARY')
        for (const path of [
          canary,
          `/proc/1/root${canary}`,
          `/proc/self/root${canary}`,
          `/usr/../..${canary}`,
          '/etc/shadow',
          '/root/.bashrc',
          '/var/log/dpkg.log',
        ]) {
          assert.equal(await out(`cat ${path} 2>/dev/null | wc -c`), '0', path)
        }
      })
      test('namespaces and mounts are refused', async () => {
        for (const command of ['unshare -Ur true', 'unshare -m true', 'mount -t tmpfs none /tmp', 'chroot / true', 'nsenter -t 1 -m true']) {
          assert.equal(await out(`${command} >/dev/null 2>&1 && echo done || echo refused`), 'refused', command)
        }
      })
      test('/usr cannot be written, by uid 0 inside either', async () => {
        for (const user of (await engine.capabilities()).users ? ['user', 'root'] : ['user']) {
          assert.equal(await out('(echo x > /usr/bin/sandlot-canary) 2>/dev/null && echo written || echo refused', { user }), 'refused')
        }
        assert.ok(!existsSync('/usr/bin/sandlot-canary'))
      })
      test('a key of the caller’s session keyring is out of reach', async () => {
        assert.match(await out('cat /proc/keys 2>/dev/null | wc -l'), /^0$/)
      })
    })

    describe('directories of the host', () => {
      const project = (label: string): string => {
        const directory = join(scratch, label)
        mkdirSync(directory)
        writeFileSync(join(directory, 'file'), 'host\n')
        return directory
      }
      test('a read grant shows and does not let write', async () => {
        const source = project('read')
        const fresh = await engine.create({ grants: [{ source, access: 'read' }] })
        const { stdout } = await fresh.run(sh(`cat ${source}/file; (echo x > ${source}/new) 2>/dev/null || echo refused`))
        assert.equal(text(stdout), 'host\nrefused\n')
        assert.ok(!existsSync(join(source, 'new')))
        await fresh.destroy()
      })
      test('a write grant is real, and what it makes belongs to the owner of the directory', async () => {
        const source = project('write')
        const fresh = await engine.create({ grants: [{ source, target: '/work', access: 'write' }] })
        const { outcome, stderr } = await fresh.run(
          sh('echo inside >> /work/file && mkdir /work/sub && echo new > /work/sub/new && stat -c %U /work/file /work/sub/new'),
        )
        assert.equal(exitCode(outcome), 0, text(stderr))
        await fresh.destroy()
        assert.equal(readFileSync(join(source, 'file'), 'utf8'), 'host\ninside\n')
        assert.equal(readFileSync(join(source, 'sub/new'), 'utf8'), 'new\n')
        assert.equal(statSync(join(source, 'sub/new')).uid, statSync(source).uid)
      })
      test('an overlay keeps writes aside, counts them and drops them', async () => {
        const source = project('overlay')
        const fresh = await engine.create({ grants: [{ source, access: 'overlay' }], cwd: source })
        const { stdout, stderr } = await fresh.run(sh('echo more >> file && echo new > new && cat file && stat -c %U file .'))
        assert.equal(text(stdout), 'host\nmore\nuser\nuser\n', text(stderr))
        const changed = (await fresh.changes()).overlays.filter((overlay) => overlay.name !== 'root')
        assert.deepEqual(
          changed.map((overlay) => overlay.files),
          [2],
        )
        await fresh.destroy()
        assert.equal(readFileSync(join(source, 'file'), 'utf8'), 'host\n')
        assert.ok(!existsSync(join(source, 'new')))
      })
      test('a link is not granted for writing: a command inside may have made it', async () => {
        const source = project('linked')
        const link = join(scratch, 'link')
        symlinkSync(source, link)
        await assert.rejects(engine.create({ grants: [{ source: link, access: 'write' }] }), code('grant.refused'))
        const fresh = await engine.create({ grants: [{ source: link, access: 'read' }] })
        assert.equal(text((await fresh.run(['cat', join(link, 'file')])).stdout), 'host\n')
        await fresh.destroy()
      })
      test('an access that is none, or an option that does not exist, is refused: nothing is opened by mistake', async () => {
        const source = project('misspelt')
        for (const access of ['ro', 'rw', 'Write', undefined]) {
          await assert.rejects(engine.create({ grants: [{ source, access: access as 'read' }] }), code('argument.invalid'))
        }
        await assert.rejects(engine.create({ network: true } as object), code('argument.unknown'))
        await assert.rejects(run(['true'], { timeout: 5 } as object), code('argument.unknown'))
      })
      test('without a directory of their own commands start in the first one granted', async () => {
        const source = project('first')
        const fresh = await engine.create({ grants: [{ source, access: 'read' }] })
        assert.equal(text((await fresh.run(['pwd'])).stdout), `${source}\n`)
        await fresh.destroy()
      })
      test('a directory that is not there is refused by name', async () => {
        await assert.rejects(engine.create({ grants: [{ source: join(scratch, 'absent'), access: 'read' }] }), code('grant.not_found'))
      })
      test('the root of the host, its system directories and sandlot’s own are not granted', async () => {
        for (const source of ['/', '/proc', '/sys', '/dev', '/etc', engine.stateDirectory]) {
          await assert.rejects(engine.create({ grants: [{ source, access: 'write' }] }), code('grant.refused'), source)
        }
      })
    })

    describe('trees and time', () => {
      const marked = (marker: string): string[] => {
        // Seen from the host: any process whose command line has the marker.
        const found: string[] = []
        for (const pid of readPids()) {
          try {
            if (readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(marker)) found.push(pid)
          } catch {}
        }
        return found
      }
      const readPids = (): string[] => readdirSync('/proc').filter((each) => /^\d+$/.test(each) && each !== String(process.pid))

      test('a deadline ends the whole tree and counts as 124', async () => {
        const { outcome } = await run(sh('sleep 1000 & sleep 1000'), { timeoutMs: 100 })
        assert.equal(outcome.kind, 'timeout')
        assert.equal(exitCode(outcome), 124)
      })
      for (const [what, script] of [
        ['that ignores SIGTERM', 'trap "" TERM; sleep MARK & wait'],
        ['that forks away twice', '(sleep MARK & ) & (setsid sh -c "sleep MARK & sleep MARK" & ) ; sleep MARK'],
        ['that stops itself', 'sleep MARK & kill -STOP $$'],
        ['that leaves with setsid', 'setsid sleep MARK & exec sleep MARK'],
      ] as const) {
        test(`a tree ${what} does not outlive its deadline`, async () => {
          const mark = `10${Math.floor(Math.random() * 1e9)}`
          const exec = await (await box()).exec(sh(script.replaceAll('MARK', mark)), { timeoutMs: 300 })
          assert.equal((await exec.wait()).kind, 'timeout')
          await exec.ended()
          assert.deepEqual(marked(mark), [])
        })
      }
      test('a chain that forks faster than a scan does not outlive being ended', async () => {
        const mark = `sandlot-chain-${Math.floor(Math.random() * 1e9)}`
        const script = `import os, sys
while True:
    if os.fork(): os._exit(0)
    os.setsid()`
        const exec = await (await box()).exec(['python3', '-c', script, mark])
        await exec.wait()
        assert.ok((await exec.info()).state === 'exited')
        await exec.end()
        assert.equal((await exec.info()).state, 'ended')
        assert.deepEqual(marked(mark), [])
        assert.equal(await out('echo alive'), 'alive')
      })
      test('what the first process leaves behind lives on, is listed and can be ended', async () => {
        const mark = `20${Math.floor(Math.random() * 1e9)}`
        const exec = await (await box()).exec(sh(`sleep ${mark} & echo started`))
        assert.equal(exitCode(await exec.wait()), 0)
        assert.equal((await exec.info()).state, 'exited')
        assert.equal(marked(mark).length, 1)
        assert.ok((await (await box()).execs()).some((each) => each.id === exec.id && each.state === 'exited'))
        await exec.end()
        assert.deepEqual(marked(mark), [])
      })
      test('a background process that holds stdout does not delay the exit', async () => {
        const exec = await (await box()).exec(sh('sleep 1000 & echo early'))
        const events = []
        for await (const event of exec.output()) {
          events.push(event)
          if (event.kind === 'exit') break
        }
        assert.deepEqual(
          events.map((event) => event.kind),
          ['data', 'exit'],
        )
        await exec.end()
      })
      test('a signal reaches the first process, or the whole tree when asked', async () => {
        const exec = await (await box()).exec(sh('trap "echo got it; exit 7" USR1; echo ready; while :; do sleep 0.01; done'))
        for await (const event of exec.output()) if (event.kind === 'data') break
        await exec.signal('SIGUSR1')
        assert.equal(exitCode(await exec.wait()), 7)
        const tree = await (await box()).exec(sh('sleep 1000 & sleep 1000'))
        await tree.signal('SIGTERM', { tree: true })
        assert.equal(exitCode(await tree.wait()), 143)
        await tree.ended()
      })
      test('a deadline beyond what a timer of Node holds is no deadline for now', async () => {
        const { outcome } = await run(['true'], { timeoutMs: 10 ** 12 })
        assert.equal(outcome.kind, 'exited')
      })
      test('cancelling ends the tree and says so', async () => {
        const exec = await (await box()).exec(sh('sleep 1000 & sleep 1000'))
        await exec.end()
        assert.equal((await exec.wait()).kind, 'cancelled')
      })
      test('a hundred commands at once all answer', async () => {
        const results = await Promise.all(Array.from({ length: 100 }, (_, i) => run(sh(`echo ${i}; exit ${i}`))))
        for (const [i, result] of results.entries()) assert.deepEqual([text(result.stdout), exitCode(result.outcome)], [`${i}\n`, i])
      })
    })

    describe('lifecycle', () => {
      test('sandboxes do not see each other', async () => {
        const [a, b] = await Promise.all([engine.create({}), engine.create({})])
        await a.run(sh('echo secret > /tmp/note; echo secret > /dev/shm/note; echo secret > ~/note'))
        const { stdout } = await b.run(sh('cat /tmp/note /dev/shm/note ~/note 2>/dev/null | wc -l'))
        assert.equal(text(stdout).trim(), '0')
        await Promise.all([a.destroy(), b.destroy()])
      })
      test('what one command writes the next one reads', async () => {
        await out('echo kept > ~/kept')
        assert.equal(await out('cat ~/kept'), 'kept')
      })
      test('get and list know it; after destroy nobody does, and its commands are lost', async () => {
        const fresh = await engine.create({ labels: { job: 'x' } })
        assert.deepEqual((await fresh.info()).labels, { job: 'x' })
        assert.ok((await engine.list()).some((each) => each.id === fresh.id))
        const exec = await fresh.exec(['sleep', '1000'])
        await Promise.all([fresh.destroy(), fresh.destroy()])
        assert.equal((await exec.wait()).kind, 'lost')
        await assert.rejects(fresh.run(['true']), code('sandbox.not_found'))
        await assert.rejects(engine.get(fresh.id), code('sandbox.not_found'))
        assert.ok(!(await engine.list()).some((each) => each.id === fresh.id))
      })
      test('a time-to-live ends it', async () => {
        const fresh = await engine.create({ ttlMs: 150 })
        const exec = await fresh.exec(['sleep', '1000'])
        assert.equal((await exec.wait()).kind, 'lost')
        await assert.rejects(fresh.run(['true']), (error) => isSandlotError(error) && ['sandbox.lost', 'sandbox.not_found'].includes(error.code))
      })
      test('the report names the layers that hold and those that are missing', async () => {
        const { report } = await (await box()).info()
        assert.ok(report.enforced.some((each) => each.layer === 'user namespace') && report.enforced.some((each) => each.layer === 'seccomp'))
        assert.ok(report.missing.some((each) => each.layer === 'limits'))
      })
    })

    describe('root `dir`', () => {
      test('the directory is the root, writes go aside, the directory stays as it was', async (t) => {
        if (!existsSync('/bin/busybox')) return t.skip('busybox-static is not installed')
        const root = join(scratch, 'rootfs')
        mkdirSync(join(root, 'bin'), { recursive: true })
        mkdirSync(join(root, 'tmp'))
        chmodSync(join(root, 'tmp'), 0o1777)
        writeFileSync(join(root, 'bin/busybox'), readFileSync('/bin/busybox'), { mode: 0o755 })
        const fresh = await engine.create({ root: { dir: root } })
        const { outcome, stdout, stderr } = await fresh.run(['/bin/busybox', 'sh', '-c', 'echo new > /tmp/new && /bin/busybox ls / && /bin/busybox id -u'])
        assert.equal(exitCode(outcome), 0, text(stderr))
        assert.deepEqual(text(stdout).trim().split('\n'), ['bin', 'dev', 'proc', 'tmp', '1000'])
        await fresh.destroy()
        assert.deepEqual(readdirSync(root), ['bin', 'tmp'])
        assert.deepEqual(readdirSync(join(root, 'tmp')), [])
      })
    })
  })
}
