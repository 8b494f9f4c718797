// One exec as PID 1 sees it.
#ifndef SANDLOT_EXEC_H
#define SANDLOT_EXEC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ending.h"
#include "frame.h"
#include "stream.h"

struct supervisor;

enum exec_state {
  EXEC_STARTING,   // EXEC was taken, a supervisor has it
  EXEC_RUNNING,    // STARTED was sent
  EXEC_EXITED,     // EXITED was sent: the first process is over, others may live
  EXEC_ENDED,      // ENDED was sent: no process is left
  EXEC_UNSTARTED,  // UNSTARTED was sent: there never was one
};

struct exec {
  uint32_t id;
  enum exec_state state;
  struct supervisor *supervisor;  // NULL once it has been reaped; a guest with the same id may have killed it
  bool orphaned;                  // its supervisor died before its tree: what is left are children of PID 1
  pid_t pid;                      // the first process
  enum cause cause;               // why the tree was ended, once it is
  uint64_t deadline_ms;           // as asked for; 0 = never
  int64_t deadline_at;            // by now_ms; 0 = none
  int64_t look_at;                // when to look after a start that takes long; 0 = not
  int tries;
  uint8_t *request;  // payload of EXEC until it has started, for a second try
  size_t request_length;
  bool wants_stdin, merges;
  struct output output;
  struct input input;
  struct ending ending;
  bool queued;  // wire.c
  struct exec *next_queued;
  struct exec *next_same, *next_live;  // exec.c: same slot of the table; not yet ended
};

// How a process ended and what it used; times in microseconds.
struct result {
  int code, status;  // as in siginfo: CLD_EXITED, CLD_KILLED or CLD_DUMPED; exit code or signal
  uint64_t user_us, system_us, peak_bytes;
};

extern struct exec *live_execs;
extern bool exec_starting;  // as of the last exec_turn: one of them is

// A frame of the engine that is about an exec.
void exec_obey(const struct frame *f, const uint8_t *payload);

// From the supervisor, or in its place.
void exec_started(struct exec *e, pid_t pid);
void exec_unstarted(struct exec *e, const char *step, int error);
void exec_exited(struct exec *e, const struct result *r);
void exec_ended(struct exec *e);

// What is due: deadlines, passes of an ending. Returns milliseconds until more is, -1 = nothing.
int exec_turn(void);

#endif
