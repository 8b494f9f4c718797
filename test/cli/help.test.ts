import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { run, runShell } from '../fixture/cli.ts'

describe('help', () => {
  it('is the same for --help, help and no words at all', async () => {
    const texts = await Promise.all([[], ['--help'], ['-h'], ['help']].map((argv) => run(argv)))
    for (const { code, stdout, stderr } of texts) assert.deepEqual([code, stdout.toString(), stderr], [0, texts[0]!.stdout.toString(), ''])
    for (const verb of ['run', 'doctor', 'version', 'completion', 'help']) assert.match(texts[0]!.stdout.toString(), new RegExp(`^  ${verb} `, 'm'))
  })

  it('of a verb has usage, flags by group, exit codes and examples', async () => {
    const [long, short, help] = await Promise.all([run(['run', '--help']), run(['run', '-h']), run(['help', 'run'])])
    const text = long.stdout.toString()
    assert.deepEqual([short.stdout.toString(), help.stdout.toString()], [text, text])
    assert.match(text, /^Usage: sandlot run \[flags\] \[--\] COMMAND \[ARGUMENT\.\.\.\]$/m)
    for (const heading of ['Files', 'Command', 'Limits', 'Other', 'Exit codes', 'Examples']) assert.match(text, new RegExp(`^${heading}$`, 'm'))
    for (const flag of [
      '--write DIR',
      '--read PATH',
      '--mount SRC:DST[:MODE]',
      '--no-tools',
      '-e, --env NAME[=VALUE]',
      '--timeout TIME',
      '--json',
      '-h, --help',
    ]) {
      assert.ok(text.includes(`${flag} `), flag)
    }
    assert.match(text, /\(default: user\)/)
    for (const code of ['124', '125', '126', '127']) assert.match(text, new RegExp(`^  ${code} `, 'm'))
  })

  it('fits eighty columns, has no colours in a pipe and none where they are not wanted', async () => {
    for (const verb of ['run', 'doctor', 'version', 'completion', 'help']) {
      const { stdout } = await run([verb, '--help'])
      for (const line of stdout.toString().split('\n')) assert.ok(line.length <= 80, line)
      assert.ok(!stdout.includes('\x1b'))
    }
    const coloured = await runShell('script -qec "$SANDLOT run --help" /dev/null', { env: { TERM: 'xterm' } })
    assert.ok(coloured.stdout.includes('\x1b[1m'))
    const plain = await runShell('script -qec "$SANDLOT run --help" /dev/null', { env: { TERM: 'xterm', NO_COLOR: '1' } })
    assert.ok(!plain.stdout.includes('\x1b'))
  })

  it('belongs to the command where it stands behind it', async () => {
    assert.equal((await run(['run', 'printf', '%s\\n', '--help'])).stdout.toString(), '--help\n')
    assert.equal((await run(['run', '--', 'printf', '%s %s\\n', '-h', '--json'])).stdout.toString(), '-h --json\n')
  })
})

describe('a word that is no verb', () => {
  it('is refused, naming the one that was meant or how to run it', async () => {
    const cases = [
      [['doctr'], 'there is no verb doctr', 'did you mean doctor?'],
      [['python3', 'x.py'], 'there is no verb python3', 'sandlot run -- python3 runs it in a sandbox; sandlot --help lists the verbs'],
      [['--write', '.'], 'there is no flag --write', 'flags of a verb follow the verb; sandlot --help lists the verbs'],
      [['help', 'rum'], 'there is no verb rum', 'did you mean run?'],
      [['version', 'now'], '"now" is one word too many', 'sandlot version --help says what it takes'],
      [['constructor'], 'there is no verb constructor', 'sandlot run -- constructor runs it in a sandbox; sandlot --help lists the verbs'],
    ] as const
    for (const [argv, message, hint] of cases) {
      const { code, stderr } = await run(argv)
      assert.deepEqual([code, stderr], [125, `sandlot: ${message}\n  hint: ${hint}\n`], argv.join(' '))
    }
  })
})

describe('version and doctor', () => {
  it('answer people and programs', async () => {
    assert.equal((await run(['version'])).stdout.toString(), 'sandlot 9.9.9 (protocol 1, node v26, linux x64)\n')
    assert.equal((await run(['--version'])).stdout.toString(), 'sandlot 9.9.9 (protocol 1, node v26, linux x64)\n')
    assert.deepEqual(JSON.parse((await run(['version', '--json'])).stdout.toString()), { version: '9.9.9', generation: 1, node: 'v26', platform: 'linux x64' })
    const { code, stdout } = await run(['doctor'])
    assert.equal(code, 0)
    assert.equal(
      stdout.toString(),
      'ok       kernel   6.18\nmissing  cgroups  not \\x1b[31mwritable\n                  -> run as root\n\nSandboxes work here; one thing is missing.\n',
    )
    assert.equal((JSON.parse((await run(['doctor', '--json'])).stdout.toString()) as { checks: object[] }).checks.length, 2)
  })

  it('of a machine that cannot make a sandbox says so by its code', async () => {
    const { code, stdout } = await run(['doctor'], { orders: { refuse: { code: 'internal', message: '' } } })
    assert.equal(code, 1)
    assert.match(stdout.toString(), /No sandbox can be made here\.\n$/)
  })
})
