// What went wrong, in the words of the error table.
#include "fault.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

int fault_set(struct fault *f, const char *code, const char *step, const char *subject, int error) {
  bool writes = !strcmp(code, "mount.failed") || !strcmp(code, "state.unusable");  // elsewhere ENOSPC is a limit of the kernel's
  f->code = writes && (error == ENOSPC || error == EDQUOT) ? "disk.full" : code;
  f->step = step;
  f->error = error;
  snprintf(f->subject, sizeof f->subject, "%s", subject ? subject : "");
  return -1;
}

void fault_put(struct buffer *out, uint32_t id, const struct fault *f) {
  size_t start = frame_begin(out, KIND_REFUSED, 0, 0, id);
  put_text(out, TAG_CODE, f->code);
  put_text(out, TAG_STEP, f->step);
  if (f->subject[0]) put_text(out, TAG_SUBJECT, f->subject);
  if (f->error) put_u32(out, TAG_ERRNO, (uint32_t)f->error);
  frame_end(out, start);
}
