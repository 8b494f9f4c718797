// Where the native program (launcher and init) comes from. A package ships it; a clone compiles it once per content of native/ into the cache, where no
// guest can write. In the usual case this is a handful of stat calls; the compiler and what starts it are loaded only when there is something to compile.

import { accessSync, constants, lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from './node-fs.ts'
import { basename, delimiter, join } from 'node:path'
import { codes, SandlotError } from '../model/error.ts'
import { cacheHint, installation } from './paths.ts'

export type NativeOptions = {
  /** An existing directory of ours, 0700. */
  readonly cache: string
  /** The caller's environment: PATH finds the compiler, CC names it. */
  readonly environment: NodeJS.ProcessEnv
  /** Told one line when something takes time. Nothing is printed. */
  readonly onProgress?: ((line: string) => void) | undefined
  /** Warnings are errors, as in our own checks; default false: the compiler of a user may be newer than the program. */
  readonly strict?: boolean
  /** The package's own directory. */
  readonly installation?: string
  /** Use the program that the package ships, where there is one; default: true unless we run from a clone's sources. */
  readonly prebuilt?: boolean
}

/** Warnings become errors first; a second try without that follows, unless `strict`. */
export const nativeFlags: readonly string[] = ['-std=gnu11', '-static', '-O2', '-Wall', '-Wextra']

const COMPILE_MS = 120_000
const COMPILERS = ['cc', 'gcc', 'clang']
const LEFTOVER_MS = 24 * 3600 * 1000
const UNUSED_MS = 30 * LEFTOVER_MS

/** The program that is ready to use, or undefined when it has to be compiled first. Synchronous, well below a millisecond. */
export const findNative = (options: NativeOptions): string | undefined => {
  const shipped = shippedProgram(options)
  if (shipped !== undefined) return shipped
  const sources = sourcesOf(options)
  if (sources.length === 0) return undefined
  const program = rememberedProgram(options, stampOf(options, sources))
  return program !== undefined && isProgram(program) ? program : undefined
}

/** The program, compiled if need be. Throws `native.unavailable`, `state.unusable` or `disk.full`. */
export const openNative = async (options: NativeOptions): Promise<string> => {
  const found = findNative(options)
  if (found !== undefined) return found
  const sources = sourcesOf(options)
  if (sources.length === 0)
    throw new SandlotError('native.unavailable', `neither a program for ${process.arch} nor its sources are in ${options.installation ?? installation}`, {
      hint: 'install the package again',
    })
  const stamp = stampOf(options, sources)
  const hash = await hashOf(sources)
  const directory = join(options.cache, 'native', hash)
  const program = join(directory, 'sandlot')
  try {
    makePrivate(join(options.cache, 'native'))
    makePrivate(directory)
    if (!isProgram(program)) {
      options.onProgress?.('compiling the native program (once)')
      await compile(options, sources, program)
      sweep(options.cache, hash)
    }
    // Until the sources have settled a later change could carry the same times.
    if (sources.every(({ changedMs }) => Date.now() - changedMs > 3000)) {
      writeWhole(stampPath(options), `${stamp.text}\n${hash}`)
    }
    return program
  } catch (error) {
    if (error instanceof SandlotError) throw error
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOSPC' || code === 'EDQUOT') throw noSpace(options.cache, error)
    throw new SandlotError('state.unusable', `the cache ${options.cache} cannot hold the native program: ${code ?? String(error)}`, {
      hint: 'set XDG_CACHE_HOME to a directory of your own',
      cause: error,
    })
  }
}

// --- shipped

const fromSources = import.meta.url.endsWith('.ts')

const shippedProgram = (options: NativeOptions): string | undefined => {
  if (!(options.prebuilt ?? !fromSources)) return undefined
  const path = join(options.installation ?? installation, 'dist', 'native', `sandlot-linux-${process.arch}`)
  try {
    accessSync(path, constants.X_OK)
    return path
  } catch {
    return undefined
  }
}

// --- remembered

type SourceFile = { readonly path: string; readonly size: number; readonly modifiedMs: number; readonly changedMs: number; readonly ino: number }

const sourcesOf = (options: NativeOptions): SourceFile[] => {
  const directory = join(options.installation ?? installation, 'native')
  let names: string[]
  try {
    names = readdirSync(directory)
  } catch {
    return []
  }
  const out: SourceFile[] = []
  for (const name of names.toSorted()) {
    if (!name.endsWith('.c') && !name.endsWith('.h')) continue
    const path = `${directory}/${name}`
    const { size, mtimeMs: modifiedMs, ctimeMs: changedMs, ino } = statSync(path)
    out.push({ path, size, modifiedMs, changedMs, ino })
  }
  return out
}

type Stamp = { readonly text: string }

// The times of last change cannot be set by a program, so that equal stamps mean equal contents.
const stampOf = (options: NativeOptions, sources: readonly SourceFile[]): Stamp => ({
  text: `${flagsOf(options).join(' ')} ${process.arch}\n${sources.map((s) => `${s.path} ${s.size} ${s.modifiedMs} ${s.changedMs} ${s.ino}`).join('\n')}`,
})

const flagsOf = (options: NativeOptions): readonly string[] => (options.strict === true ? [...nativeFlags, '-Werror'] : nativeFlags)

/** One a clone, so that several do not push each other out. The text in it names the clone in full. */
const stampPath = (options: NativeOptions): string => `${options.cache}/native/stamp${(options.installation ?? installation).replaceAll('/', '-').slice(-200)}`

const rememberedProgram = (options: NativeOptions, stamp: Stamp): string | undefined => {
  let text: string
  try {
    text = readFileSync(stampPath(options), 'utf8')
  } catch {
    return undefined
  }
  const cut = text.lastIndexOf('\n')
  return text.slice(0, cut) === stamp.text ? `${options.cache}/native/${text.slice(cut + 1)}/sandlot` : undefined
}

const hashOf = async (sources: readonly SourceFile[]): Promise<string> => {
  const { createHash } = await import('node:crypto')
  const hash = createHash('sha256').update(`${nativeFlags.join(' ')} ${process.arch}\0`)
  for (const { path } of sources) {
    const bytes = readFileSync(path)
    hash.update(`${basename(path)} ${bytes.length}\0`).update(bytes)
  }
  return hash.digest('hex').slice(0, 32)
}

const isProgram = (path: string): boolean => {
  const stat = lstatSync(path, { throwIfNoEntry: false })
  return stat !== undefined && stat.isFile() && stat.uid === process.geteuid?.() && (stat.mode & 0o022) === 0 && (stat.mode & 0o100) !== 0 && stat.size > 0
}

// --- compiled

const makePrivate = (path: string): void => {
  mkdirSync(path, { recursive: true, mode: 0o700 })
  const stat = lstatSync(path)
  if (!stat.isDirectory() || stat.uid !== process.geteuid?.() || (stat.mode & 0o022) !== 0) {
    throw new SandlotError('state.unusable', `${path} is not a directory of ours alone`, {
      hint: 'remove it, or set XDG_CACHE_HOME to a directory of your own',
    })
  }
}

/** Complete or not at all, also with two at once. */
const writeWhole = (path: string, text: string): void => {
  const temporary = `${path}.${process.pid}.${Date.now()}`
  writeFileSync(temporary, text, { mode: 0o600 })
  renameSync(temporary, path)
}

const compile = async (options: NativeOptions, sources: readonly SourceFile[], program: string): Promise<void> => {
  const compiler = findCompiler(options.environment)
  if (compiler === undefined) throw unavailable('there is no C compiler', 'compiler')
  const files = sources.map(({ path }) => path).filter((path) => path.endsWith('.c'))
  // Beside the place where the program goes: a rename does not cross file systems.
  const temporary = mkdtempSync(join(options.cache, 'native', 'compile-'))
  try {
    const output = join(temporary, 'sandlot')
    let result = await run(compiler, [...nativeFlags, '-Werror', '-o', output, ...files], options.environment, temporary)
    if (result.status !== 0 && options.strict !== true && / (?:error|warning): .*\[-W/.test(result.text)) {
      result = await run(compiler, [...nativeFlags, '-o', output, ...files], options.environment, temporary)
      if (result.status === 0) options.onProgress?.('the native program was compiled with warnings')
    }
    if (result.status !== 0) throw compileError(result.text, compiler, options.cache)
    requireProgram(output)
    renameSync(output, program)
  } finally {
    rmSync(temporary, { recursive: true, force: true })
  }
}

const requireProgram = (path: string): void => {
  const stat = lstatSync(path, { throwIfNoEntry: false })
  if (stat === undefined || !stat.isFile() || stat.size === 0) throw new SandlotError('native.unavailable', 'the compiler succeeded and left no program')
}

/** CC may carry arguments (`ccache gcc`). */
const findCompiler = (environment: NodeJS.ProcessEnv): readonly string[] | undefined => {
  const named = environment['CC']?.trim().split(/\s+/) ?? []
  for (const candidate of [named, ...COMPILERS.map((name) => [name])]) {
    const [name, ...rest] = candidate
    if (name === undefined || name === '') continue
    const path = name.includes('/') ? name : findOnPath(name, environment['PATH'] ?? '')
    if (path !== undefined) return [path, ...rest]
  }
  return undefined
}

/** The first executable file of that name in a search path. */
export const findOnPath = (name: string, path: string): string | undefined => {
  for (const directory of path.split(delimiter)) {
    if (!directory.startsWith('/')) continue
    const candidate = `${directory}/${name}`
    try {
      accessSync(candidate, constants.X_OK)
      if (statSync(candidate).isFile()) return candidate
    } catch {}
  }
  return undefined
}

type Result = { readonly status: number; readonly text: string }

const run = async (command: readonly string[], args: readonly string[], environment: NodeJS.ProcessEnv, temporary: string): Promise<Result> => {
  const { spawn } = await import('node:child_process')
  const [program, ...rest] = command
  return new Promise((resolve) => {
    // Messages are matched, so they have to be in English.
    const child = spawn(program!, [...rest, ...args], {
      cwd: temporary,
      env: { ...environment, LC_ALL: 'C', TMPDIR: temporary },
      stdio: ['ignore', 'ignore', 'pipe'],
      timeout: COMPILE_MS,
      killSignal: 'SIGKILL',
    })
    const parts: Buffer[] = []
    child.stderr.on('data', (bytes: Buffer) => {
      if (parts.length < 64) parts.push(bytes)
    })
    child.once('error', (error) => resolve({ status: -1, text: error.message }))
    child.once('close', (code, signal) =>
      resolve({ status: code ?? -1, text: `${Buffer.concat(parts).toString()}${signal === null ? '' : `ended by ${signal}`}` }),
    )
  })
}

const FIRST_LINES = 3

const noSpace = (cache: string, cause?: unknown): SandlotError =>
  new SandlotError('disk.full', `no space to compile the native program in ${cache}`, { hint: cacheHint, cause })

const compileError = (text: string, compiler: readonly string[], cache: string): SandlotError => {
  if (/No space left on device|Disk quota exceeded/.test(text)) return noSpace(cache)
  if (/cannot find -lc\b|unable to find library -lc\b|cannot find .*libc\.a|crtbeginT\.o/.test(text))
    return unavailable('the C library for static programs is missing', 'static')
  if (/fatal error: .*(?:No such file or directory|file not found)/.test(text)) {
    const header = /fatal error: '?([^\s':]+)/.exec(text)?.[1] ?? 'a header'
    return unavailable(`${header} is missing`, 'headers')
  }
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  // What says where, and the linker's own last word, is not what went wrong.
  const errors = lines.filter((line) => !/^\s|^collect2:|[Ii]n function |^In file included/.test(line))
  return new SandlotError(
    'native.unavailable',
    `${compiler.join(' ')} cannot compile the native program: ${(errors.length > 0 ? errors : lines).slice(0, FIRST_LINES).join('; ')}`,
    {
      hint: 'name another compiler with CC=, or report this with the output of `sandlot doctor --json`',
      detail: { output: lines.slice(0, 40).join('\n') },
    },
  )
}

