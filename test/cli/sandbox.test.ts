// The CLI as a person has it, with a real sandbox around the command.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { ended, entry, type Ended } from '../fixture/cli.ts'

let project: string
before(() => {
  project = mkdtempSync(join(homedir(), 'sandlot-cli-'))
  writeFileSync(join(project, 'kept'), 'as it was\n')
})
after(() => rmSync(project, { recursive: true }))

const begin = (argv: readonly string[], cwd = project, env: { readonly [name: string]: string } = {}) =>
  spawn(process.execPath, [entry, ...argv], { cwd, stdio: 'pipe', env: { ...process.env, ...env } })

const sandlot = async (argv: readonly string[], stdin: string | Uint8Array = '', cwd = project): Promise<Ended> => {
  const child = begin(argv, cwd)
  child.stdin.on('error', () => {})
  child.stdin.end(stdin)
  return ended(child)
}

describe('`sandlot run`', () => {
  it('gives back what the command wrote and how it ended', async () => {
    const cases = [
      [['sh', '-c', 'echo out; echo err >&2; exit 42'], 42, 'out\n', 'err\n'],
      [['sh', '-c', 'kill -TERM $$'], 143, '', ''],
      [['sh', '-c', 'kill -SEGV $$'], 139, '', ''],
      [['true'], 0, '', ''],
    ] as const
    for (const [argv, code, stdout, stderr] of cases) {
      const seen = await sandlot(['run', '--', ...argv])
      assert.deepEqual([seen.code, seen.stdout.toString(), seen.stderr], [code, stdout, stderr], argv.join(' '))
    }
  })

  it('tells a program that is not there from one that cannot be run', async () => {
    const absent = await sandlot(['run', '--', 'no-such-program'])
    assert.equal(absent.code, 127)
    assert.match(absent.stderr, /^sandlot: no-such-program: command not found\n/)
    const unfit = await sandlot(['run', '--', './kept'])
    assert.equal(unfit.code, 126)
    const nowhere = await sandlot(['run', '--cwd', '/no/where', '--', 'true'])
    assert.equal(nowhere.code, 125)
    assert.match(nowhere.stderr, /^sandlot: cannot enter \/no\/where/)
  })

  it('ends the command at its deadline, and all that came of it', async () => {
    const began = Date.now()
    const { code, stderr, stdout } = await sandlot(['run', '--timeout', '700ms', '--', 'sh', '-c', 'echo begun; setsid sleep 60 & sleep 60'])
    assert.deepEqual([code, stdout.toString(), stderr], [124, 'begun\n', 'sandlot: ended after 700ms, as --timeout says\n'])
    assert.ok(Date.now() - began < 20_000)
  })

  it('passes 300 kB through cat byte by byte', async () => {
    const bytes = randomBytes(300_000)
    const { code, stdout } = await sandlot(['run', '--', 'cat'], bytes)
    assert.deepEqual([code, stdout.equals(bytes)], [0, true])
  })

  it('does not wait for a child that holds stdout in the background', async () => {
    const began = Date.now()
    const { code, stdout } = await sandlot(['run', '--', 'sh', '-c', 'sleep 60 & echo done'])
    assert.deepEqual([code, stdout.toString()], [0, 'done\n'])
    assert.ok(Date.now() - began < 20_000)
  })

  it('drops what is written in the current directory, and keeps it with --write', async () => {
    await sandlot(['run', '--', 'sh', '-c', 'echo changed > kept; echo x > new; cat kept new'])
    assert.deepEqual([readFileSync(join(project, 'kept'), 'utf8'), readdirSync(project)], ['as it was\n', ['kept']])
    mkdirSync(join(project, 'out'))
    const { code, stderr } = await sandlot(['run', '--write', 'out', '--', 'sh', '-c', 'echo x > out/new; echo changed > kept'])
    assert.deepEqual([code, stderr], [0, ''])
    assert.equal(readFileSync(join(project, 'out/new'), 'utf8'), 'x\n')
    assert.equal(readFileSync(join(project, 'kept'), 'utf8'), 'as it was\n')
    await sandlot(['run', '--write', '.', '--', 'sh', '-c', 'echo changed > kept'])
    assert.equal(readFileSync(join(project, 'kept'), 'utf8'), 'changed\n')
  })

  it('shows files under other names, read-only where that was asked', async () => {
    mkdirSync(join(project, 'data'), { recursive: true })
    writeFileSync(join(project, 'data/a'), 'a\n')
    const { stdout, code } = await sandlot(['run', '--mount', './data:/data:ro', '--', 'sh', '-c', 'cat /data/a; echo x > /data/b || echo refused'])
    assert.deepEqual([code, stdout.toString()], [0, 'a\nrefused\n'])
    assert.ok(!existsSync(join(project, 'data/b')))
  })

  it('passes only the variables that were asked for', async () => {
    const env = { SANDLOT_TEST_SECRET: 'secret' }
    const hidden = await ended(begin(['run', '-e', 'A=1 2', '--', 'sh', '-c', 'echo "$A|$SANDLOT_TEST_SECRET"'], project, env))
    assert.equal(hidden.stdout.toString(), '1 2|\n')
    const passed = await ended(begin(['run', '--env', 'SANDLOT_TEST_SECRET', '--', 'sh', '-c', 'echo "$SANDLOT_TEST_SECRET"'], project, env))
    assert.equal(passed.stdout.toString(), 'secret\n')
  })

  it('says in a directory that is not shown that it is not, and runs all the same', async () => {
    const { code, stdout, stderr } = await sandlot(['run', '--', 'echo', 'ran'], '', '/')
    assert.deepEqual([code, stdout.toString()], [0, 'ran\n'])
    assert.match(stderr, /^sandlot: the current directory \/ is not shown: /)
  })

  it('refuses what it cannot keep, with a hint', async () => {
    const { code, stdout, stderr } = await sandlot(['run', '--write', '/', '--', 'true'])
    assert.deepEqual([code, stdout.length], [125, 0])
    assert.match(stderr, /^sandlot: .*\/.* is not granted.*\n {2}hint: .*\n$/)
    const memory = await sandlot(['run', '--memory', '1GiB', '--', 'true'])
    assert.ok(memory.code === 0 || (memory.code === 125 && /memory/.test(memory.stderr)), memory.stderr)
  })

  it('leaves by the signal that it was sent, and nothing of the command behind', async () => {
    const mark = `8.${process.pid}`
    const child = begin(['run', '--', 'sh', '-c', `echo go; (setsid sleep ${mark} &); sleep ${mark}`])
    const end = ended(child)
    await new Promise((done) => child.stdout.once('data', done))
    await sleep(100)
    child.kill('SIGTERM')
    assert.equal((await end).code, 143)
    await sleep(1000)
    assert.deepEqual(running(mark), [])
  })

  it('leaves nothing behind when it is killed', async () => {
    const mark = `9.${process.pid}`
    const child = begin(['run', '--', 'sh', '-c', `echo go; (setsid sleep ${mark} &); sleep ${mark}`])
    const end = ended(child)
    await new Promise((done) => child.stdout.once('data', done))
    await sleep(100)
    assert.notDeepEqual(running(mark), [])
    child.kill('SIGKILL')
    await end
    await sleep(1000)
    assert.deepEqual(running(mark), [])
  })

  it('as JSON tells the outcome, the output and what changed', async () => {
    const { code, stdout } = await sandlot(['run', '--json', '--', 'sh', '-c', 'echo out; echo x > new; exit 3'])
    assert.equal(code, 3)
    const result = JSON.parse(stdout.toString()) as {
      outcome: { kind: string; code: number }
      stdout: object
      changes: { overlays: { name: string; files: number }[] }
    }
    assert.deepEqual([result.outcome.kind, result.outcome.code, result.stdout], ['exited', 3, { text: 'out\n', bytes: 4 }])
    assert.deepEqual(
      result.changes.overlays.find(({ name }) => name === 'here'),
      { name: 'here', files: 1 },
    )
  })
})

/** Processes of this machine with that word in their arguments. */
const running = (word: string): string[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'latin1').startsWith('sleep\0') && readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(word)
      } catch {
        return false
      }
    })
