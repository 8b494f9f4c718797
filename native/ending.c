// Ending a tree: stop, scan, kill until none is left.
//
// Who belongs to an exec is who descends from its supervisor: a subreaper's orphans stay its children whatever session they move to. A pass stops
// everything of the tree that it has not seen before; when a pass finds nothing new, nothing can fork any more, and all are killed.
// A signal that arrives while a process forks is handled before the fork or the child exists and is found by the next pass.
// A chain whose every link forks and exits can outrun the scan of /proc, so its end is grabbed by reading the supervisor's list of children alone.
// Where that does not catch it in time, or no other exec lives that would be disturbed, kill(-1, SIGSTOP) stops the whole sandbox in one step under the
// kernel's lock on the list of processes, forks in flight included; then the tree is killed and the others go on. It is also the only way against
// thousands of processes that leave PID 1 no processor to scan with.
// One pass a turn of the loop: other execs are served in between.
#include "ending.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "exec.h"
#include "loop.h"
#include "supervisor.h"

#define ROUNDS 30      // passes with something new before the whole sandbox is stopped
#define GRABS 32       // readings of the children's list in one pass
#define BUDGET 250     // ms of passes, likewise
#define PATIENCE 1000  // ms a supervisor may outlive its tree

struct process {
  pid_t pid, parent;
  char state;
  bool supervises, known;  // known: owner is settled
  uint64_t born;
  struct exec *owner;  // NULL = nobody's
};

static struct process *list;  // of the last scan, ascending
static size_t count, size;

// Children of PID 1 that no living supervisor has.
static struct exec pool;

// --- scan ---

static long number(const char **at) {
  while (**at == ' ') ++*at;
  return strtol(*at, (char **)(uintptr_t)at, 10);
}

// pid (comm) state ppid ...; comm may hold anything, so the fields count from the last parenthesis.
static bool read_process(int proc, const char *name, struct process *p) {
  char path[32], text[1024];
  snprintf(path, sizeof path, "%.16s/stat", name);
  int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
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
  return count ? bsearch(&key, list, count, sizeof *list, compare) : NULL;
}

