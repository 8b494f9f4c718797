import assert from 'node:assert/strict'
import { describe, test } from 'node:test'

import fc from 'fast-check'

import { allow, compile, encode, errno, kill, op } from '../../src/policy/bpf.ts'
import type { Insn, Rule, Stretch, Verdict } from '../../src/policy/bpf.ts'
import { decode, interpret, record } from '../../src/policy/interpret.ts'
import { byArgument, filterFor, never, unknown } from '../../src/policy/seccomp.ts'
import { highest, numbers } from '../../src/policy/syscall.ts'
import type { Arch } from '../../src/policy/syscall.ts'

const arches: readonly Arch[] = ['x64', 'arm64']
// AUDIT_ARCH_X86_64 and AUDIT_ARCH_AARCH64 of linux/audit.h
const audit = { x64: 0xc000_003e, arm64: 0xc000_00b7 }
const [eperm, enosys, eafnosupport] = [errno(1), errno(38), errno(97)]
const dirt = 0xdead_beef_0000_0000n
const big = (args: readonly number[]): bigint[] => args.map((value) => BigInt(value >>> 0))
const dirty = (args: readonly number[]): bigint[] => big(args).map((value) => value | dirt)

// What each rule decides, written down by hand from the manual pages and not from the table under test: [call, arguments, verdict].
const cases: readonly (readonly [name: string, args: readonly number[], verdict: number])[] = [
  ['clone', [0x11], allow], // SIGCHLD: fork
  ['clone', [0x003d_0f00], allow], // a thread of the C library
  ['clone', [0x4111], allow], // vfork through clone
  ['clone', [0x0080_0000], allow], // CLONE_UNTRACED, next to the bits that matter
  ['clone', [0x0002_0011], eperm], // NEWNS
  ['clone', [0x0200_0011], eperm], // NEWCGROUP
  ['clone', [0x0400_0011], eperm], // NEWUTS
  ['clone', [0x0800_0011], eperm], // NEWIPC
  ['clone', [0x1000_0011], eperm], // NEWUSER
  ['clone', [0x2000_0011], eperm], // NEWPID
  ['clone', [0x4000_0011], eperm], // NEWNET
  ['chmod', [0, 0o755], allow],
  ['chmod', [0, 0o1777], allow], // sticky
  ['chmod', [0o6000, 0o644], allow], // the path's address happens to have the bits
  ['chmod', [0, 0o4755], eperm],
  ['chmod', [0, 0o2755], eperm],
  ['fchmod', [3, 0o700], allow],
  ['fchmod', [3, 0o4700], eperm],
  ['fchmod', [3, 0o2700], eperm],
  ['fchmodat', [3, 0o6000, 0o644], allow],
  ['fchmodat', [3, 0, 0o4711], eperm],
  ['fchmodat', [3, 0, 0o2711], eperm],
  ['fchmodat2', [3, 0, 0o644, 0x100], allow],
  ['fchmodat2', [3, 0, 0o4644, 0x100], eperm],
  ['fchmodat2', [3, 0, 0o2644, 0], eperm],
  ['creat', [0, 0o644], allow],
  ['creat', [0, 0o4755], eperm],
  ['open', [0, 0, 0o6777], allow], // no O_CREAT: the mode is whatever was in the register
  ['open', [0, 0o101, 0o644], allow],
  ['open', [0, 0o101, 0o4755], eperm],
  ['open', [0, 0o101, 0o2755], eperm],
  ['open', [0, 0o20_200_002, 0o4755], eperm], // O_TMPFILE
  ['openat', [0o101, 0, 0o2_000_000, 0o6777], allow],
  ['openat', [0, 0, 0o101, 0o644], allow],
  ['openat', [0, 0, 0o101, 0o4755], eperm],
  ['openat', [0, 0, 0o101, 0o2755], eperm],
  ['openat', [0, 0, 0o20_200_002, 0o2755], eperm],
  ['openat', [0, 0, 0o200_000, 0o4755], allow], // O_DIRECTORY alone
  ['mkdir', [0, 0o2755], allow], // the kernel drops the bits there
  ['mkdirat', [3, 0, 0o2755], allow],
  ['mknod', [0, 0o010_644, 0], allow], // FIFO
  ['mknod', [0, 0o100_644, 0], allow], // regular
  ['mknod', [0, 0o140_644, 0], allow], // socket
  ['mknod', [0, 0o120_644, 0], allow], // a link: the kernel's own to refuse
  ['mknod', [0, 0o020_644, 0x501], eperm], // character device
  ['mknod', [0, 0o060_644, 0x801], eperm], // block device
  ['mknod', [0, 0o104_755, 0], eperm],
  ['mknodat', [3, 0, 0o010_600, 0], allow],
  ['mknodat', [3, 0, 0o600, 0], allow],
  ['mknodat', [3, 0, 0o020_600, 0x501], eperm],
  ['mknodat', [3, 0, 0o060_600, 0x801], eperm],
  ['mknodat', [3, 0, 0o102_755, 0], eperm],
  ['renameat2', [4, 4, 4, 4, 1], allow], // NOREPLACE
  ['renameat2', [3, 0, 3, 0, 2], allow], // EXCHANGE
  ['renameat2', [3, 0, 3, 0, 4], eperm], // WHITEOUT
  ['renameat2', [3, 0, 3, 0, 5], eperm],
  ['ioctl', [0, 0x5401], allow], // TCGETS
  ['ioctl', [0, 0x5413], allow], // TIOCGWINSZ
  ['ioctl', [0x5412, 0x5410], allow],
  ['ioctl', [0, 0x5412], eperm], // TIOCSTI
  ['ioctl', [0, 0x541c], eperm], // TIOCLINUX
  ['ioctl', [0, 0x541d], eperm], // TIOCCONS
  ['ioctl', [0, 0x5423], eperm], // TIOCSETD
  ['personality', [0], allow],
  ['personality', [8], allow], // PER_LINUX32
  ['personality', [0x0002_0000], allow], // UNAME26
  ['personality', [0x0002_0008], allow],
  ['personality', [0xffff_ffff], allow], // what is it now
  ['personality', [0x0004_0000], eperm], // ADDR_NO_RANDOMIZE
  ['personality', [0x0040_0000], eperm], // READ_IMPLIES_EXEC
  ['socket', [1, 1, 0], allow], // UNIX
  ['socket', [2, 1, 6], allow], // INET
  ['socket', [10, 2, 17], allow], // INET6
  ['socket', [16, 3, 0], allow], // NETLINK_ROUTE
  ['socket', [16, 3, 4], eafnosupport], // NETLINK_SOCK_DIAG
  ['socket', [16, 3, 9], eafnosupport], // NETLINK_AUDIT
  ['socket', [16, 3, 12], eafnosupport], // NETLINK_NETFILTER
  ['socket', [17, 3, 0], eafnosupport], // PACKET
  ['socket', [38, 5, 0], eafnosupport], // ALG
  ['socket', [40, 1, 0], eafnosupport], // VSOCK
  ['socket', [44, 3, 0], eafnosupport], // XDP
  ['socket', [0, 1, 0], eafnosupport],
  ['socket', [46, 1, 0], eafnosupport],
  ['socketpair', [1, 1, 0], allow],
  ['socketpair', [2, 1, 0], eafnosupport],
  ['socketpair', [30, 1, 0], eafnosupport], // TIPC
  ['clone3', [], enosys],
  ['openat2', [], enosys],
  ['unshare', [0], eperm],
  ['setns', [3, 0], eperm],
  ['mount', [], eperm],
  ['umount2', [], eperm],
  ['move_mount', [], eperm],
  ['open_tree_attr', [], eperm],
  ['pivot_root', [], eperm],
  ['chroot', [], eperm],
  ['ptrace', [0], eperm],
  ['process_vm_writev', [], eperm],
  ['pidfd_getfd', [], eperm],
  ['bpf', [], eperm],
  ['io_uring_setup', [], eperm],
  ['keyctl', [], eperm],
  ['read', [], allow],
  ['write', [], allow],
  ['execve', [], allow],
  ['exit_group', [], allow],
  ['rt_sigreturn', [], allow],
  ['restart_syscall', [], allow],
  ['seccomp', [], allow], // programs may narrow themselves further
  ['landlock_restrict_self', [], allow],
  ['pidfd_open', [], allow],
  ['close_range', [], allow],
  ['process_mrelease', [], allow],
  ['file_setattr', [], allow],
]

