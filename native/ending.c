// Ending a tree: stop, scan, kill until none is left.
//
// A pass stops everything of the tree (scan.c says who that is) that it has not seen before; when a pass finds nothing new, nothing can fork any more,
// and all are killed.
// A signal that arrives while a process forks is handled before the fork or the child exists and is found by the next pass.
// A chain whose every link forks and exits can outrun the scan of /proc, so its end is grabbed by reading the supervisor's list of children alone.
// Where that does not catch it in time, or no other exec lives that would be disturbed, kill(-1, SIGSTOP) stops the whole sandbox in one step under the
// kernel's lock on the list of processes, forks in flight included; then the tree is killed and the others go on. It is also the only way against
// thousands of processes that leave PID 1 no processor to scan with.
// One pass a turn of the loop: other execs are served in between.
#include "ending.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "exec.h"
#include "loop.h"
#include "scan.h"
#include "supervisor.h"

#define ROUNDS 30      // passes with something new before the whole sandbox is stopped
#define GRABS 32       // readings of the children's list in one pass
#define BUDGET 250     // ms of passes, likewise
#define PASSES 8       // of a signal to the whole tree
#define PATIENCE 1000  // ms a supervisor may outlive its tree

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

// One reading of a list of children. The kernel appends to it and takes out of it: what is new stands behind the last one of the reading before.
struct reading {
  pid_t list[4096];
  int count;
};

static bool read_one(pid_t pid, void *context) {
  struct reading *r = context;
  r->list[r->count++] = pid;
  return r->count < (int)(sizeof r->list / sizeof *r->list);
}

// Stops or kills new direct children, again and again while there are more: the loose end of a chain is always one of them.
static int grab(struct exec *e, int signal) {
  static struct reading r;
  pid_t parent = e->supervisor ? e->supervisor->pid : 1, last = 0;
  int told = 0;
  for (int i = 0; i < GRABS; i++) {
    int from = 0, before = told;
    r.count = 0;
    if (children(parent, read_one, &r) <= 0) break;
    for (int k = r.count; last && k > 0 && !from; k--)
      if (r.list[k - 1] == last) from = k;
    for (int k = from; k < r.count; k++) {
      pid_t pid = r.list[k];
      struct exec *orphan = e->supervisor ? NULL : orphan_of(pid);
      if (seen_before(&e->ending, pid) || (orphan && orphan != e)) continue;
      kill(pid, signal);
      told++;
    }
    last = r.list[r.count - 1];
    if (told == before) break;
  }
  return told;
}

// --- passes ---

// The last resort. Those the last scan has seen stopped stay so.
static void stop_all(struct exec *e) {
  size_t stopped_count = 0;
  struct known *stopped = malloc((process_count + 1) * sizeof *stopped);
  if (!stopped) _exit(112);
  for (size_t i = 0; i < process_count; i++)
    if (processes[i].state == 'T' || processes[i].state == 't') stopped[stopped_count++] = (struct known){processes[i].pid, processes[i].born};
  kill(-1, SIGSTOP);
  scan(NULL, NULL, 0);
  struct ending before = {.seen = stopped, .count = stopped_count};
  for (size_t i = 0; i < process_count; i++) {
    struct process *p = &processes[i];
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
    process_count = 0;
    stop_all(e);
  } else {
    ending_turn(e);
  }
}

void ending_over(struct exec *e) {
  free(e->ending.seen);
  e->ending = (struct ending){0};
  scan_forget();
}

struct telling {
  struct exec *exec;
  int signal;
};

// Tells a process of the tree as soon as it is read, so that a crowd gets smaller while it is counted.
static void tell_early(struct process *p, void *context) {
  const struct telling *t = context;
  if (belongs(t->exec, p) && (t->signal == SIGKILL || is_new(&t->exec->ending, p))) kill(p->pid, t->signal);
}

// Keeps who belongs to the tree now; returns how many of them were not kept before, and counts the living.
// The main thread of a living process can be a zombie; signalling a real one costs nothing.
static int remember(struct exec *e, int signal, size_t *living) {
  struct ending *g = &e->ending;
  struct known *seen = malloc((process_count + 1) * sizeof *seen);
  if (!seen) _exit(112);
  size_t kept = 0;
  int fresh = 0;
  for (size_t i = 0; i < process_count; i++) {
    struct process *p = &processes[i];
    if (!belongs(e, p)) continue;
    bool fresh_one = is_new(g, p);
    if (fresh_one || signal == SIGKILL) kill(p->pid, signal);
    fresh += fresh_one && !is_dead(p);
    *living += !is_dead(p);
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
  struct telling t = {e, signal};
  bool whole = scan(tell_early, &t, g->killing ? 0 : g->since + BUDGET);
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

// Once each. A process that was being forked meanwhile is there for the next pass, see above.
int tree_signal(struct exec *e, int signal) {
  struct ending all = {0};
  int told = 0, before = -1;
  for (int pass = 0; pass < PASSES && told > before; pass++) {
    before = told;
    scan(NULL, NULL, 0);
    struct known *seen = malloc((process_count + 1) * sizeof *seen);
    if (!seen) _exit(112);
    size_t kept = 0;
    for (size_t i = 0; i < process_count; i++) {
      struct process *p = &processes[i];
      if (!belongs(e, p)) continue;
      if (is_new(&all, p) && kill(p->pid, signal) == 0) told++;
      seen[kept++] = (struct known){p->pid, p->born};
    }
    free(all.seen);
    all.seen = seen;
    all.count = kept;
  }
  free(all.seen);
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
  scan(NULL, NULL, 0);
  for (size_t i = 0; i < process_count && !found; i++) found = belongs(e, &processes[i]);
  return found;
}
