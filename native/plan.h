// CREATE and START as data.
#ifndef SANDLOT_PLAN_H
#define SANDLOT_PLAN_H

#include <stdbool.h>

#include "fault.h"
#include "frame.h"

#define STEP_LIMIT 512    // steps of a plan
#define LAYER_LIMIT 400   // layers of an overlay; the kernel takes 500
#define PATH_LIMIT 4095
#define SKELETON_LIMIT 4096
#define RANGE_FLOOR 0x100000  // below lie ids of people, services and containers
#define CREATE_LIMIT (1u << 20)  // bytes of a CREATE

struct source {
  char *path;  // "" = the skeleton
  enum ids ids;
  bool seen;  // dev and ino are given
  uint64_t dev, ino;
};

struct mount_step {
  enum step kind;
  struct source *layers;  // topmost first; a bind has one
  unsigned layer_count;
  char *target, *name;
  uint32_t mode, flags;
  uint64_t size;
  enum upper upper;
};

struct plan {
  char *box, *hostname;
  struct mount_step *steps;
  unsigned step_count;
  bool cgroup;
  const uint8_t *filter;  // inside the payload
  size_t filter_length;
  const uint8_t *secret;  // inside the payload
  size_t secret_length;
};

// Fills `out` from the payload of CREATE; -1 with a fault. Free in both cases.
int plan_parse(const uint8_t *payload, size_t length, struct plan *out, struct fault *f);
void plan_free(struct plan *p);

struct skeleton_entry {
  enum entry entry;
  char *target;
  uint32_t mode, uid, gid;
  const uint8_t *bytes;  // inside the payload
  uint32_t length;
};

struct start {
  char *state, *launcher, *secret;
  char **permits;
  unsigned permit_count;
  uint32_t range_base, range_count;
  struct skeleton_entry *skeleton;
  unsigned skeleton_count;
};

int start_parse(const uint8_t *payload, size_t length, struct start *out, struct fault *f);

#endif
