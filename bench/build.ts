// Compiles the small C programs of the benches, into the cache outside the repository and by content, so that a changed source is a new program.
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readFile, rename, rm, stat } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const flags = ['-O2', '-static', '-Wall', '-Wextra', '-Werror']

/** A directory of our own, `$XDG_CACHE_HOME/sandlot/bench` or `~/.cache/sandlot/bench`. */
export const cache = async (): Promise<string> => {
  const directory = join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'sandlot', 'bench')
  await mkdir(directory, { recursive: true, mode: 0o700 })
  return directory
}

/** A fresh directory in the cache, removed by the caller. */
export const scratch = async (): Promise<string> => mkdtemp(join(await cache(), 'run-'))

/** Path of the program made of `bench/<name>/<name>.c`. */
export const build = async (name: string): Promise<string> => {
  const source = join(import.meta.dirname, name, `${name}.c`)
  const hash = createHash('sha256')
    .update(await readFile(source))
    .update(flags.join(' '))
    .digest('hex')
    .slice(0, 16)
  const program = join(await cache(), `${name}-${hash}`)
  if (await stat(program).catch(() => undefined)) return program
  const fresh = await scratch()
  try {
    await run(process.env['CC'] || 'cc', [...flags, '-o', join(fresh, name), source])
    await rename(join(fresh, name), program)
  } finally {
    await rm(fresh, { recursive: true, force: true })
  }
  return program
}
