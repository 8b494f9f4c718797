/** The candidate that was most likely meant by `word`; undefined when none is near. */
export const nearest = (word: string, candidates: Iterable<string>): string | undefined => {
  let best: string | undefined
  let least = Math.max(1, Math.floor(word.length / 3)) + 1
  for (const candidate of candidates) {
    const begins = word.length >= 3 && candidate.length >= 3 && (candidate.startsWith(word) || word.startsWith(candidate))
    const steps = candidate === word ? 0 : begins ? 1 : distance(word, candidate)
    if (steps < least) {
      least = steps
      best = candidate
    }
  }
  return best
}

/** How many letters have to be inserted, removed, replaced or swapped with their neighbour. */
const distance = (a: string, b: string): number => {
  let before: number[] = []
  let row = Array.from({ length: b.length + 1 }, (_, at) => at)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1
      let least = Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + same)
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) least = Math.min(least, before[j - 2]! + 1)
      next.push(least)
    }
    before = row
    row = next
  }
  return row[b.length]!
}
