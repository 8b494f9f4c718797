// Control groups of boxes, where we may make them.
#ifndef SANDLOT_CGROUP_H
#define SANDLOT_CGROUP_H

#include <stdbool.h>

#include "frame.h"

// Finds our own group in each hierarchy, makes `sandlot-<launcher>` there and opens it at FD_CGROUP + n. Writes the paths to `record`, a file of ours.
void cgroup_start(const char *launcher, int record);
// A new group of the unified tree for the box, or -1.
int cgroup_unified(unsigned serial);
// In the box's first process, before it changes ids: makes and joins the v1 groups; says what is there and what is not.
void cgroup_join(unsigned serial, bool unified, struct buffer *says);
// Removes the groups of a box, whose processes are gone or are ended here. -1 with EBUSY: again later.
int cgroup_remove(unsigned serial);
// Removes the parents.
void cgroup_end(void);
// Ends what is left in a group of a dead launcher and removes it; `path` as recorded.
void cgroup_sweep(const char *path);

#endif
