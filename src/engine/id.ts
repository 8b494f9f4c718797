// Ids: 128 random bits, so that knowing one is the only way to name a sandbox.

import { randomBytes } from 'node:crypto'

/** 26 letters and digits (base 32, no vowels that spell). */
export const randomId = (): string => {
  const alphabet = '0123456789bcdfghjkmnpqrstvwxyzae'
  const bytes = randomBytes(26)
  let id = ''
  for (const byte of bytes) id += alphabet[byte & 31]
  return id
}
