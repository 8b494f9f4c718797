// Who lives in the sandbox, and whose.
#ifndef SANDLOT_SCAN_H
#define SANDLOT_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct exec;

struct process {
  pid_t pid, parent;
  char state;              // as in /proc/pid/stat
  bool supervises, known;  // known: owner is settled
  uint64_t born;           // start time in clock ticks: a number that was given out again is another process
  struct exec *owner;      // NULL = nobody's
};

extern struct process *processes;  // of the last scan, ascending
extern size_t process_count;

// Reads all processes; `early` is called on the way for those whose owner is clear by then. False if `until` (by clock_ms; 0 = never) came first.
bool scan(void (*early)(struct process *p, void *context), void *context, int64_t until);
void scan_forget(void);
bool belongs(const struct exec *e, const struct process *p);
bool is_dead(const struct process *p);

// Calls `each` for every child of `parent` that is no supervisor, until it says false; returns how many, -1 if the kernel keeps no such list.
int children(pid_t parent, bool (*each)(pid_t pid, void *context), void *context);
// The exec without supervisor whose first process this is.
struct exec *orphan_of(pid_t pid);

int64_t clock_ms(void);

#endif
