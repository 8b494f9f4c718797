// A program that is not found inside may well exist on the host: then a person wants to hear where it is and what would show it.

import { realpathSync } from './node-fs.ts'
import { basename, dirname } from 'node:path'
import { findOnPath } from './native.ts'

export type HiddenOptions = {
  /** argv[0] as the command was asked for. */
  readonly program: string
  /** PATH of the caller, not of the sandbox. */
  readonly searchPath: string
  /** The caller's home directory. */
  readonly home: string
  /** True when a path of the host (without symbolic links) shows inside. */
  readonly isVisible: (real: string) => boolean
  /** True when toolchains were left out on request. */
  readonly toolsLeftOut: boolean
}

export type HiddenProgram = {
  /** Where it is on the host. */
  readonly path: string
  /** What shows it, as arguments of `run`; undefined when nothing would make it work. */
  readonly flag: string | undefined
  /** One line for a person. */
  readonly text: string
}

/** Where a program is that was not found inside, or undefined when the host does not have it either. */
export const findHidden = (options: HiddenOptions): HiddenProgram | undefined => {
  const { program } = options
  const directories = program.includes('/') ? [dirname(program)] : options.searchPath.split(':')
  for (const directory of directories) {
    const path = findOnPath(basename(program), directory)
    if (path === undefined) continue
    let real: string
    try {
      real = realpathSync.native(path)
    } catch {
      continue
    }
    const linkShows = options.isVisible(realDirectory(path))
    if (linkShows && options.isVisible(real)) continue
    return describe(path, linkShows ? real : path, options)
  }
  return undefined
}

const realDirectory = (path: string): string => {
  try {
    return realpathSync.native(dirname(path))
  } catch {
    return dirname(path)
  }
}

const describe = (path: string, hidden: string, { home, toolsLeftOut }: HiddenOptions): HiddenProgram => {
  const is = `${path} exists on this machine and is not shown inside`
  // A snap is started by a daemon and mounted by it.
  if (path.startsWith('/snap/')) return { path, flag: undefined, text: `${is}; programs of snap do not work in a sandbox` }
  if (toolsLeftOut && (hidden.startsWith(`${home}/`) || hidden.startsWith('/opt/')))
    return { path, flag: undefined, text: `${is}; leave out --no-tools to show it` }
  const flag = `--read ${placeOf(hidden, home)}`
  return { path, flag, text: `${is}; ${flag} shows it` }
}

// What a program needs lies beside its bin directory, unless that is a place which holds everything.
const placeOf = (path: string, home: string): string => {
  const directory = dirname(path)
  const parent = dirname(directory)
  const wide = new Set(['/', '/opt', '/var', '/home', '/srv', '/mnt', home, `${home}/.local`])
  return /^s?bin$/.test(basename(directory)) && !wide.has(parent) ? parent : directory
}
