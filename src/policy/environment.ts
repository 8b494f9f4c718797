// Which variables of the caller's environment a command inside may see. An allow-list: what is not named here does not exist inside,
// whatever it holds (tokens, proxies, LD_PRELOAD, BASH_ENV). What the caller names explicitly comes last and is not judged.

import { SandlotError } from '../model/error.ts'

/** Kept as they are: language, time and terminal. */
export const keptVariables: readonly string[] = [
  'LANG',
  'LANGUAGE',
  'LC_ALL',
  'LC_ADDRESS',
  'LC_COLLATE',
  'LC_CTYPE',
  'LC_IDENTIFICATION',
  'LC_MEASUREMENT',
  'LC_MESSAGES',
  'LC_MONETARY',
  'LC_NAME',
  'LC_NUMERIC',
  'LC_PAPER',
  'LC_TELEPHONE',
  'LC_TIME',
  'TZ',
  'TERM',
  'COLORTERM',
  'NO_COLOR',
  'FORCE_COLOR',
  'CLICOLOR',
  'CLICOLOR_FORCE',
]

/** Name a file or directory; kept when that is visible inside under the same name. Where certificates are is no secret, but a name that leads nowhere breaks TLS. */
export const keptPaths: readonly string[] = [
  'SSL_CERT_FILE',
  'SSL_CERT_DIR',
  'CURL_CA_BUNDLE',
  'REQUESTS_CA_BUNDLE',
  'GIT_SSL_CAINFO',
  'NIX_SSL_CERT_FILE',
  'JAVA_HOME',
]

export type EnvironmentInput = {
  readonly variables: ReadonlyMap<string, string>
  /** Variables of toolchains, already decided on. */
  readonly tools: ReadonlyMap<string, string>
  /** What the caller asked for. */
  readonly explicit: ReadonlyMap<string, string>
  /** Is this path of the host visible under the same name? */
  readonly isVisible: (path: string) => boolean
  readonly path: string
  readonly cwd: string
  readonly home: string
  readonly user: string
  readonly shell: string
}

/** The whole environment of a command. */
export const makeEnvironment = (input: EnvironmentInput): Map<string, string> => {
  const env = new Map([
    ['PATH', input.path],
    ['HOME', input.home],
    ['USER', input.user],
    ['LOGNAME', input.user],
    ['SHELL', input.shell],
    ['PWD', input.cwd],
    ['TMPDIR', '/tmp'],
  ])
  for (const name of keptVariables) {
    const value = input.variables.get(name)
    if (value !== undefined) env.set(name, value)
  }
  // Without a language programs believe in ASCII; C.UTF-8 is built into every C library of the last ten years.
  if (!env.has('LANG') && !env.has('LC_ALL') && !env.has('LC_CTYPE')) env.set('LANG', 'C.UTF-8')
  for (const name of keptPaths) {
    const value = input.variables.get(name)
    if (value !== undefined && input.isVisible(value)) env.set(name, value)
  }
  for (const [name, value] of input.tools) env.set(name, value)
  for (const [name, value] of input.explicit) {
    if (!/^[^=\0]+$/.test(name))
      throw new SandlotError('argument.invalid', `not a name for a variable: ${JSON.stringify(name)}`, { hint: 'a name is not empty and holds no `=`' })
    if (value.includes('\0')) throw new SandlotError('argument.invalid', `the value of ${name} holds a NUL byte`, { hint: 'the kernel ends a variable there' })
    env.set(name, value)
  }
  return env
}
