// The system-call filter: the last layer put on before a command starts, and the one that no later mistake inside can take off.
//
// First form: a list of what must never work inside. Anything not named here is allowed, so it is the namespaces and the absent capabilities that carry
// the fence, and this list narrows the kernel behind them. A default-deny table with profiles is to take its place.
//
// A filter sees registers, never memory: no path, no address, no clone3 or openat2 structure. Those two are told ENOSYS, on which C libraries fall back to
// calls whose flags and modes lie in registers. All comparisons are of the low 32 bits, as the kernel reads these arguments.
//
// What ordinary software loses by it: set-id bits, on directories too since a filter cannot see what a path names (`chmod g+s`, `mkdir -m 2775`,
// `git init --shared`, `tar -p` of such files say EPERM; plain `tar`, `cp -a` and `git` do not set them), and what needs ptrace (strace, gdb, the leak
// check of an address-sanitized program: ASAN_OPTIONS=detect_leaks=0).
import { SandlotError } from '../model/error.ts'
import { allow, compile, encode, errno, kill } from './bpf.ts'
import type { Rule, Stretch, Verdict } from './bpf.ts'
import { highest, numbers } from './syscall.ts'
import type { Arch } from './syscall.ts'

export const refused = errno(1) // EPERM
export const absent = errno(38) // ENOSYS
export const noFamily = errno(97) // EAFNOSUPPORT

const words = (text: string): string[] => text.trim().split(/\s+/)

/** Refused whatever the arguments. */
export const never: readonly string[] = words(`
  unshare setns
  mount umount2 pivot_root chroot
  open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick mount_setattr
  statmount listmount lsm_get_self_attr lsm_set_self_attr lsm_list_modules
  name_to_handle_at open_by_handle_at
  ptrace process_vm_readv process_vm_writev process_madvise kcmp pidfd_getfd migrate_pages move_pages
  bpf perf_event_open userfaultfd memfd_secret fanotify_init
  io_uring_setup io_uring_enter io_uring_register
  add_key request_key keyctl
  init_module finit_module delete_module kexec_load kexec_file_load
  reboot swapon swapoff acct quotactl quotactl_fd syslog vhangup
  settimeofday clock_settime clock_adjtime adjtimex
  sethostname setdomainname iopl ioperm modify_ldt
  lookup_dcookie uselib nfsservctl
`)

/** Answered as by a kernel that does not have them. */
export const unknown: readonly string[] = words('clone3 openat2')

const refuseIf = (...rules: Rule['when'][]): Verdict => ({ rules: rules.map((when) => ({ when, then: refused })), otherwise: allow })

// Every CLONE_NEW* but NEWTIME, whose bit is part of the exit signal in clone.
const newNamespaces = 0x7e02_0000
// S_ISUID and S_ISGID. mkdir and mkdirat need no rule: the kernel drops these bits there.
const setId = 0o6000
// O_CREAT and __O_TMPFILE: without one of them the mode is not read, and callers leave anything in its register.
const creates = 0o20_000_100
const fileType = 0o170_000
const devices = [0o020_000, 0o060_000]

const modeIn = (arg: number): Verdict => refuseIf([{ arg, anyOf: setId }])
const openMode = (flags: number): Verdict =>
  refuseIf([
    { arg: flags, anyOf: creates },
    { arg: flags + 1, anyOf: setId },
  ])
const nodeMode = (arg: number): Verdict => refuseIf([{ arg, anyOf: setId }], [{ arg, mask: fileType, oneOf: devices }])
const [modeSecond, modeThird] = [modeIn(1), modeIn(2)]

/** Decided by their arguments. */
export const byArgument: ReadonlyMap<string, Verdict> = new Map<string, Verdict>([
  ['clone', refuseIf([{ arg: 0, anyOf: newNamespaces }])],
  ['chmod', modeSecond],
  ['fchmod', modeSecond],
  ['creat', modeSecond],
  ['fchmodat', modeThird],
  ['fchmodat2', modeThird],
  ['open', openMode(1)],
  ['openat', openMode(2)],
  ['mknod', nodeMode(1)],
  ['mknodat', nodeMode(2)],
  // RENAME_WHITEOUT makes a device node (0, 0) where a file was, on the host's disk where a directory is writable for real.
  ['renameat2', refuseIf([{ arg: 4, anyOf: 4 }])],
  // TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD: typing into the caller's terminal, taking the console, line disciplines.
  ['ioctl', refuseIf([{ arg: 1, oneOf: [0x5412, 0x541c, 0x541d, 0x5423] }])],
  // PER_LINUX and PER_LINUX32, each with and without UNAME26, and the question what it is now: nothing that makes addresses predictable or data executable.
  ['personality', { rules: [{ when: [{ arg: 0, oneOf: [0, 8, 0x2_0000, 0x2_0008, 0xffff_ffff] }], then: allow }], otherwise: refused }],
  [
    'socket',
    {
      rules: [
        // AF_UNIX, AF_INET, AF_INET6
        { when: [{ arg: 0, oneOf: [1, 2, 10] }], then: allow },
        // AF_NETLINK with NETLINK_ROUTE, which getifaddrs needs
        {
          when: [
            { arg: 0, oneOf: [16] },
            { arg: 2, oneOf: [0] },
          ],
          then: allow,
        },
      ],
      otherwise: noFamily,
    },
  ],
  ['socketpair', { rules: [{ when: [{ arg: 0, oneOf: [1] }], then: allow }], otherwise: noFamily }],
])

/** Calls that only one architecture has; any other name missing from a table is a mistake in it. */
const x64Only = new Set(words('open creat chmod mknod iopl ioperm modify_ldt uselib'))

/** What is decided for each number of an architecture that is not simply allowed. */
export const verdicts = (arch: Arch): ReadonlyMap<number, Verdict> => {
  const table = numbers(arch)
  const found = new Map<number, Verdict>()
  const put = (name: string, verdict: Verdict): void => {
    const number = table.get(name)
    if (number !== undefined) found.set(number, verdict)
    else if (arch === 'x64' || !x64Only.has(name)) throw new SandlotError('internal', `no number for ${name} on ${arch}`)
  }
  for (const name of never) put(name, refused)
  for (const name of unknown) put(name, absent)
  for (const [name, verdict] of byArgument) put(name, verdict)
  return found
}

/** The whole space of numbers as stretches of one verdict each. */
export const stretches = (arch: Arch): Stretch[] => {
  const list: Stretch[] = [{ from: 0, verdict: allow }]
  const put = (from: number, verdict: Verdict): void => {
    const last = list.at(-1)!
    if (last.from === from) list.pop()
    if (list.at(-1)?.verdict !== verdict) list.push({ from, verdict })
  }
  const found = verdicts(arch)
  for (const number of Uint32Array.from(found.keys()).sort()) {
    put(number, found.get(number)!)
    put(number + 1, allow)
  }
  put(highest + 1, absent)
  if (arch === 'x64') put(0x4000_0000, kill) // x32
  return list
}

const made = new Map<Arch, Uint8Array>()

/**
 * The filter of an architecture, the bytes of `struct sock_filter[]`, made once.
 * A foreign architecture and x32 end the process; numbers above the highest known one are ENOSYS.
 */
export const filterFor = (arch: Arch): Uint8Array => {
  const known = made.get(arch)
  if (known !== undefined) return known
  const bytes = encode(compile(arch, stretches(arch)))
  made.set(arch, bytes)
  return bytes
}
