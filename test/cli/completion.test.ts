// The completions, asked of the shells themselves.

import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { run, standIn } from '../fixture/cli.ts'

let folder: string
before(() => {
  folder = mkdtempSync(join(tmpdir(), 'sandlot-completion-'))
  mkdirSync(join(folder, 'source'))
  writeFileSync(join(folder, 'sound'), '')
})
after(() => rmSync(folder, { recursive: true }))

const without = (shell: string): string | false => (spawnSync(shell, ['-c', 'true']).status === 0 ? false : `${shell} is not installed`)
const script = (shell: string): string => {
  const file = join(folder, `sandlot.${shell}`)
  writeFileSync(file, execFileSync(process.execPath, [...standIn, 'completion', shell]))
  return file
}

const cases: readonly (readonly [line: readonly string[], expected: readonly string[], missing?: readonly string[]])[] = [
  [['sandlot', 'r'], ['run']],
  [
    ['sandlot', ''],
    ['run', 'doctor', 'version', 'completion', 'help'],
  ],
  [
    ['sandlot', 'run', '--'],
    ['--write', '--env', '--no-tools', '--json', '--help'],
    ['--tools', '--field'],
  ],
  [['sandlot', 'run', '--write', 'so'], ['source'], ['sound']],
  [
    ['sandlot', 'run', '--read', 'so'],
    ['source', 'sound'],
  ],
  [['sandlot', 'run', '--json', 'ls', 'sour'], ['source'], ['--json']],
  [
    ['sandlot', 'completion', ''],
    ['bash', 'zsh', 'fish'],
  ],
  [['sandlot', 'help', 'ver'], ['version']],
]

const compare = (ask: (line: readonly string[]) => string[]): void => {
  for (const [line, expected, missing = []] of cases) {
    const got = ask(line).map((word) => word.replace(/\/$/, ''))
    for (const word of expected) assert.ok(got.includes(word), `${line.join(' ')}: no ${word} in ${got.join(' ')}`)
    for (const word of missing) assert.ok(!got.includes(word), `${line.join(' ')}: ${word} in ${got.join(' ')}`)
  }
}

describe('completions', () => {
  it('work in bash', { skip: without('bash') }, () => {
    const file = script('bash')
    compare((line) => {
      const ask = `source ${file}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _sandlot; printf '%s\\n' "\${COMPREPLY[@]}"`
      return execFileSync('bash', ['--norc', '-c', ask, 'bash', ...line], { cwd: folder, encoding: 'utf8' }).split('\n')
    })
  })

  it('work in fish', { skip: without('fish') }, () => {
    const file = script('fish')
    compare((line) => {
      const asked = execFileSync('fish', ['--no-config', '-c', `source ${file}; complete -C "${line.join(' ')}"`], {
        cwd: folder,
        encoding: 'utf8',
        env: { ...process.env, HOME: folder },
      })
      return asked.split('\n').map((each) => each.split('\t')[0]!)
    })
  })

  it('are a script that zsh takes', { skip: without('zsh') }, () => {
    assert.equal(
      execFileSync('zsh', ['-f', '-c', `autoload -Uz compinit; compinit -u -d ${folder}/dump; source ${script('zsh')}; echo $_comps[sandlot]`], {
        encoding: 'utf8',
      }),
      '_sandlot\n',
    )
  })

  it('are refused for other shells, naming those that there are', async () => {
    const { code, stderr } = await run(['completion', 'tcsh'])
    assert.deepEqual([code, stderr], [125, 'sandlot: no completions for tcsh\n  hint: sandlot completion bash|zsh|fish\n'])
    assert.match((await run(['completion'])).stderr, /^sandlot: for which shell\?/)
  })
})
