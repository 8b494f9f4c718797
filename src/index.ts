// The library: sandboxes in this process, with no daemon and no root.

export {
  createEngine,
  createSandbox,
  type CreateOptions,
  type Engine,
  type Exec,
  type ExecOptions,
  type OutputOptions,
  type RunOptions,
  type RunResult,
  type Sandbox,
} from './api/library.ts'
export { type Code, codes, type SandlotError, isSandlotError } from './model/error.ts'
export { exitCode, type Outcome, type Usage } from './model/outcome.ts'
export type { ExecInfo, ExecState, OutputEvent, Overflow } from './model/exec.ts'
export type { Changes, Grant, SandboxInfo, SandboxState } from './model/sandbox.ts'
export type { Report } from './model/report.ts'
