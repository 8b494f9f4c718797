// Every way in which sandlot itself fails or refuses. What a command did is not here: that is an outcome (`outcome.ts`).
// Match errors by `code`; message and hint are for people and may change.

/** Who has to act: the `caller` (wrong request), the `host` (its kernel or set-up), a `policy`, or we (`bug`). */
export type Blame = 'caller' | 'host' | 'policy' | 'bug'

/** Does the same request stand a chance later? `after` = once the hint was followed. */
export type Retry = 'yes' | 'no' | 'after'

type Row = { readonly http: number; readonly retry: Retry; readonly blame: Blame; readonly hint: string }

/** The code table. HTTP status, retry advice, blame and default hint stand here and nowhere else. */
export const codes = {
  'argument.invalid': { http: 400, retry: 'no', blame: 'caller', hint: 'see the message for the argument and what it may be' },
  'argument.unknown': { http: 400, retry: 'no', blame: 'caller', hint: 'run with --help to see what is accepted' },
  'sandbox.not_found': { http: 404, retry: 'no', blame: 'caller', hint: 'it has ended, or the id is from another engine' },
  'sandbox.lost': { http: 502, retry: 'yes', blame: 'host', hint: 'the sandbox ended under us; create a new one' },
  'sandbox.corrupted': { http: 502, retry: 'yes', blame: 'bug', hint: 'its init broke the protocol and was ended; other sandboxes are unharmed' },
  'exec.not_found': { http: 404, retry: 'no', blame: 'caller', hint: 'no exec of that id in this sandbox' },
  'exec.stdin_closed': { http: 409, retry: 'no', blame: 'caller', hint: 'the stdin of this exec was not opened, or was closed before' },
  'output.gone': { http: 410, retry: 'no', blame: 'caller', hint: 'read from the offset in `detail.first`; a larger log keeps more' },
  'unsupported': { http: 501, retry: 'after', blame: 'host', hint: 'run `sandlot doctor` to see what this host can do' },
  'grant.refused': { http: 403, retry: 'no', blame: 'policy', hint: 'grant a narrower directory' },
  'grant.not_found': { http: 400, retry: 'no', blame: 'caller', hint: 'the directory must exist before it can be granted' },
  'mount.failed': { http: 500, retry: 'no', blame: 'host', hint: 'run `sandlot doctor`; the message names the step' },
  'mount.ids': {
    http: 501,
    retry: 'no',
    blame: 'host',
    hint: 'this file system cannot map owners; use one that can (ext4, xfs, btrfs, tmpfs; in a container: a volume), or run as an ordinary user',
  },
  'userns.unavailable': { http: 501, retry: 'after', blame: 'host', hint: 'user namespaces are off on this host; run `sandlot doctor` for the setting' },
  'native.unavailable': {
    http: 501,
    retry: 'after',
    blame: 'host',
    hint: 'install a C compiler (Debian: apt install gcc libc6-dev), or use a package that ships the program',
  },
  'launcher.failed': { http: 500, retry: 'yes', blame: 'host', hint: 'run `sandlot doctor`' },
  'state.unusable': { http: 500, retry: 'after', blame: 'host', hint: 'set SANDLOT_STATE_DIR to a directory of your own on a local disk' },
  'disk.full': { http: 507, retry: 'after', blame: 'host', hint: 'free space where the state directory lies, or set SANDLOT_STATE_DIR' },
  'internal': { http: 500, retry: 'no', blame: 'bug', hint: 'please report it with the output of `sandlot doctor --json`' },
} as const satisfies Record<string, Row>

export type Code = keyof typeof codes

export type ErrorOptions = {
  /** What to do about it; default: the table's hint. */
  readonly hint?: string
  /** Facts a program may use, e.g. `{ first: 4096 }` for `output.gone`. */
  readonly detail?: { readonly [key: string]: string | number | boolean }
  readonly cause?: unknown
}

/** The only thing sandlot throws. Recognise it by `code`, e.g. `error.code === 'sandbox.lost'`. */
export class SandlotError extends Error {
  override readonly name = 'SandlotError'
  readonly code: Code
  readonly hint: string
  readonly detail: { readonly [key: string]: string | number | boolean }

  constructor(code: Code, message: string, options: ErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.hint = options.hint ?? codes[code].hint
    this.detail = options.detail ?? {}
  }
}

/** True for an error of ours with a code of the table, whatever realm or copy of the package made it. */
export const isSandlotError = (value: unknown): value is SandlotError =>
  value instanceof Error && 'code' in value && typeof value.code === 'string' && Object.hasOwn(codes, value.code)
