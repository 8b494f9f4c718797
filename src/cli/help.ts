// Help texts, made of the same tables that are parsed.

import type { Command, Context, Verbs } from './command.ts'
import { commonFlags, knownFlag, type KnownFlag } from './flags.ts'
import { isTerminal } from './stdio.ts'
import { formatBytes, formatDuration } from '../model/unit.ts'

/** Prints help for `sandlot`, or for one verb; resolves to the exit code. */
export const printHelp = async ([name]: readonly string[], context: Context): Promise<number> => {
  const style = await styleOf()
  const verb = name === undefined ? undefined : await context.verbs[name]!.load()
  const text = verb === undefined ? overview(context.verbs, style) : helpOf(name!, verb.command, style)
  await context.stdout.write(Buffer.from(text))
  return 0
}

type Style = { readonly width: number; heading(text: string): string; name(text: string): string }

const styleOf = async (): Promise<Style> => {
  const terminal = await isTerminal(1)
  const colour = terminal && (process.env['NO_COLOR'] ?? '') === '' && process.env['TERM'] !== 'dumb'
  const wrap = (on: string) => (text: string) => (colour ? `\x1b[${on}m${text}\x1b[0m` : text)
  return { width: Math.min(Math.max((terminal ? process.stdout.columns : 0) || 80, 50), 110), heading: wrap('1'), name: wrap('36') }
}

const overview = (verbs: Verbs, style: Style): string =>
  [
    'A sandbox for what AI agents run: bounded by a fence, and free inside it.',
    '',
    `${style.heading('Usage:')} sandlot VERB [flags]`,
    '',
    style.heading('Verbs'),
    ...columns(
      Object.entries(verbs).map(([name, { summary }]) => [name, summary]),
      style,
    ),
    '',
    style.heading('Examples'),
    ...examplesOf(style, [
      ['sandlot run -- python3 script.py', 'nothing it does is kept'],
      ['sandlot run --write . -- make', 'what it writes below the current directory is kept'],
      ['sandlot doctor', 'is this machine ready?'],
    ]),
    '',
    `sandlot VERB --help says more about a verb.`,
    '',
  ].join('\n')

const helpOf = (name: string, command: Command, style: Style): string => {
  const flags = Object.entries({ ...command.flags, ...commonFlags }).map(([flag, row]) => knownFlag(flag, row))
  const groups = new Map<string, KnownFlag[]>()
  for (const flag of flags) groups.set(flag.group ?? 'Other', [...(groups.get(flag.group ?? 'Other') ?? []), flag])
  const lines = [...command.about.split('\n').flatMap((line) => wrapped(line, style.width)), '', `${style.heading('Usage:')} sandlot ${command.usage}`]
  const width = Math.min(28, Math.max(...flags.map((flag) => spell(flag).length))) + 4
  for (const [group, rows] of groups) {
    lines.push('', style.heading(groups.size === 1 ? 'Flags' : group))
    lines.push(
      ...columns(
        rows.map((flag) => [spell(flag), docOf(flag)]),
        style,
        width,
      ),
    )
  }
  if (command.exits !== undefined) lines.push('', style.heading('Exit codes'), ...columns(command.exits, style))
  if (command.examples.length > 0) lines.push('', style.heading('Examples'), ...examplesOf(style, command.examples))
  return `${lines.join('\n')}\n`
}

/** `-e, --env NAME[=VALUE]` */
const spell = (flag: KnownFlag): string => {
  const name = flag.kind === 'switch' && flag.default === true ? `--no-${flag.name}` : `--${flag.name}`
  const value = flag.kind === 'switch' ? '' : ` ${flag.value ?? (flag.values.length > 0 ? flag.values.join('|') : 'VALUE')}`
  return `${flag.short === undefined ? '    ' : `-${flag.short}, `}${name}${value}`
}

const docOf = (flag: KnownFlag): string => {
  const repeated = flag.kind === 'list' || flag.kind === 'pairs' ? '; may be repeated' : ''
  if (flag.kind === 'switch') return flag.doc
  if (typeof flag.default === 'string') return `${flag.doc} (default: ${flag.default})${repeated}`
  if (typeof flag.default === 'number')
    return `${flag.doc} (default: ${flag.kind === 'bytes' ? formatBytes(flag.default) : flag.kind === 'duration' ? formatDuration(flag.default) : flag.default})`
  return flag.doc + repeated
}

const columns = (rows: readonly (readonly [string, string])[], style: Style, width = Math.max(...rows.map(([name]) => name.length)) + 4): string[] =>
  rows.flatMap(([name, doc]) => {
    const lines = wrapped(doc, style.width - width - 2)
    const beside = name.length + 2 <= width
    const [first = '', ...rest] = beside ? lines : ['', ...lines]
    return [`  ${style.name(name)}${beside ? ' '.repeat(width - name.length) + first : ''}`, ...rest.map((line) => `${' '.repeat(width + 2)}${line}`)]
  })

const examplesOf = (style: Style, examples: Command['examples']): string[] => {
  const width = Math.max(...examples.map(([line]) => line.length)) + 3
  const beside = examples.every(([, what]) => width + what.length + 4 <= style.width)
  return examples.flatMap(([line, what]) => (beside ? [`  ${line.padEnd(width)}# ${what}`] : [`  ${line}`, `      ${what}`]))
}

const wrapped = (text: string, width: number): string[] => {
  const lines = ['']
  for (const word of text.split(' ')) {
    const last = lines[lines.length - 1]!
    if (last === '') lines[lines.length - 1] = word
    else if (last.length + 1 + word.length <= width) lines[lines.length - 1] = `${last} ${word}`
    else lines.push(word)
  }
  return lines
}
