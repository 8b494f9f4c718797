// The process between PID 1 and a command.
#ifndef SANDLOT_SUPERVISOR_H
#define SANDLOT_SUPERVISOR_H

#include <stdbool.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "exec.h"
#include "init.h"
#include "loop.h"

// Shared with the supervisor, so that what it knows outlives it: a guest that has the same id may kill it at any point.
// States only rise; BORN is set by the first process itself, against which ABANDONED is decided.
enum slip_state { SLIP_WAITING, SLIP_ABANDONED, SLIP_BORN, SLIP_STARTED, SLIP_UNSTARTED, SLIP_EXITED, SLIP_ENDED };

enum slip_step { FAILED_NOT, FAILED_FORK, FAILED_USER, FAILED_CWD, FAILED_FILTER, FAILED_EXEC };

struct slip {
  _Atomic int state;
  _Atomic int pid;  // first process
  _Atomic int step, error;
  struct result result;
};

struct supervisor {
  pid_t pid;
  struct watch wire;  // one byte from it = look at the slip
  struct slip *slip;
  struct exec *exec;  // NULL = spare
  int stdin_pipe, out_pipe, err_pipe;  // our ends, until an exec has them
  struct supervisor *next;
};

extern struct supervisor *supervisors;

void supervisor_setup(const struct init_config *config, int oom);
// Gives the exec to the spare, or to a supervisor forked for it. False: UNSTARTED was said.
bool supervisor_start(struct exec *e, const uint8_t *payload, size_t length);
// Forks the next spare if there is none; called when the loop has nothing else to do.
void supervisor_spare(void);
bool supervisor_has_spare(void);
// Reads the slip and tells the exec what is new.
void supervisor_notice(struct supervisor *s);
// True if `pid` is a supervisor; `exec` gets whose.
struct supervisor *supervisor_of(pid_t pid);
// It has been reaped.
void supervisor_gone(struct supervisor *s);

// supervise.c: the supervisor itself. `request` is NULL in a spare, which waits for it on `wire`; ends are the command's stdin, stdout, stderr.
struct duty {
  struct slip *slip;
  int wire;
  int ends[3];
  const uint8_t *request;
  size_t length;
  const struct init_config *config;
};
_Noreturn void supervise(const struct duty *duty);
// waitid for any child, with its usage; si_pid is 0 when WNOHANG found none. Returns -1 when there is no child.
int wait_any(siginfo_t *info, int options, struct result *r);

#define REQUEST_LIMIT (64u << 10)  // larger ones are not sent to the spare: a fork has them already

#endif
