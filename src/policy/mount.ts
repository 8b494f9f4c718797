// A mount before it is a step of the plan, and which place of the host shows where.

import type { Found } from '../model/facts.ts'
import type { Ids } from '../model/mount.ts'
import { isWithin, rebase } from './path.ts'

export type Mount = {
  readonly found: Found
  readonly target: string
  readonly access: 'read' | 'write' | 'overlay'
  readonly ids: Ids
  readonly recursive: boolean
  /** May be gone by the time it is mounted. */
  readonly optional: boolean
  /** The host calls it `target` too. */
  readonly sameName: boolean
  /** Of the upper, for an overlay. */
  readonly name: string
}

/** A read-only bind of something the host calls `target` as well. */
export const readOnly = (target: string, found: Found, ids: Ids, options: { readonly recursive?: boolean; readonly optional?: boolean } = {}): Mount => ({
  found,
  target,
  access: 'read',
  ids,
  recursive: options.recursive === true,
  optional: options.optional === true,
  sameName: true,
  name: '',
})

/** True when `mount` shows the place `real` of the host at `target`. */
export const isShownBy = (mount: Mount, target: string, real: string): boolean =>
  isWithin(target, mount.target) && rebase(target, mount.target, mount.found.path) === real

/** One directory or file of the host and where it shows. `sameName`: the host calls it `target` too. */
export type Shown = { readonly source: string; readonly target: string; readonly access: 'read' | 'write' | 'overlay'; readonly sameName: boolean }

/** What of the host shows where: `shown` with parents first, `hidden` are paths inside that are covered. */
export type Visible = { readonly shown: readonly Shown[]; readonly hidden: readonly string[] }

/** Where a path of the host (without symbolic links) shows inside, by the same name if it can be; undefined when it does not. */
export const hostPathInside = (view: Visible, real: string): string | undefined => {
  let first: string | undefined
  for (const { source, target } of view.shown) {
    if (!isWithin(real, source)) continue
    const inside = rebase(real, source, target)
    // A deeper mount may lie over it and show something else.
    const over = view.shown.findLast((other) => isWithin(inside, other.target))
    if (over === undefined || rebase(inside, over.target, over.source) !== real || isHidden(view, inside)) continue
    if (inside === real) return inside
    first ??= inside
  }
  return first
}

export const isHidden = (view: Visible, inside: string): boolean => view.hidden.some((path) => isWithin(inside, path))
