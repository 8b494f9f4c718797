import type { Output } from '../../protocol/operation/index.ts'
import type { Command } from '../command.ts'
import { isTerminal } from '../stdio.ts'
import { visible } from '../text.ts'

const flags = {} as const

export const command = {
  usage: 'doctor',
  about: `What this machine can do for a sandbox.

Each line is one thing that was looked at: ok; missing, with what holds less without it; or failed, where no sandbox can be made without it.`,
  examples: [['sandlot doctor --json', 'for a bug report']],
  flags,
  exits: [
    ['0', 'sandboxes can be made here'],
    ['1', 'they cannot'],
    ['125', 'sandlot itself failed'],
  ],
  words: { most: 0, values: [] },
  run: async (parsed, { client, stdout }) => {
    const found = await (await client()).system.doctor({})
    const text = parsed.has('json') ? JSON.stringify(found) : describe(found, await isTerminal(1))
    await stdout.write(Buffer.from(`${text}\n`))
    return found.ok ? 0 : 1
  },
} satisfies Command<typeof flags>

const marks = { ok: ['ok', 32], missing: ['missing', 33], failed: ['FAILED', 31] } as const

const describe = ({ ok, checks }: Output<'system.doctor'>, terminal: boolean): string => {
  const colour = terminal && (process.env['NO_COLOR'] ?? '') === '' && process.env['TERM'] !== 'dumb'
  const width = Math.max(0, ...checks.map(({ name }) => name.length)) + 2
  const lines = checks.flatMap(({ name, state, says, fix }) => {
    const [word, code] = marks[state]
    const mark = colour ? `\x1b[${code}m${word}\x1b[0m` : word
    const line = `${mark}${' '.repeat(9 - word.length)}${name.padEnd(width)}${visible(says)}`
    return fix === undefined ? [line] : [line, `${' '.repeat(9 + width)}-> ${visible(fix)}`]
  })
  const missing = checks.filter(({ state }) => state === 'missing').length
  const verdict = !ok
    ? 'No sandbox can be made here.'
    : missing === 0
      ? 'Sandboxes work here.'
      : `Sandboxes work here; ${missing === 1 ? 'one thing is' : `${missing} things are`} missing.`
  return [...lines, '', verdict].join('\n')
}