static struct exec *orphan_of(pid_t pid) {
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
    if (!parent || ++depth > count) {  // gone before it was read: the next pass finds its child elsewhere
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

static bool belongs(const struct exec *e, const struct process *p) {
  return !p->supervises && p->pid != 1 && (p->owner == e || (e->orphaned && p->owner == &pool));
}

static const struct known *seen_before(const struct ending *g, pid_t pid) {
  size_t low = 0, high = g->count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (g->seen[middle].pid < pid) low = middle + 1;
    else high = middle;
  }
  return low < g->count && g->seen[low].pid == pid ? &g->seen[low] : NULL;
}

static bool is_new(const struct ending *g, const struct process *p) {
  const struct known *was = seen_before(g, p->pid);
  return !was || was->born != p->born;
}

static int64_t clock_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

// Tells a process of the tree as soon as it is read, so that a crowd gets smaller while it is counted. Parents mostly have the smaller number.
static void tell_early(struct process *p, struct exec *e, int signal) {
  struct process *parent = p->parent > 1 ? find(p->parent) : NULL;
  if (p->parent > 1 && (!parent || !parent->known)) return;
  settle(p);
  if (belongs(e, p) && (signal == SIGKILL || is_new(&e->ending, p))) kill(p->pid, signal);
}

// Reads all processes. With an exec, what is new of its tree gets `signal` on the way. False if `until` came first.
static bool scan(struct exec *e, int signal, int64_t until) {
  struct { uint64_t ino; int64_t off; unsigned short length; unsigned char type; char name[]; } *entry;
  static _Alignas(8) char names[32 << 10];
  bool whole = true;
  count = 0;
  int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (proc < 0) return true;
  for (long got; whole && (got = syscall(SYS_getdents64, proc, names, sizeof names)) > 0;) {
    for (long at = 0; at < got && whole; at += entry->length) {
      entry = (void *)(names + at);
      if (entry->name[0] < '1' || entry->name[0] > '9') continue;
      if (count == size) {
        size_t more = size ? size * 2 : 256;
        struct process *longer = realloc(list, more * sizeof *list);
        if (!longer) break;
        list = longer;
        size = more;
      }
      if (!read_process(proc, entry->name, &list[count])) continue;
      count++;
      if (e) tell_early(&list[count - 1], e, signal);
      if (until && count % 32 == 0) whole = clock_ms() < until;
    }
  }
  close(proc);
  qsort(list, count, sizeof *list, compare);
  for (size_t i = 0; i < count; i++) settle(&list[i]);
  return whole;
}

static bool dead(const struct process *p) { return p->state == 'Z' || p->state == 'X'; }

// --- the list of children ---

// Calls `each` for every child of `parent` that is no supervisor; returns how many, -1 if the kernel has no such list.
static int children(pid_t parent, bool (*each)(pid_t pid, void *context), void *context) {
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

struct grab {
  struct exec *exec;
  int signal, fresh;
  pid_t last;
};

static bool grab_one(pid_t pid, void *context) {
  struct grab *g = context;
  if (pid == g->last || seen_before(&g->exec->ending, pid)) return true;
  struct exec *orphan = g->exec->supervisor ? NULL : orphan_of(pid);
  if (orphan && orphan != g->exec) return true;
  kill(pid, g->signal);
  g->last = pid;
  g->fresh++;
  return true;
}

// Stops or kills new direct children, again and again while there are more: the loose end of a chain is always one of them.
static int grab(struct exec *e, int signal) {
  struct grab g = {.exec = e, .signal = signal};
  pid_t parent = e->supervisor ? e->supervisor->pid : 1;
  for (int i = 0, before = -1; i < GRABS && g.fresh != before; i++) {
    before = g.fresh;
    if (children(parent, grab_one, &g) < 0) break;
  }
  return g.fresh;
}

// --- passes ---

// The last resort. Those the last scan has seen stopped stay so.
static void stop_all(struct exec *e) {
  size_t stopped_count = 0;
  struct known *stopped = malloc((count + 1) * sizeof *stopped);
  if (!stopped) return;
  for (size_t i = 0; i < count; i++)
    if (list[i].state == 'T' || list[i].state == 't') stopped[stopped_count++] = (struct known){list[i].pid, list[i].born};
  kill(-1, SIGSTOP);
  scan(NULL, 0, 0);
  struct ending before = {.seen = stopped, .count = stopped_count};
  for (size_t i = 0; i < count; i++) {
    struct process *p = &list[i];
    if (p->pid == 1) continue;
    if (belongs(e, p)) kill(p->pid, SIGKILL);
    else if (p->supervises || is_new(&before, p)) kill(p->pid, SIGCONT);
  }
  free(stopped);
  e->ending.killing = true;
  e->ending.rounds = 0;
  e->ending.since = clock_ms();
  e->ending.next_at = e->ending.since + 2;
}

void ending_begin(struct exec *e) {
  e->ending.active = true;
  e->ending.next_at = e->ending.since = now_ms();
  if (live_execs == e && !e->next_live) {
    count = 0;
    stop_all(e);
  } else {
    ending_turn(e);
  }
}

void ending_over(struct exec *e) {
  free(e->ending.seen);
  e->ending = (struct ending){0};
  if (size > 4096) {
    free(list);
    list = NULL;
    count = size = 0;
  }
}

// Keeps who belongs to the tree now; returns how many of them were not kept before, and counts the living.
// The main thread of a living process can be a zombie; signalling a real one costs nothing.
static int remember(struct exec *e, int signal, size_t *living) {
  struct ending *g = &e->ending;
  struct known *seen = malloc((count + 1) * sizeof *seen);
  if (!seen) return 0;
  size_t kept = 0;
  int fresh = 0;
  for (size_t i = 0; i < count; i++) {
    struct process *p = &list[i];
    if (!belongs(e, p)) continue;
    bool fresh_one = is_new(g, p);
    if (fresh_one || signal == SIGKILL) kill(p->pid, signal);
    fresh += fresh_one && !dead(p);
    *living += !dead(p);
    seen[kept++] = (struct known){p->pid, p->born};
  }
  free(g->seen);
  g->seen = seen;
  g->count = kept;
  return fresh;
}

void ending_turn(struct exec *e) {
  struct ending *g = &e->ending;
  size_t living = 0;
  int64_t now = now_ms();
  int signal = g->killing ? SIGKILL : SIGSTOP;
  int fresh = grab(e, signal);
  bool whole = scan(e, signal, g->killing ? 0 : g->since + BUDGET);
  fresh += remember(e, signal, &living);
  if (!whole || (fresh && ++g->rounds > ROUNDS)) {
    stop_all(e);
    return;
  }
  if (fresh) {
    g->next_at = now;
    return;
  }
  if (!g->killing) {
    g->killing = true;
    living = 0;
    remember(e, SIGKILL, &living);
    g->since = now;
    g->next_at = now + 2;
    return;
  }
  // Killed, and now to be reaped. What hangs in the kernel is looked at less and less often.
  if (living) {
    int64_t wait = now - g->since;
    g->next_at = now + (wait < 2 ? 2 : wait > 200 ? 200 : wait);
    return;
  }
  if (e->supervisor && now - g->since > PATIENCE) kill(e->supervisor->pid, SIGKILL);
  g->next_at = now + 50;
}

int tree_signal(struct exec *e, int signal) {
  int told = 0;
  scan(NULL, 0, 0);
  for (size_t i = 0; i < count; i++)
    if (belongs(e, &list[i]) && kill(list[i].pid, signal) == 0) told++;
  return told;
}

static bool left(pid_t pid, void *context) {
  bool *found = context;
  if (orphan_of(pid)) return true;
  *found = true;
  return false;
}

bool tree_left(struct exec *e) {
  bool found = false;
  if (children(1, left, &found) >= 0) return found;
  scan(NULL, 0, 0);
  for (size_t i = 0; i < count && !found; i++) found = belongs(e, &list[i]);
  return found;
}
