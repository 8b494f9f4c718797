// The command line: finds the verb, loads its file, says what went wrong. Runs when it is loaded; sandlot.js loads it.

import type { Context, Verbs } from './command.ts'
import { commonFlags, parseFlags } from './flags.ts'
import { openOutput } from './stdio.ts'

const verbs: Verbs = {
  run: { summary: 'run a command in a sandbox of its own', load: () => import('./command/run.ts') },
  doctor: { summary: 'what this machine can do, what is missing and how to get it', load: () => import('./command/doctor.ts') },
  version: { summary: 'which sandlot this is', load: () => import('./command/version.ts') },
  completion: { summary: 'completions for bash, zsh and fish', load: () => import('./command/completion.ts') },
  help: { summary: 'help for a verb', load: () => import('./command/help.ts') },
}

/** Our own failures, as env, timeout and docker have it: no command that ran can be told from them by a shell otherwise. */
const FAILED = 125
const BROKEN_PIPE = 141

const main = async (argv: readonly string[]): Promise<number> => {
  const stderr = openOutput(2)
  const context: Context = {
    verbs,
    stdout: openOutput(1),
    stderr,
    client: async (soon = false) => {
      const { connectLocal } = await import('../api/local.ts')
      const connecting = connectLocal({ soon, onProgress: (line) => void stderr.write(Buffer.from(`sandlot: ${line}\n`)).catch(() => {}) })
      const { createClient } = await import('../client/client.ts')
      return createClient(await connecting)
    },
  }
  let json = beforeCommand(argv).includes('--json')
  try {
    const [first, ...rest] = argv
    if (first === undefined || first === '--help' || first === '-h') return await help([], context)
    const name = first === '--version' || first === '-V' ? 'version' : first
    const verb = Object.hasOwn(verbs, name) ? verbs[name]! : await unknownVerb(name)
    const { command } = await verb.load()
    const parsed = await parseFlags({ ...commonFlags, ...command.flags }, rest, {
      command: command.words === 'command',
      usage: `sandlot ${name} --help lists them`,
    })
    json = parsed.has('json')
    if (parsed.has('help')) return await help([name], context)
    if (command.words !== 'command' && parsed.rest.length > command.words.most) await tooMany(parsed.rest[command.words.most]!, name)
    return await command.run(parsed, context)
  } catch (error) {
    if (isBrokenPipe(error)) return BROKEN_PIPE
    return await tell(error, json, context)
  }
}

const tell = async (error: unknown, json: boolean, { stdout, stderr }: Context): Promise<number> => {
  const { describeError, errorToJson } = await import('./text.ts')
  try {
    if (json) await stdout.write(Buffer.from(`${JSON.stringify(errorToJson(error))}\n`))
    else await stderr.write(Buffer.from(describeError(error)))
  } catch {
    // Nobody listens.
  }
  return FAILED
}

const help = async (words: readonly string[], context: Context): Promise<number> => {
  const { printHelp } = await import('./help.ts')
  return printHelp(words, context)
}

const unknownVerb = async (name: string): Promise<never> => {
  const [{ SandlotError }, { nearest }] = await Promise.all([import('../model/error.ts'), import('../protocol/nearest.ts')])
  const meant = nearest(name, Object.keys(verbs))
  const hint = name.startsWith('-')
    ? 'flags of a verb follow the verb; sandlot --help lists the verbs'
    : meant !== undefined
      ? `did you mean ${meant}?`
      : `sandlot run -- ${name} runs it in a sandbox; sandlot --help lists the verbs`
  throw new SandlotError('argument.unknown', `there is no ${name.startsWith('-') ? 'flag' : 'verb'} ${name}`, { hint })
}

const tooMany = async (word: string, name: string): Promise<never> => {
  const { SandlotError } = await import('../model/error.ts')
  throw new SandlotError('argument.invalid', `${JSON.stringify(word)} is one word too many`, { hint: `sandlot ${name} --help says what it takes` })
}

const beforeCommand = (argv: readonly string[]): readonly string[] => {
  const end = argv.indexOf('--')
  return end < 0 ? argv : argv.slice(0, end)
}

/** Whoever read our output is gone: a closed pipe or socket, a terminal that hung up. */
const isBrokenPipe = (error: unknown): boolean =>
  error instanceof Error && 'syscall' in error && error.syscall === 'write' && 'code' in error && ['EPIPE', 'ECONNRESET', 'EIO'].includes(String(error.code))

process.exit(await main(process.argv.slice(2)))
