// The process behind spawn.ts. Plain JavaScript, because stripping types would make it half as large again.
import { spawn } from 'node:child_process'

const once = (argv) =>
  new Promise((resolve, reject) => {
    const start = performance.now()
    const child = spawn(argv[0], argv.slice(1), { stdio: ['ignore', 'pipe', 'pipe'] })
    const errors = []
    child.stdout.resume()
    child.stderr.on('data', (bytes) => errors.push(bytes))
    child.on('error', reject)
    // `close` comes when the program is over and its output has been read to the end.
    child.on('close', (code, signal) => {
      if (code === 0) resolve(performance.now() - start)
      else reject(new Error(`${argv.join(' ')} ended with ${code ?? signal}: ${Buffer.concat(errors).toString().trim()}`))
    })
  })

process.on('message', async ({ argv, count, pauseMs }) => {
  const times = []
  let failed
  try {
    for (let index = 0; index < count; index++) {
      if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs))
      times.push(await once(argv))
    }
  } catch (error) {
    failed = String(error)
  }
  process.send({ times, failed, residentBytes: process.memoryUsage.rss() })
})