type Need = 'compiler' | 'static' | 'headers'

/** What to install, by the ID and ID_LIKE of os-release(5). */
const PACKAGES: readonly { readonly like: readonly string[]; readonly install: { readonly [need in Need]: string } }[] = [
  { like: ['alpine'], install: { compiler: 'apk add gcc musl-dev linux-headers', static: 'apk add musl-dev', headers: 'apk add musl-dev linux-headers' } },
  {
    like: ['debian', 'ubuntu'],
    install: { compiler: 'apt install gcc libc6-dev', static: 'apt install libc6-dev', headers: 'apt install libc6-dev linux-libc-dev' },
  },
  {
    like: ['fedora', 'rhel', 'centos'],
    install: { compiler: 'dnf install gcc glibc-static', static: 'dnf install glibc-static', headers: 'dnf install glibc-devel kernel-headers' },
  },
  {
    like: ['suse', 'opensuse'],
    install: {
      compiler: 'zypper install gcc glibc-devel-static',
      static: 'zypper install glibc-devel-static',
      headers: 'zypper install glibc-devel linux-glibc-devel',
    },
  },
  { like: ['arch'], install: { compiler: 'pacman -S gcc', static: 'pacman -S glibc', headers: 'pacman -S glibc linux-api-headers' } },
]

