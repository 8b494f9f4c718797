// Where the launcher's work ends and PID 1's begins.
#ifndef SANDLOT_INIT_H
#define SANDLOT_INIT_H

#include "frame.h"

// How ids are mapped; ARCHITECTURE.md, "Identities".
enum identity { IDENTITY_RANGE = 0, IDENTITY_SUBORDINATE = 1, IDENTITY_SINGLE = 2 };

#define INSIDE_USER 1000       // `user`, whom commands run as unless asked otherwise
#define INSIDE_RESERVED 65533  // init and supervisors, where more than one id is mapped
#define RANGE_SIZE 65536u

struct init_config {
  int channel;               // the engine's connection; the init owns it
  int life;                  // our end of a socket pair whose other end only the launcher holds: end of file = the launcher is dead
  enum identity identity;
  const uint8_t *filter;     // classic BPF, struct sock_filter[]; NULL = none
  size_t filter_length;      // bytes
  struct buffer missing;     // fields (TAG_FEATURE, TAG_MISSING) the launcher's side wants in WELCOME
};

// Called in PID 1 of the new namespaces when root, /proc and /dev stand, still with every capability in its own user namespace,
// as inside uid 0 (INSIDE_USER in IDENTITY_SINGLE). Takes the last privileges away, then obeys frames until the channel ends.
// The first frame on the channel is HELLO, answered with WELCOME; EXEC may be pipelined behind it.
_Noreturn void init_run(struct init_config *config);

// Says REFUSED on `channel` (code of src/model/error.ts, step in words, subject or NULL, errno or 0) and exits.
_Noreturn void refuse(int channel, const char *code, const char *step, const char *subject, int error);

#endif
