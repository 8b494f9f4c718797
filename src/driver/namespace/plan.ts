// The mount plan and the skeleton as fields of CREATE and START.

import type { MountPlan, MountStep, SkeletonEntry, Source, Upper } from '../../model/mount.ts'
import { type FieldWriter, tags } from '../../protocol/frame.ts'

const ENTRY = { directory: 1, file: 2, link: 3 } as const
const STEP = { root: 1, bind: 2, overlay: 3, tmpfs: 4, hide: 5 } as const
const IDS = { system: 0, owner: 1 } as const
const FLAG = { readonly: 1, optional: 2, noexec: 4, recursive: 8 } as const

export const putPlan = (fields: FieldWriter, plan: MountPlan): void => {
  for (const step of plan) fields.fields(tags.MOUNT, (inner) => putStep(inner.u32(tags.ENTRY, STEP[step.step]), step))
}

const putStep = (fields: FieldWriter, step: MountStep): void => {
  switch (step.step) {
    case 'root':
      putLayers(fields, step.layers)
      putUpper(fields, step.upper)
      return
    case 'overlay':
      fields.text(tags.TARGET, step.target).text(tags.NAME, step.name)
      putLayers(fields, step.layers)
      putUpper(fields, step.upper)
      return
    case 'bind': {
      const flags =
        (step.readonly ? FLAG.readonly : 0) | (step.optional ? FLAG.optional : 0) | (step.noexec ? FLAG.noexec : 0) | (step.recursive ? FLAG.recursive : 0)
      fields.text(tags.TARGET, step.target).u32(tags.FLAGS, flags)
      putSource(fields, step.source)
      return
    }
    case 'tmpfs':
      fields.text(tags.TARGET, step.target).u64(tags.SIZE, step.bytes).u32(tags.MODE, step.mode)
      return
    case 'hide':
      fields.text(tags.TARGET, step.target)
  }
}

const putLayers = (fields: FieldWriter, layers: readonly Source[]): void => {
  for (const layer of layers) fields.fields(tags.LAYER, (inner) => putSource(inner, layer))
}

const putSource = (fields: FieldWriter, source: Source): void => {
  fields.text(tags.SOURCE, source.path).u32(tags.IDS, IDS[source.ids])
  if (source.seen !== undefined) fields.u64(tags.DEV, source.seen.dev).u64(tags.INO, source.seen.ino)
}

const putUpper = (fields: FieldWriter, upper: Upper): void => {
  fields.u32(tags.UPPER, upper.kind === 'disk' ? 0 : 1)
  if (upper.kind === 'memory') fields.u64(tags.SIZE, upper.bytes)
}

export const putSkeleton = (fields: FieldWriter, skeleton: readonly SkeletonEntry[]): void => {
  for (const entry of skeleton) {
    fields.fields(tags.SKELETON, (inner) => {
      inner.u32(tags.ENTRY, ENTRY[entry.entry]).text(tags.TARGET, entry.path)
      if (entry.entry === 'link') inner.text(tags.BYTES, entry.to)
      else inner.u32(tags.MODE, entry.mode).u32(tags.UID, entry.uid).u32(tags.GID, entry.gid)
      if (entry.entry === 'file') inner.bytes(tags.BYTES, entry.bytes)
    })
  }
}
