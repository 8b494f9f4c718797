// The crew: at most CREW processes forked from the launcher, each confined for good (tree.c) and fed with jobs over a socket pair.
//
// They are kept while there is work, since a fork costs as much as removing the directory of a small box, and sent away when the launcher rests.
// A job that takes long keeps one of them; the others go on. They die with the launcher: by the parent-death signal, or at the end of the socket.
// Descriptors: FD_LIFE the socket, FD_CGROUP.. the parents of control groups, nothing else.
#define _GNU_SOURCE
#include "crew.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cgroup.h"
#include "kernel.h"
#include "loops.h"
#include "root.h"
#include "tree.h"

#define CREW 4

struct order {
  enum job_kind kind;
  unsigned serial;
  char path[sizeof((struct job *)0)->path];
};

struct answer {
  int error;
  uint64_t count;
};

static struct hand {
  struct eye eye;
  pid_t pid;  // 0 = not there
  struct job *job;
} hands[CREW];
static struct job *first, **last = &first;
static unsigned busy;

// Groups go as soon as the last process in them has been reaped, which is a matter of milliseconds after its PID 1.
static void remove_groups(unsigned serial) {
  for (int wait = 1; cgroup_remove(serial) < 0 && wait < 2000; wait *= 2) poll(NULL, 0, wait);
}

static _Noreturn void work(int socket) {
  struct order o;
  int fd = -1;
  dup3(socket, FD_LIFE, O_CLOEXEC);
  close(FD_CONTROL);
  int boxes = fcntl(host.boxes, F_DUPFD_CLOEXEC, FD_FREE);
  if (boxes < 0 || tree_confine(boxes, TREE_KILL) < 0) _exit(1);
  k_close_range(FD_FREE, ~0u);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  int top = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  while (receive_with(FD_LIFE, &o, sizeof o, &fd, 1) >= 0) {
    struct answer a = {0};
    if (o.kind == JOB_REMOVE) {
      if (o.path[0] && tree_remove(top, o.path) < 0) a.error = errno;
      if (o.serial) remove_groups(o.serial);
    } else {
      if (fd < 0) fd = k_openat2(top, o.path, O_PATH | O_DIRECTORY, 0, RESOLVE_BELOW | RESOLVE_LINKS_NO);
      if (fd < 0 || tree_count(fd, &a.count) < 0) a.error = errno;
    }
    if (fd >= 0) close(fd);
    fd = -1;
    if (write(FD_LIFE, &a, sizeof a) != sizeof a) break;
  }
  _exit(0);
}

static void dismiss(struct hand *h) {
  eye_close(&h->eye);
  waitpid(h->pid, NULL, 0);  // it leaves at once: nothing is asked of it
  h->pid = 0;
}

static void next(void);

static void finished(struct hand *h, int error, uint64_t count) {
  struct job *job = h->job;
  h->job = NULL;
  busy--;
  job->done(job->owner, error, count);
  if (job->fd >= 0) close(job->fd);
  free(job);
}

static void answered(struct eye *e, uint32_t events) {
  struct hand *h = owner_of_eye(e, struct hand, eye);
  struct answer a = {.error = ECHILD};
  (void)events;
  bool alive = read(e->fd, &a, sizeof a) == sizeof a;
  if (!alive) {
    kill(h->pid, SIGKILL);
    dismiss(h);
  }
  if (h->job) finished(h, a.error, a.count);
  next();
}

static bool hire(struct hand *h) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) return false;
  h->pid = fork();
  if (h->pid == 0) work(pair[1]);
  close(pair[1]);
  if (h->pid < 0) {
    close(pair[0]);
    h->pid = 0;
    return false;
  }
  h->eye = (struct eye){.fd = pair[0], .ready = answered};
  eye_open(&h->eye, EPOLLIN);
  return true;
}

static void next(void) {
  for (int i = 0; i < CREW && first; i++) {
    struct hand *h = &hands[i];
    if (h->job || (!h->pid && !hire(h))) continue;
    struct job *job = first;
    if (!(first = job->next)) last = &first;
    h->job = job;
    struct order o = {.kind = job->kind, .serial = job->serial};
    memcpy(o.path, job->path, sizeof o.path);
    // A dead one is noticed by the end of its socket, which answers for the job.
    if (send_with(h->eye.fd, &o, sizeof o, &job->fd, job->fd >= 0 ? 1 : 0) < 0) kill(h->pid, SIGKILL);
  }
  if (!first || busy == 0) return;
  for (int i = 0; i < CREW; i++)
    if (hands[i].job) return;
  // Not one process can be made: nothing is removed here and now; the sweep of a later launcher does it.
  while (first) {
    struct job *job = first;
    if (!(first = job->next)) last = &first;
    hands[0].job = job;
    finished(&hands[0], EAGAIN, 0);
  }
}

void crew_add(const struct job *job) {
  struct job *copy = malloc(sizeof *copy);
  if (!copy) _exit(112);
  *copy = *job;
  copy->next = NULL;
  *last = copy;
  last = &copy->next;
  busy++;
  next();
}

unsigned crew_busy(void) { return busy; }

void crew_rest(void) {
  for (int i = 0; i < CREW; i++)
    if (hands[i].pid && !hands[i].job) dismiss(&hands[i]);
}
