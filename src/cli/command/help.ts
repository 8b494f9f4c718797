import { SandlotError } from '../../model/error.ts'
import { nearest } from '../../protocol/nearest.ts'
import type { Command } from '../command.ts'
import { printHelp } from '../help.ts'

const flags = {} as const

export const command = {
  usage: 'help [VERB]',
  about: 'Help for a verb.',
  examples: [['sandlot help run', 'the same as sandlot run --help']],
  flags,
  words: { most: 1, values: 'verbs' },
  run: async ({ rest }, context) => {
    const [verb] = rest
    if (verb !== undefined && !Object.hasOwn(context.verbs, verb)) {
      const meant = nearest(verb, Object.keys(context.verbs))
      throw new SandlotError('argument.unknown', `there is no verb ${verb}`, {
        hint: meant === undefined ? 'sandlot help lists the verbs' : `did you mean ${meant}?`,
      })
    }
    return printHelp(rest, context)
  },
} satisfies Command<typeof flags>
