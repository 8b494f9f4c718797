// One box as the launcher knows it.
#ifndef SANDLOT_BOX_H
#define SANDLOT_BOX_H

#include <sys/types.h>

#include "host.h"

struct upper_ref {
  char name[33];
  int fd;  // of an upper in memory; -1: it lies on disk, in the box's directory under its name
};

struct box {
  char id[33];         // "" = a spare: cloned ahead, not yet given to anybody
  unsigned serial;     // names its control groups
  int slot;
  pid_t pid;
  int pidfd, life;
  int userns;          // range mode, until the hand-over
  bool grouped;        // may have control groups
  bool has_directory;  // STATE/box/<launcher>.<id>
  struct upper_ref *uppers;
  unsigned upper_count;
};

// The name of a box's directory below STATE/box.
#define BOX_NAME 80
void box_name(const struct box *b, char out[BOX_NAME]);

// --- owner.c: user namespaces that only serve as id maps of mounts; owned by the cache, do not close ---
enum owner_use { OWNER_BIND, OWNER_LAYER };
int owner_map(int slot, enum owner_use use, uid_t uid, gid_t gid);

// --- source.c ---
// Opens a directory or file of the host, O_PATH, having checked that it is the one meant and may be shown. -1 with a fault.
int source_open(const struct source *s, struct fault *f);
const char *file_system(int fd, char name[24]);

// --- mount.c ---
// Detached mounts for every step that needs one, into trees[step_count]; -1 = none. Closes what it made when it fails.
int mounts_make(struct box *b, const struct plan *p, int *trees, struct buffer *missing, struct fault *f);
void missing_put(struct buffer *missing, const char *format, ...) __attribute__((format(printf, 2, 3)));
// A clone of a template, with owners as the box shall see them; -1 with errno.
int template_clone(const struct box *b, int template, uint64_t attributes);

// --- overlay.c ---
int overlay_make(struct box *b, const struct mount_step *s, struct buffer *missing, struct fault *f);

#endif
