// Plans that need a directory to be copied, which the launcher cannot wait for.
//
// A fork of the launcher makes the mounts and hands over, as the launcher itself would have, and then says what it has made of
// the box: the launcher needs that for counting and removing. It dies with the launcher.
#define _GNU_SOURCE
#include "slow.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "root.h"

#define UPPERS 64

struct outcome {
  int result;
  struct fault fault;
  char code[32], step[160];  // the fault's are addresses in the other process
  bool has_directory;
  unsigned places, next_place, upper_count;
  struct upper_ref uppers[UPPERS];
};

static _Noreturn void carry_out(struct slow *s, int to, const struct plan *p, const uint8_t *payload, size_t length, int channel) {
  static int trees[STEP_LIMIT], fds[UPPERS];
  static struct outcome o;
  struct buffer says = {0}, places = {0};
  struct box *b = s->box;
  unsigned count = 0;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  b->may_copy = true;
  o.result = mounts_make(b, p, trees, &places, &says, &o.fault);
  if (!o.result && b->upper_count > UPPERS) o.result = fault_set(&o.fault, "argument.invalid", "too many overlays", NULL, 0);
  if (!o.result && hand_over(b->life, p, payload, length, &says, trees, channel) < 0)
    o.result = fault_set(&o.fault, "launcher.failed", "hand over to a sandbox's first process", NULL, errno);
  if (o.result) {
    strncpy(o.code, o.fault.code, sizeof o.code - 1);
    strncpy(o.step, o.fault.step, sizeof o.step - 1);
  }
  o.has_directory = b->has_directory;
  o.places = b->places;
  o.next_place = b->next_place;
  for (unsigned i = 0; !o.result && i < b->upper_count; i++) {
    o.uppers[o.upper_count++] = b->uppers[i];
    if (b->uppers[i].fd >= 0) fds[count++] = b->uppers[i].fd;
  }
  _exit(send_with(to, &o, sizeof o, fds, count) < 0);
}

static void take(struct slow *s, const struct outcome *o, const int *fds, int have) {
  struct box *b = s->box;
  int next = 0;
  b->has_directory = o->has_directory;
  b->places = o->places;
  b->next_place = o->next_place;
  if (!o->upper_count) return;
  b->uppers = calloc(o->upper_count, sizeof *b->uppers);
  if (!b->uppers) _exit(112);
  b->upper_count = o->upper_count;
  for (unsigned i = 0; i < o->upper_count; i++) {
    b->uppers[i] = o->uppers[i];
    if (b->uppers[i].fd >= 0) b->uppers[i].fd = next < have ? fds[next++] : -1;
  }
}

static void ready(struct eye *e, uint32_t events) {
  struct slow *s = owner_of_eye(e, struct slow, eye);
  static struct outcome o;
  int fds[UPPERS], status;
  (void)events;
  int have = receive_with(e->fd, &o, sizeof o, fds, UPPERS);
  if (have < 0) {
    memset(&o, 0, sizeof o);
    o.has_directory = true;  // it may have made one
    o.result = fault_set(&o.fault, "launcher.failed", "the process that copies a directory died", NULL, 0);
  } else if (o.result) {
    o.fault.code = o.code;
    o.fault.step = o.step;
  }
  eye_close(e);
  waitpid(s->pid, &status, 0);
  s->pid = 0;
  take(s, &o, fds, have);
  s->done(s, o.result, &o.fault);
}

int slow_start(struct slow *s, const struct plan *p, const uint8_t *payload, size_t length, int channel, struct fault *f) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) return fault_set(f, "launcher.failed", "socketpair", NULL, errno);
  s->pid = fork();
  if (s->pid == 0) {
    close(pair[0]);
    carry_out(s, pair[1], p, payload, length, channel);
  }
  int error = errno;
  close(pair[1]);
  if (s->pid < 0) {
    close(pair[0]);
    s->pid = 0;
    return fault_set(f, "launcher.failed", "fork", NULL, error);
  }
  s->eye = (struct eye){.fd = pair[0], .ready = ready};
  eye_open(&s->eye, EPOLLIN);
  return 0;
}

void slow_stop(struct slow *s) {
  if (!s->pid) return;
  kill(s->pid, SIGKILL);
  ready(&s->eye, 0);
}
