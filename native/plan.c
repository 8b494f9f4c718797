// Fields of START and CREATE into structs. Everything that has a limit or a form is held to it here, so that the files which act on a plan
// need not ask again: paths are absolute, without NUL and short enough, ids and names are letters and digits, the first step is the root.
// An unknown field is skipped unless its MUST flag is set: then the frame is refused as `unsupported`.
#define _GNU_SOURCE
#include "plan.h"

#include <stdlib.h>
#include <string.h>

static const char *const bad = "argument.invalid";

static void *grown(void *list, unsigned count, size_t size) {
  if (count & (count - 1)) return list;  // doubles when full, and a power of two is when it is
  void *bigger = reallocarray(list, count ? 2 * count : 1, size);
  if (!bigger) _Exit(112);
  return bigger;
}

static int word(const char *text, size_t limit) {
  size_t n = strlen(text);
  return n && n <= limit && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789") == n;
}

static int text(const struct field *x, char **out, struct fault *f, const char *step) {
  free(*out);
  *out = field_text(x);
  return *out ? 0 : fault_set(f, bad, step, "a NUL byte", 0);
}

static int path(const struct field *x, char **out, struct fault *f, const char *step) {
  if (text(x, out, f, step)) return -1;
  if ((*out)[0] != '/') return fault_set(f, bad, step, *out, 0);
  if (x->length > PATH_LIMIT) return fault_set(f, bad, "a path is too long", NULL, 0);
  return 0;
}

static int number(const struct field *x, uint32_t *out, struct fault *f) {
  if (x->length != 4) return fault_set(f, bad, "width of a number", NULL, 0);
  *out = field_u32(x);
  return 0;
}

static int large(const struct field *x, uint64_t *out, struct fault *f) {
  if (x->length != 8) return fault_set(f, bad, "width of a number", NULL, 0);
  *out = field_u64(x);
  return 0;
}

static int unknown(const struct field *x, struct fault *f) {
  return x->flags & FIELD_MUST ? fault_set(f, "unsupported", "a field that this launcher does not know", NULL, 0) : 0;
}

static int walked(int got, struct fault *f) { return got < 0 ? fault_set(f, bad, "malformed fields", NULL, 0) : 0; }

// One field of a source: 1 = it was one, 0 = not ours, -1 = wrong.
static int source_field(const struct field *x, struct source *s, struct fault *f) {
  uint32_t value = 0;
  switch (x->tag) {
    case TAG_SOURCE:
      if (x->length == 0) return free(s->path), s->path = calloc(1, 1), s->path ? 1 : -1;
      return path(x, &s->path, f, "a source") ? -1 : 1;
    case TAG_IDS:
      if (number(x, &value, f)) return -1;
      if (value > IDS_OWNER) return fault_set(f, "unsupported", "how owners show", NULL, 0);
      s->ids = (enum ids)value;
      return 1;
    case TAG_DEV: return large(x, &s->dev, f) ? -1 : 1;
    case TAG_INO: s->seen = true; return large(x, &s->ino, f) ? -1 : 1;
    default: return 0;
  }
}

static int layer_parse(const struct field *list, struct source *s, struct fault *f) {
  struct field x;
  size_t at = 0;
  int got;
  while ((got = field_next(list->bytes, list->length, &at, &x)) > 0) {
    int ours = source_field(&x, s, f);
    if (ours < 0 || (!ours && unknown(&x, f))) return -1;
  }
  if (walked(got, f)) return -1;
  return s->path ? 0 : fault_set(f, bad, "a layer without a source", NULL, 0);
}

static int step_field(const struct field *x, struct mount_step *s, struct source *single, struct fault *f) {
  uint32_t value = 0;
  switch (x->tag) {
    case TAG_ENTRY:
      if (number(x, &value, f)) return -1;
      if (value < STEP_ROOT || value > STEP_HIDE) return fault_set(f, "unsupported", "a step of the mount plan", NULL, 0);
      s->kind = (enum step)value;
      return 0;
    case TAG_LAYER:
      if (s->layer_count == LAYER_LIMIT) return fault_set(f, bad, "too many layers", NULL, 0);
      s->layers = grown(s->layers, s->layer_count, sizeof *s->layers);
      s->layers[s->layer_count] = (struct source){0};
      return layer_parse(x, &s->layers[s->layer_count++], f);
    case TAG_TARGET: return path(x, &s->target, f, "a target");
    case TAG_NAME:
      if (text(x, &s->name, f, "name of an overlay")) return -1;
      return word(s->name, 32) && strcmp(s->name, "root") ? 0 : fault_set(f, bad, "name of an overlay", s->name, 0);
    case TAG_MODE: return number(x, &s->mode, f);
    case TAG_FLAGS:
      if (number(x, &s->flags, f)) return -1;
      return s->flags & ~15u ? fault_set(f, "unsupported", "flags of a mount", NULL, 0) : 0;
    case TAG_SIZE: return large(x, &s->size, f);
    case TAG_UPPER:
      if (number(x, &value, f)) return -1;
      if (value > UPPER_MEMORY) return fault_set(f, "unsupported", "kind of an upper", NULL, 0);
      s->upper = (enum upper)value;
      return 0;
    default: {
      int ours = source_field(x, single, f);
      return ours < 0 ? -1 : ours ? 0 : unknown(x, f);
    }
  }
}

