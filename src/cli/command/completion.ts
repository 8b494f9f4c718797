// Completions for shells, made of the tables of flags, so that they know what the parser knows.

import { SandlotError } from '../../model/error.ts'
import type { Command, Verbs } from '../command.ts'
import { commonFlags, knownFlag, type KnownFlag } from '../flags.ts'

const shells = ['bash', 'zsh', 'fish'] as const
type Shell = (typeof shells)[number]

const flags = {} as const

export const command = {
  usage: `completion ${shells.join('|')}`,
  about: 'Print completions for a shell.',
  examples: [
    ['source <(sandlot completion bash)', 'in ~/.bashrc'],
    ['source <(sandlot completion zsh)', 'in ~/.zshrc, after compinit'],
    ['sandlot completion fish | source', 'in ~/.config/fish/config.fish'],
  ],
  flags,
  words: { most: 1, values: shells },
  run: async ({ rest }, { verbs, stdout }) => {
    const [shell] = rest
    if (!shells.includes(shell as Shell)) {
      throw new SandlotError('argument.invalid', shell === undefined ? 'for which shell?' : `no completions for ${shell}`, {
        hint: `sandlot completion ${shells.join('|')}`,
      })
    }
    await stdout.write(Buffer.from(writers[shell as Shell](await loadAll(verbs))))
    return 0
  },
} satisfies Command<typeof flags>

/** A verb as a shell has to know it. `runs`: a program with arguments of its own follows. */
type Loaded = {
  readonly name: string
  readonly summary: string
  readonly runs: boolean
  readonly words: readonly string[]
  readonly flags: readonly KnownFlag[]
}

const loadAll = (verbs: Verbs): Promise<Loaded[]> =>
  Promise.all(
    Object.entries(verbs).map(async ([name, { summary, load }]) => {
      const { command } = await load()
      const words = command.words === 'command' ? [] : command.words.values === 'verbs' ? Object.keys(verbs) : command.words.values
      return {
        name,
        summary,
        runs: command.words === 'command',
        words,
        flags: Object.entries({ ...command.flags, ...commonFlags }).map(([flag, row]) => knownFlag(flag, row)),
      }
    }),
  )

const spelled = (flag: KnownFlag): string => (flag.kind === 'switch' && flag.default === true ? `--no-${flag.name}` : `--${flag.name}`)
const takesValue = (flag: KnownFlag): boolean => flag.kind !== 'switch'
const names = (flag: KnownFlag): readonly string[] => [spelled(flag), ...(flag.short === undefined ? [] : [`-${flag.short}`])]
const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

const bash = (verbs: readonly Loaded[]): string => {
  const action = { file: 'compgen -f', directory: 'compgen -d', variable: 'compgen -e' }
  const cases = verbs.map(({ name, runs, words, flags }) => {
    const values = flags.filter(takesValue).map((flag) => {
      const make = flag.complete !== undefined ? action[flag.complete] : `compgen -W ${quote(flag.values.join(' '))}`
      return `        ${names(flag).join('|')}) COMPREPLY=($(${make} -- "$word")); return ;;`
    })
    const command = runs
      ? `      local at=2 takes=' ${flags.filter(takesValue).flatMap(names).join(' ')} '
      while ((at < COMP_CWORD)); do
        case \${COMP_WORDS[at]} in
          --) ((at++)); _command_offset "$at"; return ;;
          -*) if [[ $takes == *" \${COMP_WORDS[at]} "* ]]; then ((at++)); fi; ((at++)) ;;
          *) _command_offset "$at"; return ;;
        esac
      done
      if [[ $word != -* && $takes != *" $before "* ]]; then _command_offset "$COMP_CWORD"; return; fi
`
      : ''
    const choose =
      values.length === 0
        ? ''
        : `      case $before in
${values.join('\n')}
      esac
`
    return `    ${name})
${command}${choose}      COMPREPLY=($(compgen -W ${quote([...flags.map(spelled), ...words].join(' '))} -- "$word")) ;;`
  })
  return `# bash completion for sandlot
_sandlot() {
  local word=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD - 1]}
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W ${quote([...verbs.map(({ name }) => name), '--help', '--version'].join(' '))} -- "$word"))
    return
  fi
  case \${COMP_WORDS[1]} in
${cases.join('\n')}
  esac
}
# What completes the command that follows comes with the package bash-completion; without it there are names only.
declare -F _command_offset >/dev/null || _command_offset() { if ((COMP_CWORD == $1)); then COMPREPLY=($(compgen -c -- "\${COMP_WORDS[COMP_CWORD]}")); else COMPREPLY=($(compgen -f -- "\${COMP_WORDS[COMP_CWORD]}")); fi; }
complete -o filenames -F _sandlot sandlot
`
}

