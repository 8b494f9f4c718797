// What `run` does with streams, signals and outcomes, over a stand-in for the engine. What a sandbox does is tested where the real one is.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { begin, ended, run, runShell } from '../fixture/cli.ts'

const folder = mkdtempSync(join(tmpdir(), 'sandlot-run-'))
after(() => rmSync(folder, { recursive: true }))
let files = 0
const fresh = (): string => join(folder, `file${files++}`)

const usage = { userUs: 0, systemUs: 0, peakBytes: 0 }
const within = async <T>(ms: number, what: Promise<T>): Promise<T> => {
  const timer = new AbortController()
  const late = sleep(ms, undefined, { signal: timer.signal }).then(
    () => assert.fail(`not done after ${ms} ms`),
    () => assert.fail(),
  )
  try {
    return await Promise.race([what, late])
  } finally {
    timer.abort()
  }
}

describe('the bytes of a command', () => {
  const bytes = randomBytes(300_000)

  it('pass through exactly, stdin from a socket to stdout on a socket', async () => {
    const { code, stdout, stderr } = await run(['run', '--', 'cat'], { stdin: bytes })
    assert.deepEqual([code, stderr, stdout.equals(bytes)], [0, '', true])
  })

  it('pass through exactly, from pipe to pipe and from file to file', async () => {
    const [from, to] = [fresh(), fresh()]
    writeFileSync(from, bytes)
    const piped = await runShell(`cat ${from} | $SANDLOT run -- cat | cat`)
    assert.deepEqual([piped.code, piped.stderr, piped.stdout.equals(bytes)], [0, '', true])
    await runShell(`printf begin > ${to}; $SANDLOT run -- cat < ${from} >> ${to}; printf end >> ${to}`)
    assert.ok(readFileSync(to).equals(Buffer.concat([Buffer.from('begin'), bytes, Buffer.from('end')])))
  })

  it('stay apart, stdout and stderr, and in order where both are one', async () => {
    const apart = await run(['run', '--', 'sh', '-c', 'printf out; printf err >&2'])
    assert.deepEqual([apart.stdout.toString(), apart.stderr], ['out', 'err'])
    const script = 'for i in 1 2 3 4 5; do echo $i; sleep 0.02; echo $i >&2; sleep 0.02; done'
    const together = await runShell(`$SANDLOT run -- sh -c '${script}' 2>&1 | cat`)
    assert.equal(together.stdout.toString(), '1\n1\n2\n2\n3\n3\n4\n4\n5\n5\n')
  })

  it('are all there when a slow reader takes them', async () => {
    const { stdout } = await runShell(`$SANDLOT run -- seq 1 300000 | (sleep 0.5; cat)`)
    assert.equal(stdout.toString(), `${Array.from({ length: 300_000 }, (_, at) => at + 1).join('\n')}\n`)
  })

  it('are not taken from the command faster than the reader takes them', async () => {
    const child = begin(['run', '--', 'sh', '-c', 'yes | head -c 100000000'])
    const before = Date.now()
    await sleep(1000)
    const rss = Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1])
    assert.ok(rss < 200_000, `${rss} kB resident while nobody reads`)
    let total = 0
    child.stdout!.on('data', (chunk: Buffer) => (total += chunk.length))
    await new Promise((done) => child.once('close', done))
    assert.equal(total, 100_000_000)
    assert.ok(Date.now() - before < 20_000)
  })

  it('that are written without a newline, or never, are no trouble', async () => {
    assert.equal((await run(['run', '--', 'printf', 'x'])).stdout.toString(), 'x')
    assert.equal((await run(['run', '--', 'true'])).stdout.length, 0)
  })

  it('leave a shared pipe as it was: what else writes to it is not told to try again', async () => {
    const { stdout, stderr } = await runShell(`($SANDLOT run -- seq 1 50000 & head -c 3000000 /dev/zero; wait) | (sleep 0.7; wc -c)`)
    assert.deepEqual([stdout.toString().trim(), stderr], [String(3_000_000 + 288_894), ''])
  })
})