static int step_parse(const struct field *list, struct mount_step *s, struct fault *f) {
  struct source single = {0};
  struct field x;
  size_t at = 0;
  int got, result = 0;
  while (!result && (got = field_next(list->bytes, list->length, &at, &x)) != 0) result = got < 0 ? walked(got, f) : step_field(&x, s, &single, f);
  if (single.path && !s->layer_count) {
    s->layers = grown(NULL, 0, sizeof *s->layers);
    s->layers[s->layer_count++] = single;
  } else free(single.path);
  if (result) return -1;
  bool layered = s->kind == STEP_ROOT || s->kind == STEP_OVERLAY;
  if (!s->kind) return fault_set(f, bad, "a step without a kind", NULL, 0);
  if (layered && !s->layer_count) return fault_set(f, bad, "an overlay without a layer", s->target, 0);
  if (s->kind == STEP_BIND && (s->layer_count != 1 || !s->layers[0].path[0])) return fault_set(f, bad, "a bind without a source", s->target, 0);
  if (s->kind == STEP_OVERLAY && !s->name) return fault_set(f, bad, "an overlay without a name", s->target, 0);
  if (s->kind != STEP_ROOT && (!s->target || !s->target[strspn(s->target, "/")])) return fault_set(f, bad, "a step without a target", NULL, 0);
  return 0;
}

static int create_field(const struct field *x, struct plan *p, struct fault *f) {
  uint32_t value = 0;
  switch (x->tag) {
    case TAG_GENERATION: return number(x, &value, f) ? -1 : value < 1 ? fault_set(f, "unsupported", "generation of the protocol", NULL, 0) : 0;
    case TAG_BOX: return text(x, &p->box, f, "id of a sandbox") ? -1 : word(p->box, 32) ? 0 : fault_set(f, bad, "id of a sandbox", p->box, 0);
    case TAG_HOSTNAME:
      if (text(x, &p->hostname, f, "host name")) return -1;
      return x->length && x->length <= 64 ? 0 : fault_set(f, bad, "length of a host name", p->hostname, 0);
    case TAG_MOUNT:
      if (p->step_count == STEP_LIMIT) return fault_set(f, bad, "too many steps", NULL, 0);
      p->steps = grown(p->steps, p->step_count, sizeof *p->steps);
      p->steps[p->step_count] = (struct mount_step){0};
      return step_parse(x, &p->steps[p->step_count++], f);
    case TAG_FILTER:
      if (!x->length || x->length % 8 || x->length / 8 > 4096) return fault_set(f, bad, "length of the system-call filter", NULL, 0);
      p->filter = x->bytes;
      p->filter_length = x->length;
      return 0;
    case TAG_SECRET:
      p->secret = x->bytes;
      p->secret_length = x->length;
      return 0;
    case TAG_CGROUP:
      if (number(x, &value, f)) return -1;
      p->cgroup = value != 0;
      return 0;
    default: return unknown(x, f);
  }
}

int plan_parse(const uint8_t *payload, size_t length, struct plan *out, struct fault *f) {
  struct field x;
  size_t at = 0;
  int got;
  *out = (struct plan){0};
  while ((got = field_next(payload, length, &at, &x)) > 0)
    if (create_field(&x, out, f)) return -1;
  if (walked(got, f)) return -1;
  if (!out->box) return fault_set(f, bad, "a sandbox without an id", NULL, 0);
  if (!out->step_count || out->steps[0].kind != STEP_ROOT) return fault_set(f, bad, "the first step is not the root", NULL, 0);
  for (unsigned i = 1; i < out->step_count; i++) {
    if (out->steps[i].kind == STEP_ROOT) return fault_set(f, bad, "more than one root", NULL, 0);
    for (unsigned k = 1; out->steps[i].name && k < i; k++)
      if (out->steps[k].name && !strcmp(out->steps[k].name, out->steps[i].name)) return fault_set(f, bad, "an overlay's name is used twice", out->steps[i].name, 0);
  }
  return 0;
}

