// The launcher: one per engine, single-threaded, never waiting for anything but the next event.
//
// Its end: the engine's end of the control channel closes, however the engine ended. Then every init is killed, directories and groups are removed,
// and it exits. Killed itself, its inits die with it (parent-death signal, end of `life`); what stays is for the next launcher's sweep.
// Descriptors: 3 the control channel; 4 at the start the connection of the first box, so that an engine which wants one need not wait for the socket;
// the listening socket; the lock; templates; a pidfd and a `life` for each box.
// It runs in a mount namespace of its own, so that nothing it mounts shows on the host, and in a session of its own.
#define _GNU_SOURCE
#include "launcher.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "boxes.h"
#include "cgroup.h"
#include "connection.h"
#include "crew.h"
#include "loops.h"
#include "start.h"

#define REST_MS 1000       // nothing asked for this long: spare and crew go
#define BREATH_MS 2        // after an order the processors are for the box that it was about; then for the next spare
#define FAREWELL_MS 10000  // for removing directories at the end; what is left then is for the sweep

static int poller = -1, first_connection = -1;
static struct eye control, listener, signals;
static struct buffer in, out;
static struct fault hindrance;  // why no box can be made, although READY was said
static bool started, ending, resting;
static int64_t ending_at, asked_at;
static pid_t sweeper;

int64_t launcher_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void eye_open(struct eye *e, uint32_t events) {
  struct epoll_event event = {.events = events, .data.ptr = e};
  if (epoll_ctl(poller, EPOLL_CTL_ADD, e->fd, &event) < 0) _exit(112);
}

void eye_change(struct eye *e, uint32_t events) {
  struct epoll_event event = {.events = events, .data.ptr = e};
  epoll_ctl(poller, EPOLL_CTL_MOD, e->fd, &event);
}

void eye_leave(struct eye *e) { epoll_ctl(poller, EPOLL_CTL_DEL, e->fd, NULL); }

void eye_close(struct eye *e) {
  eye_leave(e);  // by hand: a child just cloned may still hold a copy
  close(e->fd);
  e->fd = -1;
}

// --- the end ---

static void end_all(void) {
  if (ending) return;
  ending = true;
  ending_at = launcher_ms();
  if (listener.fd >= 0) eye_close(&listener);
  if (control.fd >= 0) eye_close(&control);
  connection_close_all();
  boxes_discard_all();
}

static _Noreturn void leave(void) {
  crew_rest();
  if (sweeper > 0) kill(sweeper, SIGKILL);
  cgroup_end();
  start_undo();
  _exit(0);
}

// --- to the engine ---

static void flush(void) {
  while (out.used && control.fd >= 0) {
    ssize_t put = send(control.fd, out.bytes, out.used, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) break;  // EAGAIN: later; an engine that is gone shows as the end of what we read
    buffer_shift(&out, (size_t)put);
  }
  if (control.fd >= 0) eye_change(&control, EPOLLIN | (out.used ? EPOLLOUT : 0u));
}

void say(const struct buffer *frame) {
  if (ending) return;
  bool waits = out.used > 0;
  put_raw(&out, frame->bytes, frame->used);
  if (!waits) flush();
}

// Refuses START: the one thing left to do.
static _Noreturn void refuse_start(uint32_t id, const struct fault *f) {
  struct buffer b = {0};
  fault_put(&b, id, f);
  for (size_t at = 0; at < b.used;) {
    ssize_t put = send(FD_CONTROL, b.bytes + at, b.used - at, MSG_NOSIGNAL);
    if (put < 0 && errno != EINTR) break;
    if (put > 0) at += (size_t)put;
  }
  fprintf(stderr, "sandlot: %s: %s%s%s%s%s\n", f->code, f->step, f->subject[0] ? ": " : "", f->subject, f->error ? ": " : "", f->error ? strerror(f->error) : "");
  leave();
}

// --- START ---

static void accept_ready(struct eye *e, uint32_t events) {
  (void)events;
  int fd = accept4(e->fd, NULL, NULL, SOCK_CLOEXEC);
  asked_at = launcher_ms();
  resting = false;
  if (fd >= 0) connection_open(fd, CONNECTION_MADE, &hindrance);
}

static void start_now(const struct frame *frame, const uint8_t *payload) {
  static const char *const names[] = {"range", "subordinate", "single"};
  struct fault f = {0};
  char socket[PATH_LIMIT + 64];
  if (start_open(payload, frame->length, &listener.fd, &f)) refuse_start(frame->id, &f);
  listener.ready = accept_ready;
  eye_open(&listener, EPOLLIN);
  started = true;
  asked_at = launcher_ms();
  snprintf(socket, sizeof socket, "%s/launcher/%s/socket", host.state, host.launcher);
  struct buffer b = {0};
  size_t at = frame_begin(&b, KIND_READY, 0, 0, frame->id);
  put_u32(&b, TAG_GENERATION, GENERATION);
  put_text(&b, TAG_SOCKET, socket);
  put_text(&b, TAG_IDENTITY, names[host.identity]);
  frame_end(&b, at);
  say(&b);
  buffer_free(&b);
  // The rest while the engine connects: what boxes are made from, and a sweep of what others left.
  start_finish(&hindrance);
  if (first_connection >= 0) connection_open(first_connection, CONNECTION_FIRST, &hindrance);
  first_connection = -1;
  sweeper = start_sweep();
}

