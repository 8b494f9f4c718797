// The child's side of a box: from the clone to init_run().
#ifndef SANDLOT_ROOT_H
#define SANDLOT_ROOT_H

#include "host.h"
#include "plan.h"

// What the launcher says over `life` before it falls silent for good: first GO, a byte with the descriptor of /dev, when the id maps are written;
// then this head, the payload of CREATE, fields for WELCOME, and a byte for each step (1 = its mount comes along). Descriptors travel with the
// head (the channel first) and, past BATCH, with single bytes behind everything.
struct handover {
  uint32_t payload, says, steps, descriptors;
};
#define BATCH 200

// Sends descriptors with bytes; receives up to `count` of them. Both take all the bytes or fail. receive returns how many descriptors came, or -1.
int send_with(int socket, const void *bytes, size_t length, const int *fds, unsigned count);
int receive_with(int socket, void *bytes, size_t length, int *fds, unsigned count);
// Everything the child waits for. -1 with errno.
int hand_over(int life, const struct plan *p, const uint8_t *payload, size_t length, const struct buffer *says, const int *trees, int channel);

// In the cloned process; never returns.
_Noreturn void child_run(int life, unsigned serial, bool grouped, bool unified);

// --- root.c: everything below is in the box ---
// Attaches root and steps, moves /proc and /dev in and makes it the root of this process.
int root_assemble(const struct plan *p, const int *trees, int proc, int dev, struct fault *f);
// --- proc.c ---
// A proc with its settings read-only and its secrets covered, and a /dev with terminals and shared memory; attached in the nest. Descriptor or -1.
int proc_make(struct fault *f);
int dev_complete(int dev, struct fault *f);

#endif