void plan_free(struct plan *p) {
  for (unsigned i = 0; i < p->step_count; i++) {
    struct mount_step *s = &p->steps[i];
    for (unsigned k = 0; k < s->layer_count; k++) free(s->layers[k].path);
    free(s->layers);
    free(s->target);
    free(s->name);
  }
  free(p->steps);
  free(p->box);
  free(p->hostname);
  *p = (struct plan){0};
}

static int skeleton_parse(const struct field *list, struct skeleton_entry *e, struct fault *f) {
  struct field x;
  size_t at = 0;
  uint32_t value = 0;
  int got;
  while ((got = field_next(list->bytes, list->length, &at, &x)) > 0) {
    int wrong = 0;
    switch (x.tag) {
      case TAG_ENTRY: wrong = number(&x, &value, f), e->entry = (enum entry)value; break;
      case TAG_TARGET: wrong = path(&x, &e->target, f, "path in the skeleton"); break;
      case TAG_MODE: wrong = number(&x, &e->mode, f); break;
      case TAG_UID: wrong = number(&x, &e->uid, f); break;
      case TAG_GID: wrong = number(&x, &e->gid, f); break;
      case TAG_BYTES: e->bytes = x.bytes, e->length = x.length; break;
      default: wrong = unknown(&x, f);
    }
    if (wrong) return -1;
  }
  if (walked(got, f)) return -1;
  if (!e->target || e->entry < ENTRY_DIRECTORY || e->entry > ENTRY_LINK) return fault_set(f, bad, "an entry of the skeleton", e->target, 0);
  if (e->entry == ENTRY_LINK && (!e->length || e->length > PATH_LIMIT || memchr(e->bytes, 0, e->length))) return fault_set(f, bad, "a link of the skeleton", e->target, 0);
  return 0;
}

static int start_field(const struct field *x, struct start *s, struct fault *f) {
  uint32_t value = 0;
  switch (x->tag) {
    case TAG_GENERATION: return number(x, &value, f) ? -1 : value < 1 ? fault_set(f, "unsupported", "generation of the protocol", NULL, 0) : 0;
    case TAG_STATE: return path(x, &s->state, f, "state directory");
    case TAG_LAUNCHER: return text(x, &s->launcher, f, "id of the launcher") ? -1 : word(s->launcher, 32) ? 0 : fault_set(f, bad, "id of the launcher", s->launcher, 0);
    case TAG_SECRET: return text(x, &s->secret, f, "secret of the launcher") ? -1 : x->length >= 16 && x->length <= 64 ? 0 : fault_set(f, bad, "length of a secret", NULL, 0);
    case TAG_PERMIT:
      if (s->permit_count == STEP_LIMIT) return fault_set(f, bad, "too many permitted directories", NULL, 0);
      s->permits = grown(s->permits, s->permit_count, sizeof *s->permits);
      s->permits[s->permit_count] = NULL;
      return path(x, &s->permits[s->permit_count++], f, "a permitted directory");
    case TAG_RANGE_BASE: return number(x, &s->range_base, f);
    case TAG_RANGE_COUNT: return number(x, &s->range_count, f);
    case TAG_SKELETON:
      if (s->skeleton_count == SKELETON_LIMIT) return fault_set(f, bad, "too large a skeleton", NULL, 0);
      s->skeleton = grown(s->skeleton, s->skeleton_count, sizeof *s->skeleton);
      s->skeleton[s->skeleton_count] = (struct skeleton_entry){0};
      return skeleton_parse(x, &s->skeleton[s->skeleton_count++], f);
    default: return unknown(x, f);
  }
}

int start_parse(const uint8_t *payload, size_t length, struct start *out, struct fault *f) {
  struct field x;
  size_t at = 0;
  int got;
  *out = (struct start){0};
  while ((got = field_next(payload, length, &at, &x)) > 0)
    if (start_field(&x, out, f)) return -1;
  if (walked(got, f)) return -1;
  if (!out->state || !out->launcher || !out->secret) return fault_set(f, bad, "START without a state directory, an id or a secret", NULL, 0);
  if (!out->range_base) out->range_base = 0x10000000;
  if (!out->range_count) out->range_count = 8192;
  if (out->range_base < RANGE_FLOOR || ((uint64_t)out->range_base + (uint64_t)out->range_count * 65536) > 0xfffe0000u) return fault_set(f, bad, "range of ids", NULL, 0);
  return 0;
}
