// One descriptor the event loop looks at, and what to do when it is ready. Embedded in whatever owns the descriptor.
#ifndef SANDLOT_LOOP_H
#define SANDLOT_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct watch {
  int fd;           // -1 = closed
  uint32_t events;  // EPOLL*; 0 = not looked at, not even for EPOLLHUP, which epoll cannot be told to leave out
  void (*ready)(struct watch *w, uint32_t events);
};

void watch_set(struct watch *w, uint32_t events);
// Leaves the loop, then closes. In this order: epoll knows open files, not descriptors, and a supervisor just forked may still hold a copy.
void watch_close(struct watch *w);

// Frees at the end of this turn of the loop: events already fetched may still point into it.
void free_later(void *memory);

// Milliseconds of CLOCK_MONOTONIC, as of this turn of the loop.
int64_t now_ms(void);

#define owner_of(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))

#endif
