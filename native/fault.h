// Why the launcher's side could not do what it was asked: what REFUSED says, collected on the way up.
#ifndef SANDLOT_FAULT_H
#define SANDLOT_FAULT_H

#include "frame.h"

struct fault {
  const char *code;  // NULL = none; a code of src/model/error.ts
  const char *step;
  char subject[600];
  int error;
};

// Fills `f` and returns -1, so that a failure is one line. A mount or a state directory that found no space is `disk.full`.
int fault_set(struct fault *f, const char *code, const char *step, const char *subject, int error);
void fault_put(struct buffer *out, uint32_t id, const struct fault *f);

#endif
