// What the launcher fixed at START and every box is made from. One launcher is one process, so this is one global.
#ifndef SANDLOT_HOST_H
#define SANDLOT_HOST_H

#include <stdbool.h>
#include <sys/types.h>

#include "fault.h"
#include "init.h"
#include "plan.h"

struct host {
  enum identity identity;
  bool userns;          // we live in a user namespace of our own: overlays need `userxattr`, nothing can be id-mapped
  uint32_t sub_count;   // subordinate: ids 1..sub_count exist in it
  uint32_t range_base, range_count;
  char launcher[33];
  char *state, *secret;
  int proc;     // /proc of the host, O_PATH
  int boxes;    // STATE/box
  int own;      // STATE/launcher/<id>
  int view;     // mount namespace with the host's mounts, where sources are opened
  int root;     // its root as we found it, O_PATH: we may have been started in a chroot
  int nest;     // mount namespace that boxes are cloned from: an empty file system and a proc of nobody
  int room;     // a tmpfs only we see, where templates are attached
  int skeleton, dev;  // templates, attached in the room; -1 = not yet
  struct permit { uint64_t dev, ino; } *permits;
  unsigned permit_count;
};

extern struct host host;

// Descriptors with a fixed number, so that a child closes all others in two calls. 0-2 are stdio.
enum { FD_CONTROL = 3, FD_FIRST = 4, FD_LIFE = 4, FD_CGROUP = 5, FD_FREE = 10 };

// --- identity.c ---
// Decides how ids are mapped and enters the user namespace that needs; sets host.identity. Ends in a mount namespace of our own.
int identity_enter(uint32_t range_base, uint32_t range_count, struct fault *f);
// What most likely keeps namespaces and mounts away: the errno alone does not tell EPERM of seccomp from that of AppArmor.
const char *identity_reason(int error);
// Who `inside` is on the disk of a template that we make.
uint32_t identity_outer(uint32_t inside);
// Writes the maps of a box's user namespace, whose process is `pid`. -1 with errno.
int identity_map(pid_t pid, int slot);
// A range of 65,536 ids that no other launcher of this host uses; always 0 outside range mode. -1 with a fault.
int slot_take(struct fault *f);
void slot_release(int slot);
uint32_t slot_base(int slot);

#endif