describe('a reader that goes away', () => {
  it('ends the command quietly, as SIGPIPE would', async () => {
    const { code, stdout, stderr } = await within(5000, runShell(`{ $SANDLOT run -- yes; echo $? >&2; } | head -n 1`))
    assert.deepEqual([code, stdout.toString(), stderr], [0, 'y\n', '141\n'])
  })

  it('is told from a place without room, which is said', async () => {
    const { code, stderr } = await within(5000, runShell(`$SANDLOT run -- yes > /dev/full`))
    assert.equal(code, 125)
    assert.match(stderr, /^sandlot: the output cannot be written: ENOSPC: .*\n {2}hint: .*\n$/)
  })

  it('of help is no error either', async () => {
    const { stderr } = await within(5000, runShell(`{ sleep 0.2; $SANDLOT run --help; echo $? >&2; } | true`))
    assert.equal(stderr, '141\n')
  })
})

describe('stdin', () => {
  it('that never ends does not keep a command that is over', async () => {
    const socket = begin(['run', '--', 'true'])
    assert.equal((await within(5000, ended(socket))).code, 0)
    const name = fresh()
    execFileSync('mkfifo', [name])
    const pipe = openSync(name, 'r+')
    try {
      const child = begin(['run', '--', 'true'], { stdio: [pipe, 'pipe', 'pipe'] })
      assert.equal((await within(5000, ended(child))).code, 0)
    } finally {
      closeSync(pipe)
    }
  })

  it('that is closed, empty or /dev/null is nothing to read', async () => {
    for (const how of ['<&-', '</dev/null', `< ${writeEmpty()}`]) {
      const { code, stdout } = await within(5000, runShell(`$SANDLOT run -- sh -c 'cat; echo over' ${how}`))
      assert.deepEqual([code, stdout.toString()], [0, 'over\n'], how)
    }
  })

  it('is not opened for the command where there is none', async () => {
    const log = fresh()
    await runShell(`$SANDLOT run -- true </dev/null`, { orders: { log } })
    await runShell(`echo x | $SANDLOT run -- cat`, { orders: { log } })
    assert.deepEqual(
      lines(log, 'start').map((input) => (JSON.parse(input) as { stdin: string }).stdin),
      ['none', 'pipe'],
    )
  })

  it('that nobody in the command reads is not read further than the command takes', async () => {
    const log = fresh()
    const { stdout } = await within(10_000, runShell(`yes | head -c 50000000 | { $SANDLOT run -- sleep 1; wc -c; }`, { orders: { log } }))
    const taken = lines(log, 'input').reduce((sum, count) => sum + Number(count), 0)
    assert.ok(taken < 1_000_000, `${taken} bytes were taken for a command that reads none`)
    assert.ok(Number(stdout.toString()) > 40_000_000)
  })

  it('that the command closes is closed for its writer at once, not at the end', async () => {
    const { stderr } = await within(9000, runShell(`{ yes 2>/dev/null; echo told >&2; } | $SANDLOT run -- sh -c 'exec 0<&-; sleep 2; echo over >&2'`))
    assert.equal(stderr, 'told\nover\n')
  })

  it('that is a directory is said to be none', async () => {
    const { code, stderr, stdout } = await within(5000, runShell(`$SANDLOT run -- sh -c 'cat; echo over' < /`))
    assert.deepEqual([code, stdout.toString()], [0, 'over\n'])
    assert.match(stderr, /^sandlot: stdin cannot be read: EISDIR/)
  })
})

