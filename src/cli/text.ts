// What the CLI says to people. Names come from guests and from arguments: no control character of theirs reaches a terminal.

import { isSandlotError } from '../model/error.ts'
import type { Outcome } from '../model/outcome.ts'
import type { Changes } from '../model/sandbox.ts'
import { formatDuration } from '../model/unit.ts'

/** `text` with control characters, and those that reorder or hide what follows, as escapes. Newlines only where they are ours. */
export const visible = (text: string): string =>
  text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, (character) => {
    const code = character.codePointAt(0)!
    return character === '\t'
      ? '\\t'
      : character === '\n'
        ? '\\n'
        : character === '\r'
          ? '\\r'
          : code < 0x100
            ? `\\x${code.toString(16).padStart(2, '0')}`
            : `\\u{${code.toString(16)}}`
  })

/** The line a person reads, and the one about what to do. */
export const describeError = (error: unknown): string => {
  if (isWriteError(error)) return `sandlot: the output cannot be written: ${visible(error.message)}\n  hint: it has to go where there is room for it\n`
  if (!isSandlotError(error)) {
    const { hint } = internal
    return `sandlot: internal error: ${visible(error instanceof Error ? error.message : String(error))}\n  hint: ${hint}\n${traceOf(error)}`
  }
  return `sandlot: ${visible(error.message)}\n  hint: ${visible(error.hint)}\n${traceOf(error)}`
}

/** The same for a program. */
export const errorToJson = (error: unknown): object =>
  isSandlotError(error)
    ? { error: { code: error.code, message: error.message, hint: error.hint, detail: error.detail } }
    : { error: { code: 'internal', message: error instanceof Error ? error.message : String(error), hint: internal.hint, detail: {} } }

const isWriteError = (error: unknown): error is Error => error instanceof Error && 'syscall' in error && error.syscall === 'write'

const internal = { hint: 'please report it with the output of `sandlot doctor --json`; SANDLOT_DEBUG=1 shows where it happened' }

const traceOf = (error: unknown): string => {
  if (process.env['SANDLOT_DEBUG'] !== '1') return ''
  let text = ''
  for (let each = error; each instanceof Error; each = each.cause) text += `${each.stack ?? each.message}\n`
  return text
}

/** What a person has to know of an outcome that is not the command's own doing. */
export const describeOutcome = (outcome: Outcome): string => {
  switch (outcome.kind) {
    case 'exited':
    case 'signalled':
    case 'cancelled':
      return ''
    case 'timeout':
      return `sandlot: ended after ${formatDuration(outcome.afterMs)}, as --timeout says\n`
    case 'limit':
      return `sandlot: ended by its limit of ${outcome.which}\n`
    case 'denied':
      return `sandlot: ended by the fence: ${visible(outcome.what)}\n`
    case 'unstarted':
      return `sandlot: ${visible(outcome.message)}\n`
    case 'lost':
      return `sandlot: the sandbox ended under the command: ${visible(outcome.message)}\n`
  }
}

export const describeChanges = (changes: Changes): string => {
  const here = changes.overlays.find(({ name }) => name === 'here')?.files ?? 0
  if (here === 0) return ''
  const files = here === 1 ? '1 file' : `${here} files`
  return `sandlot: ${files} changed and dropped; --write . keeps what changes in the current directory\n`
}

export const describeNotes = (notes: readonly string[]): string => notes.map((note) => `sandlot: ${visible(note)}\n`).join('')
