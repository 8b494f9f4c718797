// A reporter for node:test that prints nothing but the eight figures of the summary, for tool/test.sh to add up.

export default async function* counts(source) {
  for await (const { type, data } of source) {
    if (type !== 'test:summary' || data.file !== undefined) continue
    const { tests, suites, passed, failed, cancelled, skipped, todo } = data.counts
    yield `${[tests, suites, passed, failed, cancelled, skipped, todo, data.duration_ms].join(' ')}\n`
  }
}