describe('a signal to the CLI', () => {
  const started = async (child: ReturnType<typeof begin>): Promise<void> => {
    await new Promise((done) => child.stdout!.once('data', done))
  }

  it("goes to all that came of the command, whose end is the CLI's", async () => {
    for (const [signal, number] of [
      ['SIGTERM', 15],
      ['SIGINT', 2],
      ['SIGHUP', 1],
      ['SIGQUIT', 3],
    ] as const) {
      const log = fresh()
      const child = begin(['run', '--', 'sh', '-c', 'echo go; exec sleep 8'], { orders: { log } })
      const end = ended(child)
      await started(child)
      child.kill(signal)
      const { code, stderr } = await within(3000, end)
      assert.deepEqual([code, stderr], [128 + number, ''], signal)
      assert.deepEqual(lines(log, 'signal'), [`${number} tree`])
    }
  })

  it('that the command takes in its own way leaves its exit code', async () => {
    const child = begin(['run', '--', 'sh', '-c', 'trap "echo caught; exit 7" TERM; echo go; while :; do sleep 0.05; done'])
    const end = ended(child)
    await started(child)
    child.kill('SIGTERM')
    const { code, stdout } = await within(3000, end)
    assert.deepEqual([code, stdout.toString()], [7, 'go\ncaught\n'])
  })

  it('that comes again ends it', async () => {
    const log = fresh()
    const child = begin(['run', '--', 'sh', '-c', 'trap "" TERM; echo go; while :; do sleep 0.05; done'], { orders: { log } })
    const end = ended(child)
    await started(child)
    child.kill('SIGTERM')
    await sleep(200)
    child.kill('SIGTERM')
    assert.equal((await within(3000, end)).code, 143)
    assert.deepEqual(readFileSync(log, 'utf8').match(/^(signal|end).*$/gm), ['signal 15 tree', 'end'])
  })

  it('is obeyed although nobody reads the output', async () => {
    const child = begin(['run', '--', 'sh', '-c', 'yes'])
    await sleep(700)
    child.kill('SIGTERM')
    const code = await within(3000, new Promise((done) => child.once('exit', done)))
    assert.equal(code, 143)
    child.stdout!.destroy()
  })

  it('is obeyed although the reader is a pipe that is full', async () => {
    const { stdout } = await within(
      8000,
      runShell(`{ $SANDLOT run -- yes & p=$!; sleep 0.7; kill $p; wait $p; echo "code $?" >&2; } 2>&1 >&3 3>&- | cat`, {
        stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      }),
    )
    assert.match(stdout.toString(), /code 143/)
  })
})

describe('a deadline', () => {
  it('that has ended the command is not held up by a reader that does not read', async () => {
    const child = begin(['run', '--timeout', '1s', '--', 'sh', '-c', 'yes & sleep 0.5; kill $!'], {
      orders: { outcome: { kind: 'timeout', afterMs: 1000, usage } },
    })
    assert.equal(await within(5000, new Promise((done) => child.once('exit', done))), 124)
    child.stdout!.destroy()
  })
})

describe('an outcome', () => {
  it("is the exit code, and a line on stderr where it was not the command's own doing", async () => {
    const cases = [
      [{ kind: 'exited', code: 42, usage }, 42, ''],
      [{ kind: 'signalled', signal: 11, usage }, 139, ''],
      [{ kind: 'timeout', afterMs: 1500, usage }, 124, 'sandlot: ended after 1s500ms, as --timeout says\n'],
      [{ kind: 'limit', which: 'memory', usage }, 137, 'sandlot: ended by its limit of memory\n'],
      [{ kind: 'denied', what: 'ptrace', usage }, 159, 'sandlot: ended by the fence: ptrace\n'],
      [{ kind: 'cancelled', usage }, 130, ''],
      [{ kind: 'unstarted', reason: 'not_found', errno: 2, message: 'frobnicate: command not found' }, 127, 'sandlot: frobnicate: command not found\n'],
      [{ kind: 'unstarted', reason: 'not_executable', errno: 13, message: './x: EACCES' }, 126, 'sandlot: ./x: EACCES\n'],
      [{ kind: 'unstarted', reason: 'no_cwd', errno: 2, message: 'cannot enter /nowhere: ENOENT' }, 125, 'sandlot: cannot enter /nowhere: ENOENT\n'],
      [{ kind: 'lost', message: 'its init died' }, 125, 'sandlot: the sandbox ended under the command: its init died\n'],
    ] as const
    for (const [outcome, code, stderr] of cases) {
      const seen = await run(['run', '--', 'true'], { orders: { outcome } })
      assert.deepEqual([seen.code, seen.stderr, seen.stdout.length], [code, stderr, 0], outcome.kind)
    }
  })

  it('as JSON has the output as text, or as base64 where it is none', async () => {
    const { code, stdout, stderr } = await run(['run', '--json', '--', 'sh', '-c', `printf '\\357\\273\\277h\\303\\251\\n'; printf '\\377' >&2; exit 3`], {
      orders: { changes: { total: 2, overlays: [{ name: 'here', files: 2 }] }, notes: ['a note'] },
    })
    assert.deepEqual([code, stderr], [3, ''])
    assert.deepEqual(JSON.parse(stdout.toString()), {
      exitCode: 3,
      outcome: { kind: 'exited', code: 3, usage: { userUs: 1, systemUs: 2, peakBytes: 3 } },
      stdout: { text: '\ufeffhé\n', bytes: 7 },
      stderr: { base64: '/w==', bytes: 1 },
      changes: { total: 2, overlays: [{ name: 'here', files: 2 }] },
      notes: ['a note'],
    })
  })
})

