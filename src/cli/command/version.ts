import type { Command } from '../command.ts'

const flags = {} as const

export const command = {
  usage: 'version',
  about: 'Which sandlot this is.',
  examples: [],
  flags,
  words: { most: 0, values: [] },
  run: async (parsed, { client, stdout }) => {
    const found = await (await client()).system.version({})
    const text = parsed.has('json') ? JSON.stringify(found) : `sandlot ${found.version} (protocol ${found.generation}, node ${found.node}, ${found.platform})`
    await stdout.write(Buffer.from(`${text}\n`))
    return 0
  },
} satisfies Command<typeof flags>
