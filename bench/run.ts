// npm run bench -- NAME...    one line a figure: name, value, unit, goal, `ok` or `MISSED`
import { availableParallelism, release } from 'node:os'
import { parseArgs } from 'node:util'

import { isFigure, line, state } from './figure.ts'
import type { Bench, Figure, Finding, State } from './figure.ts'

const benches: Readonly<Record<string, () => Promise<{ readonly bench: Bench }>>> = {
  start: () => import('./start.ts'),
  filter: () => import('./filter.ts'),
  churn: () => import('./churn.ts'),
  flow: () => import('./flow.ts'),
}

const usage = `usage: npm run bench -- NAME... [--json] [--check] [--allow-missing] [--effort N]
       npm run bench -- --list

  --json           the same as data
  --check          exit 1 when a figure misses its goal or was not measured, 2 when a bench refuses to judge
  --allow-missing  with --check: a figure that could not be measured here is no miss
  --effort N       N times the samples, default 1; below 1 for a quick look`

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    'json': { type: 'boolean', default: false },
    'check': { type: 'boolean', default: false },
    'list': { type: 'boolean', default: false },
    'help': { type: 'boolean', default: false },
    'allow-missing': { type: 'boolean', default: false },
    'effort': { type: 'string', default: '1' },
  },
})

type Result = { readonly bench: string; readonly figures: (Figure & { readonly state: State })[]; refused?: string; failed?: string }

const main = async (): Promise<number> => {
  if (values.list) {
    for (const [name, load] of Object.entries(benches)) console.log(`${name.padEnd(10)} ${(await load()).bench.doc}`)
    return 0
  }
  const wrong = positionals.find((name) => !Object.hasOwn(benches, name))
  const effort = Number(values.effort)
  if (values.help || positionals.length === 0 || wrong !== undefined || !(effort > 0)) {
    if (wrong !== undefined) console.error(`there is no bench ${wrong}; --list names them`)
    console.error(usage)
    return values.help ? 0 : 2
  }

  const data: Result[] = []
  for (const name of positionals) {
    const result: Result = { bench: name, figures: [] }
    data.push(result)
    try {
      const { bench } = await benches[name]!()
      for await (const finding of bench.run({ effort })) take(result, finding)
    } catch (error) {
      result.failed = String(error)
      const hint = error instanceof Error && 'hint' in error ? `\n  hint: ${String(error.hint)}` : ''
      console.error(`${name}: failed: ${result.failed}${hint}`)
    }
  }
  if (values.json) {
    const host = { uid: process.getuid?.(), kernel: release(), arch: process.arch, cpus: availableParallelism(), node: process.version }
    console.log(JSON.stringify({ host, benches: data }, null, 2))
  }
  if (data.some((result) => result.failed !== undefined)) return 1
  if (!values.check) return 0
  if (data.some((result) => result.refused !== undefined)) return 2
  return data.some((result) => result.figures.some(isMiss)) ? 1 : 0
}

const take = (result: Result, finding: Finding): void => {
  if (isFigure(finding)) result.figures.push({ ...finding, state: state(finding) })
  else result.refused = finding.refused
  if (!values.json) console.log(isFigure(finding) ? line(finding) : `${result.bench}: not judged: ${finding.refused}`)
}

const isMiss = (figure: Figure & { readonly state: State }): boolean =>
  figure.state === 'MISSED' || (figure.state === 'not measured' && figure.goal !== undefined && !values['allow-missing'])

process.exitCode = await main()