// What is refused outright, as numbers and by hand, so that a name lost from the list is noticed.
const outright: Readonly<Record<Arch, readonly number[]>> = {
  x64: [
    101, 103, 134, 153, 154, 155, 159, 161, 163, 164, 165, 166, 167, 168, 169, 170, 171, 172, 173, 175, 176, 179, 180, 212, 227, 246, 248, 249, 250, 256, 272,
    279, 298, 300, 303, 304, 305, 308, 310, 311, 312, 313, 320, 321, 323, 425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 440, 442, 443, 447, 457, 458, 459,
    460, 461, 467,
  ],
  arm64: [
    18, 39, 40, 41, 42, 51, 58, 60, 89, 97, 104, 105, 106, 112, 116, 117, 142, 161, 162, 170, 171, 217, 218, 219, 224, 225, 238, 239, 241, 262, 264, 265, 266,
    268, 270, 271, 272, 273, 280, 282, 294, 425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 440, 442, 443, 447, 457, 458, 459, 460, 461, 467,
  ],
}

const program = (arch: Arch): Insn[] => decode(filterFor(arch))
const decide = (arch: Arch, number: number, args: readonly bigint[] = [], seen?: Set<number>): number =>
  interpret(program(arch), record({ arch: audit[arch], number, args }), seen)