/** The command that installs what is needed to compile the native program, from the text of os-release(5). */
export const packageHint = (need: Need, osRelease: string): string => {
  const ids = [...osRelease.matchAll(/^ID(?:_LIKE)?="?([^"\n]*)"?$/gm)].flatMap((match) => match[1]!.split(' '))
  const row = PACKAGES.find(({ like }) => like.some((id) => ids.includes(id)))
  return row === undefined ? codes['native.unavailable'].hint : `${row.install[need]}, or use a package that ships the program`
}

const unavailable = (reason: string, need: Need): SandlotError => {
  let release = ''
  try {
    release = readFileSync('/etc/os-release', 'utf8')
  } catch {}
  return new SandlotError('native.unavailable', `the native program has to be compiled, and ${reason}`, { hint: packageHint(need, release), detail: { need } })
}

// Programs of other versions that nobody has needed for long, and what a killed compiler left. Running launchers do not need the file any more.
const sweep = (cache: string, hash: string): void => {
  const directory = join(cache, 'native')
  for (const name of readdirSync(directory)) {
    if (name === hash) continue
    const limit = /^[0-9a-f]{32}$/.test(name) ? UNUSED_MS : LEFTOVER_MS
    if (name.startsWith('stamp') && !/\.\d+\.\d+$/.test(name)) continue
    try {
      if (Date.now() - lstatSync(join(directory, name)).mtimeMs > limit) rmSync(join(directory, name), { recursive: true, force: true })
    } catch {}
  }
}
