// Confined processes that do for the launcher what touches trees of guests, or takes long.
#ifndef SANDLOT_CREW_H
#define SANDLOT_CREW_H

#include <stdbool.h>
#include <stdint.h>

#include "box.h"

enum job_kind { JOB_REMOVE, JOB_COUNT };

struct job {
  enum job_kind kind;
  char path[BOX_NAME + 48];  // below STATE/box; "" = none
  unsigned serial;           // JOB_REMOVE: of the control groups; 0 = none
  int fd;                    // JOB_COUNT: of an upper in memory, owned by the job; or -1
  void (*done)(void *owner, int error, uint64_t count);
  void *owner;
  struct job *next;
};

// Takes a job; `done` is called from the loop, always.
void crew_add(const struct job *job);
unsigned crew_busy(void);  // jobs not yet done
void crew_rest(void);      // ends processes that have nothing to do

#endif
