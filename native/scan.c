// Who lives in the sandbox, and whose.
//
// /proc is read like ps does. Who belongs to an exec is who descends from its supervisor: that is a subreaper, whose orphans stay its children
// whatever session they move to. When a guest has killed a supervisor, its children are PID 1's: the first process is known by its number, the rest is a
// pool that belongs to every exec that lost its supervisor.
// Numbers of processes are given out in a circle, so one that was just read names the same process for as long as a scan takes.
#define _GNU_SOURCE
#include "scan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "exec.h"
#include "supervisor.h"
#include "wire.h"

struct process *processes;
size_t process_count;

static size_t room;
static struct exec pool;  // children of PID 1 that no living supervisor has

int64_t clock_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

// Whoever cannot be seen cannot be ended: better the whole sandbox ends.
static _Noreturn void blind(void) { wire_fault_end(0, "internal", "reading /proc"); }

static long number(const char **at) {
  while (**at == ' ') ++*at;
  return strtol(*at, (char **)(uintptr_t)at, 10);
}

// pid (comm) state ppid ...; comm may hold anything, so the fields count from the last parenthesis.
static bool read_process(int proc, const char *name, struct process *p) {
  char path[32], text[1024];
  snprintf(path, sizeof path, "%.16s/stat", name);
  int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) blind();
  if (fd < 0) return false;  // gone
  ssize_t got = read(fd, text, sizeof text - 1);
  close(fd);
  if (got <= 0) return false;
  text[got] = 0;
  const char *at = strrchr(text, ')');
  if (!at || !at[1] || !at[2]) return false;
  *p = (struct process){.pid = (pid_t)atol(name), .state = at[2]};
  at += 3;
  p->parent = (pid_t)number(&at);                          // field 4
  for (int field = 5; field < 22; field++) number(&at);
  p->born = (uint64_t)number(&at);                         // field 22
  return true;
}

static int compare(const void *one, const void *other) {
  pid_t a = ((const struct process *)one)->pid, b = ((const struct process *)other)->pid;
  return a < b ? -1 : a > b;
}

static struct process *find(pid_t pid) {
  struct process key = {.pid = pid};
  return process_count ? bsearch(&key, processes, process_count, sizeof *processes, compare) : NULL;
}

struct exec *orphan_of(pid_t pid) {
  for (struct exec *e = live_execs; e; e = e->next_live)
    if (e->orphaned && e->pid == pid && e->state == EXEC_RUNNING) return e;
  return NULL;
}

// Settles whose `p` is: up to a process that is settled, then back down.
static void settle(struct process *p) {
  size_t depth = 0;
  struct process *top = p;
  struct exec *owner = NULL;
  while (!top->known) {
    if (top->parent <= 1) {
      struct supervisor *s = top->parent == 1 ? supervisor_of(top->pid) : NULL;
      struct exec *orphan = top->parent == 1 && !s ? orphan_of(top->pid) : NULL;
      top->supervises = s != NULL;
      top->owner = s ? s->exec : orphan ? orphan : top->parent == 1 ? &pool : NULL;
      top->known = true;
      break;
    }
    struct process *parent = find(top->parent);
    if (!parent || ++depth > process_count) {  // gone before it was read: the next pass finds its child elsewhere
      top->known = true;
      break;
    }
    top = parent;
  }
  owner = top->owner;
  for (; !p->known; p = find(p->parent)) {
    p->owner = owner;
    p->known = true;
  }
}

bool belongs(const struct exec *e, const struct process *p) {
  return !p->supervises && p->pid != 1 && (p->owner == e || (e->orphaned && p->owner == &pool));
}

bool is_dead(const struct process *p) { return p->state == 'Z' || p->state == 'X'; }

// What can be settled already: parents mostly have the smaller number and were read before.
static bool settle_early(struct process *p) {
  struct process *parent = p->parent > 1 ? find(p->parent) : NULL;
  if (p->parent > 1 && (!parent || !parent->known)) return false;
  settle(p);
  return true;
}

bool scan(void (*early)(struct process *p, void *context), void *context, int64_t until) {
  struct { uint64_t ino; int64_t off; unsigned short length; unsigned char type; char name[]; } *entry;
  static _Alignas(8) char names[32 << 10];
  bool whole = true;
  process_count = 0;
  int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (proc < 0) blind();
  for (long got; whole && (got = syscall(SYS_getdents64, proc, names, sizeof names)) > 0;) {
    for (long at = 0; at < got && whole; at += entry->length) {
      entry = (void *)(names + at);
      if (entry->name[0] < '1' || entry->name[0] > '9') continue;
      if (process_count == room) {
        size_t more = room ? room * 2 : 256;
        struct process *longer = realloc(processes, more * sizeof *processes);
        if (!longer) blind();
        processes = longer;
        room = more;
      }
      if (!read_process(proc, entry->name, &processes[process_count])) continue;
      process_count++;
      if (early && settle_early(&processes[process_count - 1])) early(&processes[process_count - 1], context);
      if (until && process_count % 32 == 0) whole = clock_ms() < until;
    }
  }
  close(proc);
  qsort(processes, process_count, sizeof *processes, compare);
  for (size_t i = 0; i < process_count; i++) settle(&processes[i]);
  return whole;
}

void scan_forget(void) {
  if (room <= 4096) return;
  free(processes);
  processes = NULL;
  process_count = room = 0;
}

// Calls `each` for every child of `parent` that is no supervisor; returns how many, -1 if the kernel has no such list.
int children(pid_t parent, bool (*each)(pid_t pid, void *context), void *context) {
  char path[64];
  static char text[32 << 10];
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", parent, parent);
  int fd = open(path, O_RDONLY | O_CLOEXEC), found = 0;
  if (fd < 0) return -1;
  size_t used = 0;
  for (ssize_t got; used < sizeof text - 1 && (got = read(fd, text + used, sizeof text - 1 - used)) > 0;) used += (size_t)got;
  close(fd);
  text[used] = 0;
  for (char *at = text, *end; ; at = end) {
    pid_t pid = (pid_t)strtol(at, &end, 10);
    if (end == at || (*end == 0 && used == sizeof text - 1)) break;  // a number that was cut off is nobody's
    if (parent == 1 && supervisor_of(pid)) continue;
    found++;
    if (!each(pid, context)) break;
  }
  return found;
}
