// Names of the error numbers that reach a person through sandlot (errno(3), the same on x86-64 and arm64).

const names: ReadonlyMap<number, string> = new Map([
  [1, 'EPERM: operation not permitted'],
  [2, 'ENOENT: no such file or directory'],
  [5, 'EIO: input/output error'],
  [7, 'E2BIG: argument list too long'],
  [8, 'ENOEXEC: exec format error'],
  [11, 'EAGAIN: resource temporarily unavailable'],
  [12, 'ENOMEM: out of memory'],
  [13, 'EACCES: permission denied'],
  [16, 'EBUSY: device or resource busy'],
  [17, 'EEXIST: file exists'],
  [20, 'ENOTDIR: not a directory'],
  [21, 'EISDIR: is a directory'],
  [22, 'EINVAL: invalid argument'],
  [23, 'ENFILE: too many open files in the system'],
  [24, 'EMFILE: too many open files'],
  [26, 'ETXTBSY: text file busy'],
  [28, 'ENOSPC: no space left on device'],
  [30, 'EROFS: read-only file system'],
  [36, 'ENAMETOOLONG: file name too long'],
  [38, 'ENOSYS: function not implemented'],
  [40, 'ELOOP: too many levels of symbolic links'],
  [75, 'EOVERFLOW: value too large'],
  [95, 'EOPNOTSUPP: operation not supported'],
  [122, 'EDQUOT: disk quota exceeded'],
])

/** `EACCES: permission denied`; `errno 999` for one that is not in the table. */
export const errnoName = (errno: number): string => names.get(errno) ?? `errno ${errno}`
