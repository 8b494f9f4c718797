// Runs a system-call filter as the kernel would: to verify a program before any kernel sees it, and for architectures that are not at hand. It refuses
// every instruction that the compiler does not emit, so that a mistake there cannot be interpreted away.
import { SandlotError } from '../model/error.ts'
import { op } from './bpf.ts'
import type { Insn } from './bpf.ts'

/** One call as a filter sees it; arguments are unsigned 64-bit. */
export type CallData = { readonly arch: number; readonly number: number; readonly args?: readonly bigint[] }

/** The 64 bytes of `struct seccomp_data`. */
export const record = (call: CallData): DataView => {
  const view = new DataView(new ArrayBuffer(64))
  view.setUint32(0, call.number, true)
  view.setUint32(4, call.arch, true)
  for (const [index, value] of (call.args ?? []).entries()) view.setBigUint64(16 + 8 * index, value, true)
  return view
}

/** The instructions in the bytes of a program. */
export const decode = (bytes: Uint8Array): Insn[] => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (bytes.byteLength % 8 !== 0) throw new SandlotError('internal', `a program of ${bytes.byteLength} bytes is cut off`)
  return Array.from({ length: bytes.byteLength / 8 }, (_, index): Insn => {
    const at = index * 8
    return [view.getUint16(at, true), view.getUint8(at + 2), view.getUint8(at + 3), view.getUint32(at + 4, true)]
  })
}

/** What the program returns for one record; `seen` collects the instructions that ran. */
export const interpret = (program: readonly Insn[], data: DataView, seen?: Set<number>): number => {
  let value = 0
  for (let at = 0; ; at++) {
    const insn = program[at]
    if (insn === undefined) throw new SandlotError('internal', `ran off the program at ${at}`)
    const [code, jt, jf, k] = insn
    seen?.add(at)
    switch (code) {
      case op.load:
        if (k % 4 !== 0 || k > 60) throw new SandlotError('internal', `load from ${k} at ${at}`)
        value = data.getUint32(k, true)
        break
      case op.and:
        value = (value & k) >>> 0
        break
      case op.jump:
        at += k
        break
      case op.equal:
        at += value === k ? jt : jf
        break
      case op.atLeast:
        at += value >= k ? jt : jf
        break
      case op.anyBit:
        at += (value & k) !== 0 ? jt : jf
        break
      case op.give:
        return k
      default:
        throw new SandlotError('internal', `instruction 0x${code.toString(16)} at ${at}`)
    }
  }
}
