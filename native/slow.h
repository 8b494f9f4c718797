#ifndef SANDLOT_SLOW_H
#define SANDLOT_SLOW_H

#include "box.h"
#include "loops.h"

// A plan that takes long, carried out in a process of its own.
struct slow {
  struct eye eye;
  pid_t pid;  // 0 = none
  struct box *box;
  // In the loop, once: result 0, or -1 with a fault.
  void (*done)(struct slow *s, int result, const struct fault *f);
};

// -1 with a fault: not begun.
int slow_start(struct slow *s, const struct plan *p, const uint8_t *payload, size_t length, int channel, struct fault *f);
// Ends it; `done` is told so.
void slow_stop(struct slow *s);

#endif
