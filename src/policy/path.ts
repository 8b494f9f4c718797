// Arithmetic on absolute paths without symbolic links. No question to the file system.

/** True when `path` is `directory` or lies below it. */
export const isWithin = (path: string, directory: string): boolean =>
  path === directory || directory === '/' || (path.startsWith(directory) && path.charCodeAt(directory.length) === 47)

/** `path`, which lies within `from`, as seen when `from` shows at `to`. */
export const rebase = (path: string, from: string, to: string): string => {
  const rest = from === '/' ? path.slice(1) : path.slice(from.length + 1)
  if (rest === '') return to
  return to === '/' ? `/${rest}` : `${to}/${rest}`
}

/** Absolute and without `.`, `..`, empty segments and a slash at the end; undefined when it is not absolute. `..` at the root stays there. */
export const normalize = (path: string): string | undefined => {
  if (!path.startsWith('/')) return undefined
  const out: string[] = []
  for (const segment of path.split('/')) {
    if (segment === '..') out.pop()
    else if (segment !== '' && segment !== '.') out.push(segment)
  }
  return `/${out.join('/')}`
}
