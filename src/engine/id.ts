// Ids: 128 random bits, so that knowing one is the only way to name a sandbox.

import { closeSync, openSync, readSync } from '../host/node-fs.ts'

/** 26 letters and digits (base 32, no vowels that spell). */
export const randomId = (): string => {
  // The kernel's own randomness (random(4)); node:crypto gives the same and takes five milliseconds to load.
  const bytes = new Uint8Array(26)
  const source = openSync('/dev/urandom', 'r')
  readSync(source, bytes)
  closeSync(source)
  const alphabet = '0123456789bcdfghjkmnpqrstvwxyzae'
  let id = ''
  for (const byte of bytes) id += alphabet[byte & 31]
  return id
}
