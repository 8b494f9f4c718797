// The calls of node:fs that lie on the way of every command. `import 'node:fs'` reads every export of it, its promises included, and costs three
// milliseconds of a start that has some forty; asking the runtime for the module costs nothing.

export const {
  accessSync,
  appendFileSync,
  chmodSync,
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
} = process.getBuiltinModule('node:fs')
export type { Dirent, Stats } from 'node:fs'
