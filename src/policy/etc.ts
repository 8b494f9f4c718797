// What /etc holds inside a root `host`: an allow-list. Three kinds: files that we write ourselves, files and small directories that are
// copied, directories that are shown. Copying costs once a launcher, showing costs about 25 µs a sandbox; so what is small is copied.
//
// Left out on purpose: shadow and gshadow, ssl/private and pki/tls/private (keys), ssh, machine-id, fstab, environment and profile.d (they carry
// proxies and reset PATH), gitconfig, npmrc, pip.conf, maven and wgetrc (they may hold tokens).

import type { EtcRule } from '../model/facts.ts'

type Account = { readonly name: string; readonly uid: number; readonly gid: number; readonly home: string; readonly login: boolean }

/** Who has a name inside. Commands run as `user` unless asked otherwise; `sandlot` is the id of init and supervisors. */
export const accounts: readonly Account[] = [
  { name: 'root', uid: 0, gid: 0, home: '/root', login: true },
  { name: 'daemon', uid: 1, gid: 1, home: '/usr/sbin', login: false },
  { name: 'bin', uid: 2, gid: 2, home: '/bin', login: false },
  { name: 'user', uid: 1000, gid: 1000, home: '/home/user', login: true },
  { name: 'sandlot', uid: 65533, gid: 65533, home: '/', login: false },
  { name: 'nobody', uid: 65534, gid: 65534, home: '/', login: false },
]

/** Groups beyond those of the accounts. `tty` is the group of terminals (mount option gid=5 of devpts). */
const groups: readonly { readonly name: string; readonly gid: number }[] = [
  { name: 'adm', gid: 4 },
  { name: 'tty', gid: 5 },
  { name: 'disk', gid: 6 },
  { name: 'mail', gid: 8 },
  { name: 'utmp', gid: 43 },
  { name: 'staff', gid: 50 },
  { name: 'users', gid: 100 },
]

/** Host name of every sandbox unless the caller names another: nothing of the host's. */
export const HOSTNAME = 'sandlot'

/** A segment that ends in `*` stands for every name that begins so. Links into /usr stay links, others are followed. What only makes other files
 * (ld.so.conf) or holds nothing but comments as it is shipped (gai.conf, magic) is not worth a copy in every launcher. */
export const etcTable: readonly EtcRule[] = [
  // the dynamic linker
  { path: '/etc/ld.so.cache', how: 'copy' },
  { path: '/etc/ld-musl-x86_64.path', how: 'copy' },
  { path: '/etc/ld-musl-aarch64.path', how: 'copy' },
  // which of several programs a name means
  { path: '/etc/alternatives', how: 'show' },
  // certificates, never keys
  { path: '/etc/ssl/certs', how: 'show' },
  { path: '/etc/ssl/cert.pem', how: 'copy' },
  { path: '/etc/ssl/openssl.cnf', how: 'copy' },
  { path: '/etc/pki/tls/certs', how: 'show' },
  { path: '/etc/pki/tls/cert.pem', how: 'copy' },
  { path: '/etc/pki/tls/openssl.cnf', how: 'copy' },
  { path: '/etc/pki/ca-trust/extracted', how: 'show' },
  { path: '/etc/ca-certificates/extracted', how: 'show' },
  { path: '/etc/crypto-policies', how: 'show' },
  // time and language
  { path: '/etc/localtime', how: 'copy' },
  { path: '/etc/timezone', how: 'copy' },
  { path: '/etc/locale.conf', how: 'copy' },
  // what system this is
  { path: '/etc/os-release', how: 'copy' },
  { path: '/etc/lsb-release', how: 'copy' },
  { path: '/etc/debian_version', how: 'copy' },
  { path: '/etc/alpine-release', how: 'copy' },
  { path: '/etc/fedora-release', how: 'copy' },
  { path: '/etc/redhat-release', how: 'copy' },
  { path: '/etc/system-release', how: 'copy' },
  // names of protocols and types
  { path: '/etc/protocols', how: 'copy' },
  { path: '/etc/services', how: 'copy' },
  { path: '/etc/mime.types', how: 'copy' },
  // shells and terminals
  { path: '/etc/bash.bashrc', how: 'copy' },
  { path: '/etc/inputrc', how: 'copy' },
  { path: '/etc/terminfo/*/*', how: 'copy' },
  // languages whose files in /usr lead to /etc
  { path: '/etc/python3.*', how: 'copy' },
  { path: '/etc/perl/Net/libnet.cfg', how: 'copy' },
  { path: '/etc/java*', how: 'show' },
  { path: '/etc/dotnet', how: 'copy' },
  { path: '/etc/julia', how: 'copy' },
  { path: '/etc/R', how: 'show' },
  { path: '/etc/php*/*/cli', how: 'show' },
  { path: '/etc/php*/*/mods-available', how: 'show' },
  { path: '/etc/texmf', how: 'show' },
  { path: '/etc/fonts', how: 'show' },
]

// PATH is not set here: a login shell keeps the one that the sandbox was made with.
const PROFILE = `umask 022
if [ "\${PS1-}" ] && [ "\${BASH-}" ] && [ "$BASH" != /bin/sh ] && [ -f /etc/bash.bashrc ]; then
  . /etc/bash.bashrc
fi
`

// There is no network: with no name server named, the C library asks the loopback and is refused at once.
const RESOLV = '# no network\noptions timeout:1 attempts:1\n'

const NSSWITCH = `passwd: files
group: files
shadow: files
hosts: files dns
networks: files
protocols: files
services: files
ethers: files
rpc: files
`

/** Files that we write. `shell` is the login shell. */
export const madeFiles = (shell: string): ReadonlyMap<string, string> =>
  new Map([
    ['/etc/passwd', accounts.map((a) => `${a.name}:x:${a.uid}:${a.gid}:${a.name}:${a.home}:${a.login ? shell : '/usr/sbin/nologin'}\n`).join('')],
    ['/etc/group', groupFile()],
    ['/etc/hostname', `${HOSTNAME}\n`],
    ['/etc/hosts', `127.0.0.1 localhost ${HOSTNAME}\n::1 localhost ip6-localhost ip6-loopback ${HOSTNAME}\n`],
    ['/etc/host.conf', 'multi on\n'],
    ['/etc/resolv.conf', RESOLV],
    ['/etc/nsswitch.conf', NSSWITCH],
    ['/etc/profile', PROFILE],
  ])

const groupFile = (): string => {
  const rows = [...accounts.map((a) => ({ name: a.name === 'nobody' ? 'nogroup' : a.name, gid: a.gid })), ...groups]
  return rows.map((row) => `${row.name}:x:${row.gid}:\n`).join('')
}