const zsh = (verbs: readonly Loaded[]): string => {
  const escape = (text: string): string => text.replace(/[[\]:\\]/g, '\\$&')
  const action = { file: '_files', directory: '_files -/', variable: '_parameters' }
  const spec = (flag: KnownFlag): string[] =>
    names(flag).map((name) => {
      const repeated = flag.kind === 'list' || flag.kind === 'pairs' ? '*' : ''
      const value = !takesValue(flag)
        ? ''
        : `:${escape(flag.value ?? flag.name)}:${flag.complete !== undefined ? action[flag.complete] : flag.values.length > 0 ? `(${flag.values.join(' ')})` : ' '}`
      return quote(`${repeated}${name}${takesValue(flag) && name.startsWith('--') ? '=' : ''}[${escape(flag.doc)}]${value}`)
    })
  const cases = verbs.map(({ name, runs, words, flags }) => {
    const rest = runs ? ["'*::command: _normal'"] : words.length > 0 ? [quote(`1:word:(${words.join(' ')})`)] : []
    return `    ${name}) _arguments -S ${[...flags.flatMap(spec), ...rest].join(' \\\n      ')} ;;`
  })
  return `#compdef sandlot
_sandlot() {
  local -a verbs=(${verbs.map(({ name, summary }) => quote(`${name}:${escape(summary)}`)).join(' ')})
  if ((CURRENT == 2)); then
    _describe verb verbs
    return
  fi
  local verb=$words[2]
  shift words
  ((CURRENT--))
  case $verb in
${cases.join('\n')}
  esac
}
if [[ $funcstack[1] == _sandlot ]]; then _sandlot "$@"; else compdef _sandlot sandlot; fi
`
}

const fish = (verbs: readonly Loaded[]): string => {
  const plain = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
  const action = { file: '-F', directory: "-xa '(__fish_complete_directories)'", variable: "-xa '(set -xn)'" }
  const lines = verbs.flatMap(({ name, summary, runs, words, flags }) => [
    `complete -c sandlot -n __fish_use_subcommand -a ${name} -d ${plain(summary)}`,
    ...flags.map((flag) => {
      const value = !takesValue(flag)
        ? ''
        : flag.complete !== undefined
          ? ` -r ${action[flag.complete]}`
          : flag.values.length > 0
            ? ` -xa ${plain(flag.values.join(' '))}`
            : ' -x'
      return `complete -c sandlot -n '__fish_seen_subcommand_from ${name}' -l ${spelled(flag).slice(2)}${flag.short === undefined ? '' : ` -s ${flag.short}`}${value} -d ${plain(flag.doc)}`
    }),
    ...(runs ? [`complete -c sandlot -n '__fish_seen_subcommand_from ${name}' -xa '(__fish_complete_subcommand --fcs-skip=2)'`] : []),
    ...(words.length > 0 ? [`complete -c sandlot -n '__fish_seen_subcommand_from ${name}' -xa ${plain(words.join(' '))}`] : []),
  ])
  return `# fish completion for sandlot\ncomplete -c sandlot -f\n${lines.join('\n')}\n`
}

const writers: { readonly [S in Shell]: (verbs: readonly Loaded[]) => string } = { bash, zsh, fish }
