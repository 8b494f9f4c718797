import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { resolve } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'

test('300 sandboxes come and go and leave no process, mount, cgroup, network namespace, directory or open file', async () => {
  const bench = resolve(import.meta.dirname, '../../bench/run.ts')
  const { stdout } = await promisify(execFile)(process.execPath, [bench, 'churn', '--check']).catch((error: { stdout: string }) => assert.fail(error.stdout))
  assert.match(stdout, /processes left/)
})
