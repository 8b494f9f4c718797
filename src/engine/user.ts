// Who a command runs as. Names are those that every root has; anyone else is given by number, since the host does not read files of a guest's root.

import { SandlotError } from '../model/error.ts'

export type User = { readonly name: string; readonly uid: number; readonly gid: number; readonly groups: readonly number[]; readonly home: string }

const known: ReadonlyMap<string, User> = new Map([
  ['user', { name: 'user', uid: 1000, gid: 1000, groups: [1000], home: '/home/user' }],
  ['root', { name: 'root', uid: 0, gid: 0, groups: [0], home: '/root' }],
  ['nobody', { name: 'nobody', uid: 65534, gid: 65534, groups: [65534], home: '/' }],
])

// Reserved for the init and its supervisors: a command with that id could end them.
const RESERVED = 65533

/** `user`, `root`, `nobody`, `1234` or `1234:100`. Throws `argument.invalid`. */
export const userOf = (text: string): User => {
  const named = known.get(text)
  if (named !== undefined) return named
  const match = /^(\d{1,5})(?::(\d{1,5}))?$/.exec(text)
  const uid = Number(match?.[1])
  const gid = Number(match?.[2] ?? match?.[1])
  if (match === null || uid > 65534 || gid > 65534 || uid === RESERVED || gid === RESERVED) {
    throw new SandlotError('argument.invalid', `no user ${JSON.stringify(text)}`, {
      hint: 'user, root, nobody, or numbers up to 65534 as UID or UID:GID (65533 is taken)',
    })
  }
  return { name: text, uid, gid, groups: [gid], home: '/' }
}
