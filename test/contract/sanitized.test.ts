// The whole contract on a native program built with AddressSanitizer and UndefinedBehaviorSanitizer: whatever they find ends the process it is in, so that
// the sandbox is lost and the test that did it fails.

import { rmSync } from 'node:fs'
import { resolve } from 'node:path'
import { after, test } from 'node:test'
import { createEngine } from '../../src/index.ts'
import { compile, hasCompiler } from '../native/build.ts'
import { contract } from './suite.ts'

const flags = ['-O1', '-g', '-fsanitize=address,undefined', '-fno-sanitize-recover=all', '-fno-omit-frame-pointer']

if (hasCompiler('cc', ...flags)) {
  const { program, directory, said } = compile('cc', flags, [resolve(import.meta.dirname, '../native/sanitizer.c')])
  if (said !== '') throw new Error(said)
  after(() => rmSync(directory, { recursive: true }))
  contract('the namespace driver, sanitized', () => createEngine({ program }))
} else {
  test('the contract on a sanitizer build', { skip: 'the compiler has no sanitizers (Debian: libasan, libubsan of gcc)' }, () => {})
}