// --- from the engine ---

static void obey(const struct frame *frame, const uint8_t *payload) {
  struct field x;
  size_t at = 0;
  char *box = NULL;
  if (frame->kind == KIND_START && !started) {
    start_now(frame, payload);
    return;
  }
  if (!started) return end_all();
  while (field_next(payload, frame->length, &at, &x) > 0)
    if (x.tag == TAG_BOX && !box) box = field_text(&x);
  struct buffer b = {0};
  struct fault f;
  if (box && frame->kind == KIND_DISCARD) boxes_discard(box);
  else if (box && frame->kind == KIND_CHANGES) {
    if (!boxes_changes(box, frame->id)) fault_set(&f, "sandbox.not_found", "count the changes of a sandbox", box, 0), fault_put(&b, frame->id, &f);
  } else {
    size_t begin = frame_begin(&b, KIND_FAULT, 0, 0, frame->id);
    put_text(&b, TAG_CODE, "unsupported");
    frame_end(&b, begin);
  }
  if (b.used) say(&b);
  buffer_free(&b);
  free(box);
}

static void control_ready(struct eye *e, uint32_t events) {
  if (events & EPOLLOUT) flush();
  if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) return;
  size_t room = 65536;
  struct frame frame;
  if (in.used >= FRAME_HEADER) {
    frame_decode(in.bytes, &frame);
    if (frame.length > FRAME_LIMIT_IN) return end_all();
    size_t lacks = FRAME_HEADER + (size_t)frame.length - in.used;
    if (lacks > room) room = lacks;
  }
  if (in.size < in.used + room) {
    uint8_t *bytes = realloc(in.bytes, in.used + room);
    if (!bytes) return end_all();
    in.bytes = bytes;
    in.size = in.used + room;
  }
  ssize_t got = recv(e->fd, in.bytes + in.used, room, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return end_all();
  in.used += (size_t)got;
  size_t at = 0;
  while (!ending && in.used - at >= FRAME_HEADER) {
    frame_decode(in.bytes + at, &frame);
    if (frame.length > FRAME_LIMIT_IN) return end_all();
    if (in.used - at - FRAME_HEADER < frame.length) break;
    obey(&frame, in.bytes + at + FRAME_HEADER);
    at += FRAME_HEADER + (size_t)frame.length;
  }
  if (at == in.used) buffer_free(&in);  // a clone copies what we have mapped
  else if (at) buffer_shift(&in, at);
}

static void signals_ready(struct eye *e, uint32_t events) {
  struct signalfd_siginfo info;
  (void)events;
  if (read(e->fd, &info, sizeof info) != sizeof info) return;
  if (info.ssi_signo != SIGCHLD) return end_all();
  if (sweeper > 0 && waitpid(sweeper, NULL, WNOHANG) == sweeper) sweeper = 0;
}

// What is due when no event is; returns how long to wait for one.
static int idle(void) {
  if (ending) {
    if ((boxes_count() == 0 && crew_busy() == 0) || launcher_ms() - ending_at > FAREWELL_MS) leave();
    return 100;
  }
  int wait = connection_turn();
  if (!started) return wait;
  if (resting) {
    if (crew_busy() == 0) crew_rest();  // it removed the last spare
    return wait;
  }
  int64_t rested = launcher_ms() - asked_at;
  if (rested < REST_MS) {
    if (rested < BREATH_MS && boxes_count() > 0) return BREATH_MS;
    if (!hindrance.code) boxes_idle();
    int left = (int)(REST_MS - rested);
    return wait < 0 || left < wait ? left : wait;
  }
  if (crew_busy() == 0) {
    resting = true;
    boxes_rest();
    crew_rest();
    owner_rest();
  }
  return wait < 0 || wait > REST_MS ? REST_MS : wait;
}

_Noreturn void launcher_run(int first) {
  first_connection = first;
  struct rlimit files;
  sigset_t all, some;
  setsid();
  if (chdir("/") < 0) _exit(112);
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL);
  sigemptyset(&some);
  for (unsigned i = 0; i < 5; i++) sigaddset(&some, (const int[]){SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGCHLD}[i]);
  poller = epoll_create1(EPOLL_CLOEXEC);
  signals = (struct eye){.fd = signalfd(-1, &some, SFD_CLOEXEC | SFD_NONBLOCK), .ready = signals_ready};
  control = (struct eye){.fd = FD_CONTROL, .ready = control_ready};
  listener.fd = -1;
  if (poller < 0 || signals.fd < 0) _exit(112);
  eye_open(&signals, EPOLLIN);
  eye_open(&control, EPOLLIN);
  for (;;) {
    struct epoll_event event;
    int count = epoll_wait(poller, &event, 1, 0);
    if (count == 0) count = epoll_wait(poller, &event, 1, idle());
    if (count != 1) continue;
    struct eye *e = event.data.ptr;
    e->ready(e, event.events);
  }
}
