// Dropping everything that PID 1 does not need.
#ifndef SANDLOT_FENCE_H
#define SANDLOT_FENCE_H

#include <sys/resource.h>

#include "init.h"

extern struct rlimit fence_files;  // open files as it was for whoever started us, and is again for commands

// Returns a descriptor of PID 1's own oom_score_adj, open for writing, or -1. May move config's descriptors.
int fence_self(struct init_config *config);

// Short turns at the processor, which come sooner (Linux 6.12; ignored before): among a thousand busy processes of a command PID 1 and supervisors would
// wait seconds for each. It needs no privilege, and what they fork starts with ordinary ones.
void fence_short_turns(void);

// In a child of PID 1, and in a command before execve: no capability of any set.
int fence_no_capability(void);

// Closes every descriptor but these (at most 8).
void fence_close_except(const int *keep, int count);

#endif
