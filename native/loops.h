// The launcher's event loop, as its parts see it.
#ifndef SANDLOT_LOOPS_H
#define SANDLOT_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

// One descriptor that is looked at. One event is taken at a time, so whoever handles it may free any other.
struct eye {
  int fd;
  void (*ready)(struct eye *e, uint32_t events);
};

void eye_open(struct eye *e, uint32_t events);
void eye_change(struct eye *e, uint32_t events);
void eye_leave(struct eye *e);
// Leaves the loop and closes.
void eye_close(struct eye *e);

int64_t launcher_ms(void);

#define owner_of_eye(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))

#endif
