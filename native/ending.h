// Ending the whole tree of an exec.
#ifndef SANDLOT_ENDING_H
#define SANDLOT_ENDING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct exec;

struct known {
  pid_t pid;
  uint64_t born;  // start time in clock ticks: a number that was given out again is another process
};

struct ending {
  bool active, killing;
  int rounds;
  int64_t next_at, since;  // by now_ms
  struct known *seen;      // told to stop, ascending
  size_t count;
};

void ending_begin(struct exec *e);
// One pass; sets next_at.
void ending_turn(struct exec *e);
void ending_over(struct exec *e);

// `signal` to every live process of the exec's tree; returns how many.
int tree_signal(struct exec *e, int signal);
// Does a process live that fell to PID 1 from a supervisor that was killed, or one of the exec's own?
bool tree_left(struct exec *e);

#endif
