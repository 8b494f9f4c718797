import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { test } from 'node:test'
import { compile, hasCompiler } from './build.ts'

for (const [what, compiler] of [
  ['here', 'cc'],
  ['for arm64, which is not run here', 'aarch64-linux-gnu-gcc'],
  ['by clang', 'clang'],
] as const) {
  test(`the native program compiles ${what}, static, without a warning`, (t) => {
    if (!hasCompiler(compiler, '-static')) return t.skip(`${compiler} is not installed`)
    const { said, directory } = compile(compiler, ['-static', '-O2'])
    rmSync(directory, { recursive: true })
    assert.equal(said, '')
  })
}
