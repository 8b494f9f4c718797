// What a REFUSED frame says, as the error that the caller sees. Shared by every driver whose boundary speaks the guest protocol.

import { type Code, codes, SandlotError } from '../model/error.ts'
import { type Fields, tags } from '../protocol/frame.ts'
import { errnoName } from '../model/errno.ts'

export const refusal = (fields: Fields): SandlotError => {
  const said = fields.text(tags.CODE) ?? ''
  const code: Code = Object.hasOwn(codes, said) ? (said as Code) : 'internal'
  const step = fields.text(tags.STEP) ?? 'unknown step'
  const subject = fields.text(tags.SUBJECT)
  const errno = fields.u32(tags.ERRNO) ?? 0
  const where = subject === undefined || subject === '' ? step : `${step}: ${printable(subject)}`
  return new SandlotError(code, errno === 0 ? where : `${where}: ${errnoName(errno)}`, {
    detail: { step, ...(subject === undefined ? {} : { subject }), errno },
  })
}

// Names come from outside: no control character reaches a terminal or a log through a message.
const printable = (text: string): string =>
  text.replaceAll(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)
