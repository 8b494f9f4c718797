// Decisions over a system call's number and arguments, compiled to classic BPF. The numbers become a binary search tree: on load the kernel walks the
// program once for every number, and a chain of comparisons costs three times as much there. The program is built from its end, so that every jump is
// forward to something already placed and the few returns are shared.
import type { Arch } from './syscall.ts'

/** One instruction of classic BPF: `jt` and `jf` are how many to skip when a test holds or not. */
export type Insn = readonly [code: number, jt: number, jf: number, k: number]

export const op = { load: 0x20, and: 0x54, jump: 0x05, equal: 0x15, atLeast: 0x35, anyBit: 0x45, give: 0x06 } as const

/** What a filter returns. */
export const allow = 0x7fff_0000
export const kill = 0x8000_0000
export const errno = (number: number): number => 0x0005_0000 | number

/** `arch` as the kernel reports it. x32 shares the value of x64 and is told apart by bit 30 of the number. */
export const audit = { x64: 0xc000_003e, arm64: 0xc000_00b7 } as const satisfies Record<Arch, number>

/** A test of the low 32 bits of one argument; the upper half is the caller's to fill with anything. */
export type Test =
  /** The value, after `mask` if given, is one of these. */
  | { readonly arg: number; readonly oneOf: readonly number[]; readonly mask?: number }
  /** At least one of these bits is set. */
  | { readonly arg: number; readonly anyOf: number }

/** Holds when all its tests hold. */
export type Rule = { readonly when: readonly Test[]; readonly then: number }

/** A return value, or rules of which the first that holds decides. */
export type Verdict = number | { readonly rules: readonly Rule[]; readonly otherwise: number }

/** A stretch of numbers with one verdict: from `from` up to the next stretch. */
export type Stretch = { readonly from: number; readonly verdict: Verdict }

const offset = { number: 0, arch: 4, arg: (index: number): number => 16 + 8 * index }

/** Compiles stretches, ascending and the first at 0, into a program that kills every other architecture. */
export const compile = (arch: Arch, stretches: readonly Stretch[]): Insn[] => {
  const back: Insn[] = [] // last instruction first; a label is an index into it
  const returns = new Map<number, number>()
  const blocks = new Map<Verdict, number>()

  const place = (code: number, k: number, jt = 0, jf = 0): number => back.push([code, jt, jf, k]) - 1
  const skip = (label: number): number => back.length - label - 1

  // A conditional jump has 8 bits. What lies further away is repeated (a return) or reached by a long jump.
  const near = (label: number): number => {
    if (skip(label) < 250) return label
    const [code, , , k] = back[label]!
    return code === op.give ? give(k) : place(op.jump, skip(label))
  }
  const give = (value: number): number => {
    const known = returns.get(value)
    if (known !== undefined && skip(known) < 250) return known
    const label = place(op.give, value)
    returns.set(value, label)
    return label
  }
  const branch = (code: number, k: number, yes: number, no: number): number => {
    const [to, or] = [near(yes), near(no)]
    return place(code, k, skip(to), skip(or))
  }

  const test = (which: Test, yes: number, no: number): number => {
    let label = no
    if ('anyOf' in which) label = branch(op.anyBit, which.anyOf, yes, no)
    else {
      for (const value of which.oneOf.toReversed()) label = branch(op.equal, value, yes, label)
      if (which.mask !== undefined) label = follow(op.and, which.mask, label)
    }
    return follow(op.load, offset.arg(which.arg), label)
  }
  // An instruction that runs on into `label`.
  const follow = (code: number, k: number, label: number): number => {
    if (skip(label) > 0) place(op.jump, skip(label))
    return place(code, k)
  }
  const leaf = (verdict: Verdict): number => {
    if (typeof verdict === 'number') return give(verdict)
    const known = blocks.get(verdict)
    if (known !== undefined) return known
    let label = give(verdict.otherwise)
    for (const rule of verdict.rules.toReversed()) {
      let hit = give(rule.then)
      for (const which of rule.when.toReversed()) hit = test(which, hit, label)
      label = hit
    }
    blocks.set(verdict, label)
    return label
  }

  const tree = (first: number, last: number): number => {
    if (first === last) return leaf(stretches[first]!.verdict)
    const middle = (first + last + 1) >> 1
    const right = tree(middle, last)
    const left = tree(first, middle - 1)
    return branch(op.atLeast, stretches[middle]!.from, right, left)
  }

  const start = follow(op.load, offset.number, tree(0, stretches.length - 1))
  follow(op.load, offset.arch, branch(op.equal, audit[arch], start, give(kill)))
  return back.toReversed()
}

/** The bytes of `struct sock_filter[]`; little endian, as both architectures and whatever runs this are. */
export const encode = (program: readonly Insn[]): Uint8Array => {
  const words = new Uint32Array(program.length * 2)
  let at = 0
  for (const insn of program) {
    words[at++] = insn[0] | (insn[1] << 16) | (insn[2] << 24)
    words[at++] = insn[3]
  }
  return new Uint8Array(words.buffer)
}
