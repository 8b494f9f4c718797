// Durations and sizes as people write them. A number without a unit is refused: 30 of what?

import { SandlotError } from './error.ts'

const DURATIONS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const
const SIZES = { B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 } as const

/** Milliseconds of "250ms", "30s", "1.5s", "1h30m", "2d". Throws `argument.invalid`. */
export const parseDuration = (text: string): number => {
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g)]
  const ms = parts.reduce((sum, [, value, unit]) => sum + Number(value) * DURATIONS[unit as keyof typeof DURATIONS], 0)
  if (parts.length === 0 || parts.map(([part]) => part).join('') !== text) {
    const hint = /^\d+(\.\d+)?$/.test(text) ? `write ${text}s for seconds, ${text}ms for milliseconds` : 'write it as 250ms, 30s, 5m, 1h30m or 2d'
    throw new SandlotError('argument.invalid', `${JSON.stringify(text)} is no duration`, { hint })
  }
  return whole(ms, text)
}

/** Bytes of "512MiB", "1.5GiB", "100MB", "4096B"; K, M, G and T alone are the powers of 1,024. Throws `argument.invalid`. */
export const parseBytes = (text: string): number => {
  const [, value, unit] = /^(\d+(?:\.\d+)?)(B|[KMGT](?:iB|B)?)$/i.exec(text) ?? []
  if (value === undefined || unit === undefined) {
    const hint = /^\d+(\.\d+)?$/.test(text) ? `write ${text}MiB for mebibytes, ${text}B for bytes` : 'write it as 64KiB, 512MiB, 2GiB or 4096B'
    throw new SandlotError('argument.invalid', `${JSON.stringify(text)} is no size`, { hint })
  }
  const name = Object.keys(SIZES).find((each) => each.toLowerCase() === (unit.length === 1 && !/b/i.test(unit) ? `${unit}ib` : unit).toLowerCase())
  return whole(Number(value) * SIZES[name as keyof typeof SIZES], text)
}

/** "250ms", "1m30s": parses back to the same milliseconds. */
export const formatDuration = (ms: number): string => {
  let rest = ms
  let text = ''
  for (const unit of ['d', 'h', 'm', 's', 'ms'] as const) {
    const count = Math.floor(rest / DURATIONS[unit])
    if (count > 0) text += `${count}${unit}`
    rest -= count * DURATIONS[unit]
  }
  return text === '' ? '0ms' : text
}

/** "512MiB": the largest unit that gives a whole number, so that it parses back to the same bytes. */
export const formatBytes = (bytes: number): string => {
  const unit = (['TiB', 'GiB', 'MiB', 'KiB'] as const).find((each) => bytes > 0 && bytes % SIZES[each] === 0) ?? 'B'
  return `${bytes / SIZES[unit]}${unit}`
}

// "0.1s" is 100 ms, "1.0005s" is none; floating point makes 1.1 KiB a hair off a whole number, so near enough is whole.
const whole = (value: number, text: string): number => {
  const rounded = Math.round(value)
  if (!Number.isSafeInteger(rounded)) throw new SandlotError('argument.invalid', `${JSON.stringify(text)} is too much`, { hint: 'the largest is 2^53 - 1' })
  return rounded
}
