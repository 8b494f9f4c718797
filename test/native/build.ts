// Compiles the native program in a way of a test's own, into a directory of its own.

import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

const native = resolve(import.meta.dirname, '../../native')
const sources = (): string[] => readdirSync(native).flatMap((name) => (name.endsWith('.c') ? [join(native, name)] : []))

export const hasCompiler = (compiler: string, ...flags: string[]): boolean =>
  spawnSync(compiler, [...flags, '-x', 'c', '-o', '/dev/null', '-'], { input: 'int main(void) { return 0; }' }).status === 0

/** `said` is what the compiler printed: nothing, when all is well. */
export const compile = (
  compiler: string,
  flags: readonly string[],
  more: readonly string[] = [],
): { readonly program: string; readonly directory: string; readonly said: string } => {
  const directory = mkdtempSync(join(tmpdir(), 'sandlot-build-'))
  const program = join(directory, 'sandlot')
  const { stderr, error } = spawnSync(compiler, ['-std=gnu11', '-Wall', '-Wextra', '-Werror', ...flags, '-o', program, ...sources(), ...more], {
    encoding: 'utf8',
  })
  return { program, directory, said: error?.message ?? stderr }
}
