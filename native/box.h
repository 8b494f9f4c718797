// One box as the launcher knows it.
#ifndef SANDLOT_BOX_H
#define SANDLOT_BOX_H

#include <sys/types.h>

#include "host.h"

struct upper_ref {
  char name[33];
  int fd;          // of an upper in memory, or -1
  unsigned place;  // of one on disk: its directory in the box's
};

struct box {
  char id[33];         // "" = a spare: cloned ahead, not yet given to anybody
  unsigned serial;     // names its control groups and its directory
  int slot;
  pid_t pid;
  int pidfd, life;
  int userns;          // range mode, until the hand-over
  bool grouped;        // may have control groups
  bool has_directory;  // STATE/box/<launcher>.<serial>
  unsigned places, next_place;  // directories 0..places-1 are made, those below next_place are in use
  int root;            // an overlay over the skeleton made ahead, or -1
  struct buffer root_places;  // what it was made with
  bool may_copy, wants_copy;  // slow.c: a layer may be copied; it would have to be
  struct upper_ref *uppers;
  unsigned upper_count;
};

// The name of a box's directory below STATE/box.
#define BOX_NAME 80
void box_name(const struct box *b, char out[BOX_NAME]);

// --- owner.c: user namespaces that only serve as id maps of mounts; owned by the cache, do not close ---
enum owner_use { OWNER_BIND, OWNER_LAYER };
int owner_map(int slot, enum owner_use use, uid_t uid, gid_t gid);
void owner_rest(void);

// --- source.c ---
// Opens a directory or file of the host, O_PATH, having checked that it is the one meant and may be shown. -1 with a fault.
int source_open(const struct source *s, struct fault *f);
const char *file_system(int fd, char name[24]);

// --- mount.c ---
// Detached mounts for every step that needs one, into trees[step_count]; -1 = none. Closes what it made when it fails.
// `places` gets what a plain root had to be given to mount on.
int mounts_make(struct box *b, const struct plan *p, int *trees, struct buffer *places, struct buffer *missing, struct fault *f);
void missing_put(struct buffer *missing, const char *format, ...) __attribute__((format(printf, 2, 3)));
// A clone of a template, with owners as the box shall see them; -1 with errno.
int template_clone(const struct box *b, int template, uint64_t attributes);

// --- places.c ---
void places_list(const struct plan *p, const int *trees, struct buffer *out);
// A detached layer with these places; -1 with errno.
int places_make(const struct box *b, const struct buffer *list);

// --- overlay.c ---
// Finds out how this kernel takes layers; true: only what is attached can be one.
bool overlay_by_path(void);
// A root over the skeleton alone: what overlay_ahead makes.
bool overlay_plain(const struct mount_step *s);
// For a spare: directories for `overlays` uppers, and the overlay over the skeleton with `places` if `root`.
void overlay_ahead(struct box *b, unsigned overlays, bool root, const struct buffer *places);
// `places`: for a plain root, else NULL.
int overlay_make(struct box *b, const struct mount_step *s, const struct buffer *places, struct buffer *missing, struct fault *f);

#endif
