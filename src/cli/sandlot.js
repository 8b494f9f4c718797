#!/usr/bin/env node
// The entry, plain JavaScript: Node's compile cache has to be on before the first TypeScript file loads, or every call pays for stripping types.
// The cache is code that we run, so it is only used in a directory that is ours alone.

// Not `import`: that reads every export of node:fs, its promises included, and costs three milliseconds.
const { lstatSync, mkdirSync } = process.getBuiltinModule('node:fs')
const { enableCompileCache } = process.getBuiltinModule('node:module')

if (Number(process.versions.node.split('.', 1)[0]) < 24) {
  process.stderr.write(`sandlot: Node ${process.versions.node} is too old\n  hint: install Node 24.12 or newer\n`)
  process.exit(125)
}

const home = process.env.XDG_CACHE_HOME?.startsWith('/')
  ? process.env.XDG_CACHE_HOME
  : process.env.HOME?.startsWith('/')
    ? `${process.env.HOME}/.cache`
    : undefined
if (home !== undefined && isPrivate(`${home}/sandlot`) && isPrivate(`${home}/sandlot/compile`)) enableCompileCache(`${home}/sandlot/compile`)

try {
  await import('./main.ts')
} catch (error) {
  process.stderr.write(`sandlot: cannot start: ${String(error?.message ?? error).split('\n', 1)[0]}\n`)
  process.exit(125)
}

/**
 * Ours, 0700 and no link. Made where it is absent, but never in a directory of somebody else's (root with the HOME of a user).
 * @param {string} path
 */
function isPrivate(path) {
  try {
    const found = lstatSync(path, { throwIfNoEntry: false })
    if (found !== undefined) return found.isDirectory() && found.uid === process.geteuid?.() && (found.mode & 0o077) === 0
    if (nearest(parent(path))?.uid !== process.geteuid?.()) return false
    mkdirSync(path, { recursive: true, mode: 0o700 })
    return isPrivate(path)
  } catch {
    return false
  }
}

/** @param {string} path */
function nearest(path) {
  return lstatSync(path, { throwIfNoEntry: false }) ?? (path === '/' ? undefined : nearest(parent(path)))
}

/** @param {string} path */
function parent(path) {
  return path.slice(0, path.lastIndexOf('/')) || '/'
}