for (const arch of arches) {
  describe(`the filter of ${arch}`, () => {
    const table = numbers(arch)
    const here = cases.filter(([name]) => table.has(name))

    test('decides each case as written down, whatever lies in the upper halves of the arguments', () => {
      for (const [name, args, verdict] of here) {
        const what = `${name}(${args.map((value) => `0x${value.toString(16)}`).join(', ')})`
        assert.equal(decide(arch, table.get(name)!, big(args)), verdict, what)
        assert.equal(decide(arch, table.get(name)!, dirty(args)), verdict, `${what} with dirt`)
      }
    })

    test('has a case on both sides of every rule that looks at arguments', () => {
      for (const [name, verdict] of byArgument) {
        if (!table.has(name)) continue
        assert.ok(typeof verdict === 'object')
        const wanted = new Set([verdict.otherwise, ...verdict.rules.map((rule) => rule.then)])
        const met = new Set(here.filter(([called]) => called === name).map(([, , result]) => result))
        assert.deepEqual(met, wanted, name)
      }
    })

    test('refuses exactly these calls whatever the arguments, and allows all others but those with rules', () => {
      const ruled = new Set([...byArgument.keys()].map((name) => table.get(name)))
      for (const args of [big([0, 0, 0, 0, 0, 0]), dirty([1, 2, 16, 0, 5, 6]), dirty([0xffff_ffff, 0xffff_ffff, 0xffff_ffff])]) {
        const met: number[] = []
        for (let number = 0; number <= highest; number++) {
          if (ruled.has(number)) continue
          const verdict = decide(arch, number, args)
          if (verdict === eperm) met.push(number)
          else assert.equal(verdict, number === 435 || number === 437 ? enosys : allow, String(number))
        }
        assert.deepEqual(met, outright[arch])
      }
    })

    test('ends a process that comes by another architecture or by x32', () => {
      for (const foreign of [0x4000_0003, 0x4000_0028, 0xc000_00f3, 0, 0xffff_ffff, arch === 'x64' ? audit.arm64 : audit.x64]) {
        for (const number of [0, 1, table.get('socket')!, 102, highest, highest + 1, 0x4000_0000]) {
          assert.equal(interpret(program(arch), record({ arch: foreign, number })), kill, `${foreign.toString(16)} ${number}`)
        }
      }
      for (const number of [0x4000_0000, 0x4000_0001, 0x4000_0000 + table.get('socket')!, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff]) {
        assert.equal(decide(arch, number), arch === 'x64' ? kill : enosys, number.toString(16))
      }
    })

    test('answers numbers above the highest known one with ENOSYS', () => {
      assert.equal(decide(arch, highest), allow)
      for (const number of [highest + 1, highest + 2, 512, 9000, 0x3fff_ffff]) assert.equal(decide(arch, number), enosys, String(number))
    })

    test('has no instruction that these fixed inputs do not reach', () => {
      const seen = new Set<number>()
      for (let number = 0; number <= highest + 2; number++) decide(arch, number, [], seen)
      for (const [name, args] of here) decide(arch, table.get(name)!, big(args), seen)
      decide(arch, 0x4000_0000, [], seen)
      interpret(program(arch), record({ arch: 0x4000_0003, number: 0 }), seen)
      const missed = program(arch).flatMap((insn, at) => (seen.has(at) ? [] : [`${at}: ${insn.join(' ')}`]))
      assert.deepEqual(missed, [])
    })

    test('agrees with a linear reading of the rules', () => {
      const names = new Map([...table].map(([name, number]) => [number, name]))
      const linear = (number: number, args: readonly bigint[]): number => {
        if (arch === 'x64' && number >= 0x4000_0000) return kill
        if (number > highest) return enosys
        const name = names.get(number)
        if (name === undefined) return allow
        if (never.includes(name)) return eperm
        if (unknown.includes(name)) return enosys
        const verdict = byArgument.get(name)
        return verdict === undefined ? allow : judge(verdict, args)
      }
      const interesting = [...byArgument.keys(), ...never].flatMap((name) => table.get(name) ?? [])
      const number = fc.oneof(fc.constantFrom(...interesting), fc.integer({ min: 0, max: highest + 3 }), fc.integer({ min: 0, max: 0xffff_ffff }))
      const values = [...new Set(cases.flatMap(([, args]) => args))].map((value) => BigInt(value >>> 0))
      const argument = fc.oneof(
        fc.constantFrom(...values),
        fc.tuple(fc.constantFrom(...values), fc.bigInt({ min: 0n, max: 0xffff_ffffn })).map(([low, high]) => low | (high << 32n)),
        fc.bigInt({ min: 0n, max: 0xffff_ffff_ffff_ffffn }),
      )
      const seen = new Set<number>()
      fc.assert(
        fc.property(number, fc.array(argument, { minLength: 6, maxLength: 6 }), (called, args) => {
          assert.equal(decide(arch, called, args, seen), linear(called, args))
        }),
        { numRuns: 5000 },
      )
      assert.ok(seen.size > program(arch).length * 0.9, `random calls reached only ${seen.size} of ${program(arch).length} instructions`)
    })

    test('fits the kernel and loads fast: few instructions, a shallow tree', () => {
      assert.ok(program(arch).length < 150, `${program(arch).length} instructions`)
      let longest = 0
      for (let called = 0; called <= highest; called++) {
        const seen = new Set<number>()
        decide(arch, called, [], seen)
        longest = Math.max(longest, seen.size)
      }
      assert.ok(longest <= 18, `${longest} instructions for one call`)
    })
  })
}

