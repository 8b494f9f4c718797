// The system-call filter for this machine. It is made from the table in policy/seccomp.ts, which takes three milliseconds with its loading; so the finished
// program is kept in the cache, which is ours alone, under the sizes and times of the files that make it.

import { readFileSync, renameSync, statSync, writeFileSync } from '../host/node-fs.ts'

const makers = ['seccomp', 'bpf', 'syscall']

/** `cache`: a directory of ours, 0700. */
export const systemCallFilter = async (cache: string): Promise<Uint8Array> => {
  const arch = process.arch === 'arm64' ? 'arm64' : 'x64'
  const file = `${cache}/filter-${arch}`
  const stamp = makersStamp()
  try {
    const kept = readFileSync(file)
    const end = kept.indexOf(10)
    if (end > 0 && kept.toString('latin1', 0, end) === stamp) return kept.subarray(end + 1)
  } catch {}
  const { filterFor } = await import('../policy/seccomp.ts')
  const filter = filterFor(arch)
  try {
    const part = `${file}.${process.pid}`
    writeFileSync(part, Buffer.concat([Buffer.from(`${stamp}\n`, 'latin1'), filter]), { mode: 0o600 })
    renameSync(part, file)
  } catch {
    // A cache that cannot be written costs time, nothing else.
  }
  return filter
}

const makersStamp = (): string => {
  const policy = `${import.meta.dirname}/../policy`
  const ending = import.meta.filename.slice(import.meta.filename.lastIndexOf('.'))
  return makers
    .map((name) => {
      const { size, mtimeMs, ctimeMs, ino } = statSync(`${policy}/${name}${ending}`)
      return `${size}.${mtimeMs}.${ctimeMs}.${ino}`
    })
    .join(' ')
}
