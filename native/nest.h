// What all boxes of a launcher are made from.
#ifndef SANDLOT_NEST_H
#define SANDLOT_NEST_H

#include "host.h"

// Directories (and one file) in the nest, at its top.
#define NEST_PROC "proc"    // a proc of nobody: the kernel lets a user namespace mount /proc only where one is in sight
#define NEST_STAGE "stage"  // where a box puts its own /proc together
#define NEST_DEV "dev"      // and its /dev
#define NEST_EMPTY "empty"  // shown where something is hidden
#define NEST_FILE "file"

// The mount namespace boxes are cloned from; sets host.view, host.root and host.nest.
int nest_make(struct fault *f);
// Into the nest and back, for what is cloned there; the kernel makes no user namespace for someone in a chroot either. -1 with errno.
int nest_enter(void);
void nest_leave(void);

// The tmpfs that only we see, on STATE/launcher/<id>/room; sets host.room.
int room_make(struct fault *f);
void room_end(void);
// Attaches a detached mount at a new directory of the room; older kernels refuse detached mounts as layers and as what is cloned.
int room_attach(int tree, char name[16]);
void room_detach(const char *name);

int skeleton_make(const struct start *s, struct fault *f);
int dev_make(struct fault *f);

// A new tmpfs, detached.
int tmpfs_make(uint64_t bytes, uint32_t mode, uint64_t attributes);

#endif