const judge = (verdict: Verdict, args: readonly bigint[]): number => {
  if (typeof verdict === 'number') return verdict
  const holds = (rule: Rule): boolean =>
    rule.when.every((which) => {
      const value = args[which.arg]! & 0xffff_ffffn
      return 'anyOf' in which
        ? (value & BigInt(which.anyOf)) !== 0n
        : which.oneOf.some((wanted) => (value & BigInt(which.mask ?? 0xffff_ffff)) === BigInt(wanted))
    })
  return verdict.rules.find(holds)?.then ?? verdict.otherwise
}

describe('the compiler', () => {
  // Small values, so that random arguments meet random rules.
  const value = fc.integer({ min: 0, max: 7 })
  const result = fc.integer({ min: 1, max: 6 }).map(errno)
  const argument = fc.integer({ min: 0, max: 5 })
  const which = fc.oneof(
    fc.record({ arg: argument, anyOf: value }),
    fc.record({ arg: argument, oneOf: fc.array(value, { minLength: 1, maxLength: 4 }) }),
    fc.record({ arg: argument, mask: value, oneOf: fc.array(value, { minLength: 1, maxLength: 4 }) }),
  )
  const rule = fc.record({ when: fc.array(which, { maxLength: 3 }), then: result })
  const verdict: fc.Arbitrary<Verdict> = fc.oneof(result, fc.record({ rules: fc.array(rule, { minLength: 1, maxLength: 4 }), otherwise: result }))
  const list = <Of>(of: fc.Arbitrary<Of>, length: number): fc.Arbitrary<Of[]> => fc.array(of, { minLength: length, maxLength: length })
  const tableOf = (verdicts: number, steps: number): fc.Arbitrary<Stretch[]> =>
    fc.tuple(list(verdict, verdicts), list(fc.tuple(fc.integer({ min: 1, max: 3 }), fc.nat()), steps)).map(([choice, picks]) => {
      let from = 0
      return [{ from, verdict: choice[0]! }, ...picks.map(([step, pick]) => ({ from: (from += step), verdict: choice[pick % verdicts]! }))]
    })
  const table = fc.oneof(tableOf(1, 0), tableOf(2, 3), tableOf(4, 20), tableOf(60, 120))

  test('agrees with a linear reading of any table, far jumps included', () => {
    let longest = 0
    fc.assert(
      fc.property(table, list(fc.tuple(fc.integer({ min: 0, max: 300 }), list(value, 6)), 60), (rows, calls) => {
        const compiled = decode(encode(compile('x64', rows)))
        longest = Math.max(longest, compiled.length)
        for (const [number, args] of calls) {
          const wanted = judge(rows.findLast((row) => row.from <= number)!.verdict, big(args))
          assert.equal(interpret(compiled, record({ arch: audit.x64, number, args: dirty(args) })), wanted)
        }
      }),
      { numRuns: 300 },
    )
    assert.ok(longest > 400, `the longest program had ${longest} instructions`)
  })

  test('encodes an instruction as struct sock_filter does', () => {
    assert.deepEqual([...encode([[op.equal, 1, 2, 0xc000_003e]])], [0x15, 0, 1, 2, 0x3e, 0, 0, 0xc0])
    assert.deepEqual(decode(encode([[op.give, 0, 0, kill]])), [[op.give, 0, 0, kill]])
  })
})

