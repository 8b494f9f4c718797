// The floors of ARCHITECTURE.md, read from the files themselves. The linter holds them too; its rules are tested here against the same table.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'

const root = resolve(import.meta.dirname, '..')

/** Floor -> what it may import besides itself: floors or single files of them. */
const floors: ReadonlyMap<string, readonly string[]> = new Map([
  ['model', []],
  ['protocol', ['model']],
  ['policy', ['model']],
  ['host', ['model']],
  ['driver', ['model', 'protocol/frame.ts', 'protocol/generation.ts', 'policy', 'host']],
  ['engine', ['model', 'protocol', 'policy', 'host', 'driver']],
  ['api', ['model', 'protocol', 'policy', 'host', 'driver', 'engine', 'client']],
  ['client', ['model', 'protocol']],
  ['cli', ['model', 'protocol', 'client', 'api/local.ts']],
  ['index.ts', ['model', 'protocol', 'policy', 'host', 'driver', 'engine', 'api', 'client']],
])
const withoutNode = ['model', 'protocol', 'policy', 'client']

type Import = { readonly file: string; readonly specifier: string; readonly target: string | undefined }

/** Every import of a file, types and dynamic ones included. `target` is relative to src/, or undefined for what is not a path. */
const importsOf = (file: string, text: string): readonly Import[] => {
  const code = text.replaceAll(/^\s*\/\/.*$|\/\*[\s\S]*?\*\//gm, '')
  const found = [
    ...code.matchAll(/^\s*(?:import|export)\b[^'"`;]*?\bfrom\s*['"]([^'"]+)['"]/gm),
    ...code.matchAll(/^\s*import\s*['"]([^'"]+)['"]/gm),
    ...code.matchAll(/\bimport\s*\(\s*['"]([^'"]+)['"]/g),
    // import(`./command/${name}.ts`): where it may lead is clear from the part before the first hole
    ...code.matchAll(/\bimport\s*\(\s*`([^`$]+)[`$]/g),
  ]
  return found.map(([, specifier = '']) => ({ file, specifier, target: specifier.startsWith('.') ? join(dirname(file), specifier) : undefined }))
}

const floorOf = (path: string): string => path.split('/', 1)[0] ?? ''

const isDown = ({ file, target }: Import): boolean => {
  if (target === undefined || floorOf(target) === floorOf(file)) return true
  return (floors.get(floorOf(file)) ?? []).some((allowed) => target === allowed || target.startsWith(`${allowed}/`))
}

const sources = async (): Promise<ReadonlyMap<string, readonly Import[]>> => {
  const found = new Map<string, readonly Import[]>()
  for (const entry of await readdir(join(root, 'src'), { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !/\.(ts|js)$/.test(entry.name)) continue
    const file = relative(join(root, 'src'), join(entry.parentPath, entry.name))
    found.set(file, importsOf(file, await readFile(join(root, 'src', file), 'utf8')))
  }
  return found
}

const circle = (imports: ReadonlyMap<string, readonly Import[]>): readonly string[] | undefined => {
  const done = new Set<string>()
  const walk = (file: string, path: readonly string[]): readonly string[] | undefined => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file]
    if (done.has(file)) return undefined
    for (const { target } of imports.get(file) ?? []) {
      const found = target === undefined ? undefined : walk(target, [...path, file])
      if (found !== undefined) return found
    }
    done.add(file)
    return undefined
  }
  for (const file of imports.keys()) {
    const found = walk(file, [])
    if (found !== undefined) return found
  }
  return undefined
}

test('every source file lies on a floor', async () => {
  const strays = [...(await sources()).keys()].filter((file) => !floors.has(floorOf(file)))
  assert.deepEqual(strays, [])
})

test('every import goes down the floors', async () => {
  const up = [...(await sources()).values()].flat().filter((each) => !isDown(each))
  assert.deepEqual(
    up.map(({ file, specifier }) => `${file} imports ${specifier}`),
    [],
  )
})

test('no files import each other in a circle, not even for types', async () => {
  assert.equal(circle(await sources())?.join(' -> '), undefined)
})

test('model, protocol, policy and client import nothing of Node', async () => {
  const found = [...(await sources()).values()].flat().filter(({ file, specifier }) => withoutNode.includes(floorOf(file)) && specifier.startsWith('node:'))
  assert.deepEqual(
    found.map(({ file, specifier }) => `${file} imports ${specifier}`),
    [],
  )
})

test('every library that is imported is a dependency of the package, and every dependency is imported', async () => {
  const { dependencies } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { dependencies: Record<string, string> }
  const imports = [...(await sources()).values()].flat()
  const libraries = imports.filter(({ specifier, target }) => target === undefined && !specifier.startsWith('node:'))
  const names = libraries.map(({ specifier }) => specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/'))
  assert.deepEqual([...new Set(names)].toSorted(), Object.keys(dependencies).toSorted())
})

test('the check finds what it is there to find', () => {
  const of = (file: string, text: string): readonly string[] =>
    importsOf(file, text)
      .filter((each) => !isDown(each))
      .map(({ specifier }) => specifier)
  assert.deepEqual(of('model/a.ts', `import type { X } from '../engine/x.ts'`), ['../engine/x.ts'])
  assert.deepEqual(of('model/a.ts', `export { x } from '../protocol/x.ts'\nimport '../host/y.ts'`), ['../protocol/x.ts', '../host/y.ts'])
  assert.deepEqual(of('client/a.ts', `import {\n  x,\n  y,\n} from '../engine/x.ts'`), ['../engine/x.ts'])
  assert.deepEqual(of('cli/command/a.ts', `const x = await import('../../engine/x.ts')\nimport('../../api/local.ts')`), ['../../engine/x.ts'])
  assert.deepEqual(of('cli/main.ts', 'await import(`./command/${verb}.ts`)\nawait import(`../engine/${verb}.ts`)'), ['../engine/'])
  assert.deepEqual(of('driver/namespace/a.ts', `import { a } from '../../protocol/frame.ts'\nimport { b } from '../../protocol/schema.ts'`), [
    '../../protocol/schema.ts',
  ])
  assert.deepEqual(of('engine/a.ts', `// import { x } from '../api/x.ts'\n/* import '../api/x.ts' */`), [])
  const made = new Map(Object.entries({ 'a.ts': `import type { B } from './b.ts'`, 'b.ts': `import { c } from './c.ts'`, 'c.ts': `export * from './a.ts'` }))
  assert.deepEqual(circle(new Map([...made].map(([file, text]) => [file, importsOf(file, text)]))), ['a.ts', 'b.ts', 'c.ts', 'a.ts'])
})

test('the linter refuses exactly the imports that these floors refuse, and circles of types', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'sandlot-floors-'))
  t.after(() => rm(directory, { recursive: true }))
  await writeFile(join(directory, '.oxlintrc.json'), await readFile(join(root, '.oxlintrc.json')))
  const targets = [...floors.keys()].flatMap((floor) => (floor === 'index.ts' ? ['index.ts'] : [`${floor}/x.ts`, `${floor}/inner/x.ts`]))
  targets.push('protocol/frame.ts', 'protocol/generation.ts', 'api/local.ts', 'protocol/operation/index.ts')
  for (const target of targets) {
    await mkdir(join(directory, 'src', dirname(target)), { recursive: true })
    await writeFile(join(directory, 'src', target), 'export const x = 1\n')
  }
  const expected: string[] = []
  for (const floor of floors.keys()) {
    if (floor === 'index.ts') continue
    for (const [at, folder] of [floor, `${floor}/inner`].entries()) {
      for (const [n, target] of [...targets, 'node:fs'].entries()) {
        if (floorOf(target) === floor) continue
        // Files of one floor import their own by ./ and ../; that is not what is tried here.
        const file = `${folder}/from${at}${n}.ts`
        const specifier = target.includes(':') ? target : relative(folder, target)
        await writeFile(join(directory, 'src', file), `import * as y from '${specifier}'\nexport const z = y\n`)
        const refused = target.includes(':') ? withoutNode.includes(floor) : !isDown({ file, specifier, target })
        if (refused) expected.push(`${file} imports ${specifier}`)
      }
    }
  }
  await writeFile(join(directory, 'src/model/round.ts'), `import type { B } from './about.ts'\nexport type A = B | 1\n`)
  await writeFile(join(directory, 'src/model/about.ts'), `import type { A } from './round.ts'\nexport type B = A | 2\n`)

  const oxlint = join(root, 'node_modules/oxlint/bin/oxlint')
  // oxlint answers what it finds with exit code 1.
  const { stdout } = await promisify(execFile)(process.execPath, [oxlint, '-f', 'json', 'src'], { cwd: directory, maxBuffer: 1 << 26 }).catch(
    (error: { stdout: string }) => error,
  )
  const { diagnostics } = JSON.parse(stdout) as { diagnostics: readonly { code: string; filename: string }[] }
  const refused: string[] = []
  for (const { code, filename } of diagnostics) {
    if (!code.includes('no-restricted-imports')) continue
    const text = await readFile(join(directory, filename), 'utf8')
    refused.push(`${filename.slice('src/'.length)} imports ${importsOf(filename, text)[0]?.specifier}`)
  }
  assert.deepEqual([...new Set(refused)].toSorted(), expected.toSorted())
  assert.ok(diagnostics.some(({ code, filename }) => code.includes('no-cycle') && filename.endsWith('model/round.ts')))
})