describe('what the CLI says', () => {
  it('about a refusal is one line and a hint, and the code is 125', async () => {
    const orders = { refuse: { code: 'grant.refused', message: '/ is not granted: it holds everything', hint: 'grant a narrower directory' } }
    const { code, stdout, stderr } = await run(['run', '--', 'true'], { orders })
    assert.deepEqual([code, stdout.length, stderr], [125, 0, 'sandlot: / is not granted: it holds everything\n  hint: grant a narrower directory\n'])
    const json = await run(['run', '--json', '--', 'true'], { orders })
    assert.deepEqual([json.code, json.stderr], [125, ''])
    assert.deepEqual(JSON.parse(json.stdout.toString()), { error: { ...orders.refuse, detail: {} } })
  })

  it('about a fault of its own asks for a report, and shows where only when asked', async () => {
    const plain = await run(['run', '--', 'true'], { orders: { crash: 'x is not a function' } })
    assert.equal(plain.code, 125)
    assert.match(plain.stderr, /^sandlot: internal error: x is not a function\n {2}hint: please report .*\n$/)
    const traced = await run(['run', '--', 'true'], { orders: { crash: 'x is not a function' }, env: { SANDLOT_DEBUG: '1' } })
    assert.match(traced.stderr, /at .*stand-in-engine\.ts/)
  })

  it('never holds a control character of a name', async () => {
    const name = '\u001b[31mred\u0007\u009b2J\u202eevil\nsecond'
    const outcome = { kind: 'unstarted', reason: 'not_found', errno: 2, message: `${name}: command not found` }
    for (const orders of [{ outcome }, { notes: [name] }, { refuse: { code: 'grant.refused', message: name, hint: name } }, { crash: name }]) {
      const { stderr } = await run(['run', '--', 'true'], { orders })
      assert.match(stderr, /^sandlot: .*\\x1b\[31mred\\x07\\x9b2J\\u\{202e\}evil\\nsecond/, JSON.stringify(orders))
      assert.doesNotMatch(stderr, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/u)
    }
    const unknown = await run([name])
    assert.doesNotMatch(unknown.stderr, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/u)
  })

  it('about what is not shown comes before the output', async () => {
    const { stderr } = await runShell(`$SANDLOT run -- sh -c 'echo later >&2'`, {
      orders: { notes: ['the current directory / is not shown: it holds everything'] },
    })
    assert.equal(stderr, 'sandlot: the current directory / is not shown: it holds everything\nlater\n')
  })

  it('about changed files is said to a terminal only', async () => {
    const orders = { changes: { total: 3, overlays: [{ name: 'here', files: 3 }] } }
    assert.equal((await run(['run', '--', 'true'], { orders })).stderr, '')
    const seen = await runShell(`script -qec "$SANDLOT run -- true" /dev/null`, { orders })
    assert.equal(seen.stdout.toString(), 'sandlot: 3 files changed and dropped; --write . keeps what changes in the current directory\r\n')
    const none = await runShell(`script -qec "$SANDLOT run -- true" /dev/null`, { orders: { changes: { total: 0, overlays: [] } } })
    assert.equal(none.stdout.toString(), '')
  })
})

describe('the words of run', () => {
  it('become the input of the operations', async () => {
    const log = fresh()
    await run(
      [
        'run',
        '--write',
        'out',
        '--read=/etc/hosts',
        '--mount',
        './a:b:/data:ro',
        '--mount',
        '/x:/y',
        '-e',
        'A=1=2',
        '-e',
        'B',
        '--user',
        'root',
        '--timeout',
        '1m',
        '--no-tools',
        '--cwd',
        'sub',
        '--',
        'true',
        '--json',
      ],
      {
        orders: { log },
        cwd: folder,
        env: { B: 'from here' },
      },
    )
    assert.deepEqual(JSON.parse(lines(log, 'create')[0]!), {
      root: { kind: 'host' },
      grants: [
        { source: '/etc/hosts', access: 'read' },
        { source: `${folder}/out`, access: 'write' },
        { source: `${folder}/a:b`, target: '/data', access: 'read' },
        { source: '/x', target: '/y', access: 'write' },
      ],
      env: { A: '1=2', B: 'from here' },
      user: 'root',
      tools: false,
      hostname: 'sandlot',
      labels: {},
      here: folder,
      cwd: `${folder}/sub`,
    })
    const start = JSON.parse(lines(log, 'start')[0]!) as { argv: string[]; deadlineMs: number; reserveReader: boolean; overflow: string }
    assert.deepEqual([start.argv, start.deadlineMs, start.reserveReader, start.overflow], [['true', '--json'], 60_000, true, 'hold'])
  })

  it("with a root of one's own show nothing of the current directory", async () => {
    for (const root of ['dir:image', './image', `${folder}/image`]) {
      const log = fresh()
      await run(['run', '--root', root, '--cwd', 'srv', '--', 'true'], { orders: { log }, cwd: folder })
      const input = JSON.parse(lines(log, 'create')[0]!) as { root: object; here?: string; cwd: string; grants: object[] }
      assert.deepEqual([input.root, input.here, input.cwd, input.grants], [{ kind: 'dir', path: `${folder}/image` }, undefined, '/srv', []])
    }
  })

  it('that cannot be are refused before anything is made', async () => {
    const log = fresh()
    for (const argv of [
      [],
      ['--'],
      ['--mount', 'a', '--', 'true'],
      ['--mount', 'a:b', '--', 'true'],
      ['--mount', 'a:/b:rx', '--', 'true'],
      ['--mount', ':/b', '--', 'true'],
      ['-e', 'NOT_SET_ANYWHERE', '--', 'true'],
      ['--bogus', '--', 'true'],
    ]) {
      const { code, stderr } = await run(['run', ...argv], { orders: { log } })
      assert.equal(code, 125, argv.join(' '))
      assert.match(stderr, /^sandlot: .*\n {2}hint: .*\n$/, argv.join(' '))
    }
    assert.throws(() => readFileSync(log), { code: 'ENOENT' })
  })

  it('in a directory that is gone are refused', async () => {
    const { code, stderr } = await runShell(`mkdir ${folder}/gone; cd ${folder}/gone; rmdir ${folder}/gone; $SANDLOT run -- true`)
    assert.equal(code, 125)
    assert.match(stderr, /the current directory is gone/)
  })
})

const lines = (file: string, what: string): string[] =>
  readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line.startsWith(`${what} `))
    .map((line) => line.slice(what.length + 1))

const writeEmpty = (): string => {
  const file = fresh()
  writeFileSync(file, '')
  return file
}