describe('the interpreter', () => {
  const data = record({ arch: 0, number: 0 })

  test('refuses what the compiler does not emit and what leaves the program', () => {
    assert.throws(() => interpret([[0x28, 0, 0, 0]], data), /instruction 0x28/)
    assert.throws(() => interpret([[op.load, 0, 0, 64]], data), /load from 64/)
    assert.throws(() => interpret([[op.load, 0, 0, 2]], data), /load from 2/)
    assert.throws(() => interpret([[op.equal, 5, 5, 0]], data), /ran off/)
    assert.throws(() => decode(new Uint8Array(12)), /cut off/)
  })
})

describe('the table of numbers', () => {
  // Numbers from the manual pages and the kernel's own tables, not from ours.
  const known: readonly (readonly [name: string, x64: number | undefined, arm64: number | undefined])[] = [
    ['read', 0, 63],
    ['open', 2, undefined],
    ['clone', 56, 220],
    ['execve', 59, 221],
    ['ptrace', 101, 117],
    ['personality', 135, 92],
    ['arch_prctl', 158, undefined],
    ['mount', 165, 40],
    ['umount2', 166, 39],
    ['keyctl', 250, 219],
    ['openat', 257, 56],
    ['unshare', 272, 97],
    ['perf_event_open', 298, 241],
    ['setns', 308, 268],
    ['seccomp', 317, 277],
    ['bpf', 321, 280],
    ['userfaultfd', 323, 282],
    ['rseq', 334, 293],
    ['kexec_file_load', 320, 294],
    ['io_uring_setup', 425, 425],
    ['clone3', 435, 435],
    ['openat2', 437, 437],
    ['mount_setattr', 442, 442],
    ['memfd_secret', 447, 447],
    ['fchmodat2', 452, 452],
    ['listmount', 458, 458],
    ['mseal', 462, 462],
    ['file_setattr', 469, 469],
  ]

  test('has the numbers of the kernel on both architectures', () => {
    for (const [name, x64, arm64] of known) assert.deepEqual([numbers('x64').get(name), numbers('arm64').get(name)], [x64, arm64], name)
  })

  test('names each number once and none above the highest', () => {
    for (const arch of arches) {
      const values = [...numbers(arch).values()]
      assert.equal(new Set(values).size, values.length)
      assert.equal(Math.max(...values), highest)
    }
  })
})
