// PID 1 of a sandbox.
//
// One thread, one loop: the engine's connection, the launcher's end, SIGCHLD, and per exec two or three pipes and its supervisor's socket. Everything
// that can wait does so without blocking the rest. With nothing to do it sleeps without a timer.
//
//   PID 1 (this) ── supervisor ── first process of an exec ── ...     one supervisor an exec, subreaper of all that descends from it
//                └─ spare supervisor, waits for the next exec
//
// Whoever may end the sandbox does it by ending PID 1, since the kernel then ends every process of the namespace: end of the engine's connection, end
// of the launcher (its end of `life`, or the parent-death signal), or a frame that cannot be trusted. PID 1 and supervisors run under an id that no
// command has, cannot be traced or read, and hold SETUID, SETGID, KILL; in identity mode `single` they have the commands' id and no capability.
#include "init.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "exec.h"
#include "fence.h"
#include "loop.h"
#include "supervisor.h"
#include "wire.h"

#define EVENTS 64
#define REAP_A_TURN 512
#define QUIET_MS 20  // idle this long before a spare is forked for a sandbox that has run at most one command

static struct init_config *config;
static int poller = -1;
static int64_t now;
static bool greeted;
static unsigned execs;
static bool spare_tried;  // since the last EXEC; where a fork is refused it is not tried again and again

// --- loop.h ---

void watch_set(struct watch *w, uint32_t events) {
  if (events == w->events) return;
  int what = !w->events ? EPOLL_CTL_ADD : events ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
  struct epoll_event event = {.events = events, .data.ptr = w};
  if (epoll_ctl(poller, what, w->fd, &event) < 0 && what != EPOLL_CTL_DEL) wire_fault_end(0, "internal", "epoll");
  w->events = events;
}

void watch_close(struct watch *w) {
  if (w->fd < 0) return;
  watch_set(w, 0);
  close(w->fd);
  w->fd = -1;
}

struct grave {
  struct grave *next;
};
static struct grave *graves;

void free_later(void *memory) {
  struct grave *g = memory;  // nobody needs its content any more
  g->next = graves;
  graves = g;
}

static void bury(void) {
  while (graves) {
    struct grave *g = graves;
    graves = g->next;
    free(g);
  }
}

int64_t now_ms(void) { return now; }

static void tick(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  now = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

// --- frames about the connection itself ---

static void hello(const struct frame *f, const uint8_t *payload) {
  uint32_t generation = 0, on_eof = 0;
  struct field field;
  int got;
  for (size_t at = 0; (got = field_next(payload, f->length, &at, &field)) > 0;) {
    if (field.tag == TAG_GENERATION) generation = field_u32(&field);
    else if (field.tag == TAG_ON_EOF) on_eof = field_u32(&field);
    else if (field.tag != TAG_EPOCH && field.flags & FIELD_MUST) wire_fault_end(f->id, "unsupported", "a field of HELLO");
  }
  if (got < 0 || !generation) wire_fault_end(f->id, "argument.invalid", "HELLO");
  if (on_eof) wire_fault_end(f->id, "unsupported", "to outlive the connection");
  greeted = true;
  static const char *const features[] = {"exec", "stdin", "signal", "deadline", "tree", "no_new_privs", "no_capabilities", "session_keyring"};
  size_t start = frame_begin(&wire_out, KIND_WELCOME, 0, 0, f->id);
  put_u32(&wire_out, TAG_GENERATION, generation < GENERATION ? generation : GENERATION);
  for (size_t i = 0; i < sizeof features / sizeof *features; i++) put_text(&wire_out, TAG_FEATURE, features[i]);
  if (config->filter) put_text(&wire_out, TAG_FEATURE, "filter");
  put_raw(&wire_out, config->missing.bytes, config->missing.used);
  frame_end(&wire_out, start);
}

static void ping(const struct frame *f, const uint8_t *payload) {
  struct field field = {0}, cookie = {0};
  int got;
  for (size_t at = 0; (got = field_next(payload, f->length, &at, &field)) > 0;)
    if (field.tag == TAG_COOKIE) cookie = field;
  if (got < 0 || cookie.length > 64) wire_fault_end(f->id, "argument.invalid", "PING");
  size_t start = frame_begin(&wire_out, KIND_PONG, 0, f->channel, f->id);
  put_bytes(&wire_out, TAG_COOKIE, cookie.bytes, cookie.length);
  frame_end(&wire_out, start);
}

static void obey(const struct frame *f, const uint8_t *payload) {
  if (!greeted && f->kind != KIND_HELLO) wire_fault_end(f->id, "argument.invalid", "the first frame is HELLO");
  switch (f->kind) {
    case KIND_HELLO:
      if (greeted) wire_fault(f->id, "argument.invalid", EEXIST);
      else hello(f, payload);
      break;
    case KIND_PING: ping(f, payload); break;
    case KIND_EXEC:
      execs++;
      spare_tried = false;
      exec_obey(f, payload);
      break;
    case KIND_DATA:
    case KIND_CREDIT:
    case KIND_DATA_END:
    case KIND_STOP:
    case KIND_SIGNAL:
    case KIND_END:
    case KIND_RELEASE: exec_obey(f, payload); break;
    default: wire_fault(f->id, "unsupported", 0);
  }
}

// --- processes ---

static void reaped(pid_t pid, const struct result *r) {
  struct supervisor *s = supervisor_of(pid);
  if (s) {
    supervisor_gone(s);
    return;
  }
  for (struct exec *e = live_execs; e; e = e->next_live) {
    if (!e->orphaned || e->pid != pid || e->state != EXEC_RUNNING) continue;
    exec_exited(e, r);
    return;
  }
}

// True if there may be more.
static bool reap(void) {
  siginfo_t info;
  struct result result;
  int count = 0;
  // Stopped children are reported too: a supervisor that a guest has stopped is told to go on.
  while (count++ < REAP_A_TURN && wait_any(&info, WEXITED | WSTOPPED | WNOHANG, &result) == 0 && info.si_pid) {
    if (info.si_code != CLD_STOPPED) reaped(info.si_pid, &result);
    else if (supervisor_of(info.si_pid)) kill(info.si_pid, SIGCONT);
  }
  for (struct exec *e = live_execs, *following; e; e = following) {
    following = e->next_live;
    if (e->orphaned && e->state == EXEC_EXITED && !tree_left(e)) exec_ended(e);
  }
  return count > REAP_A_TURN;
}

static bool must_reap;

static void child_ready(struct watch *w, uint32_t events) {
  (void)events;
  struct signalfd_siginfo info;
  must_reap = read(w->fd, &info, sizeof info) > 0;  // it is pending at most once, however many children it stands for
}

static void life_ready(struct watch *w, uint32_t events) {
  (void)events;
  char byte;
  if (read(w->fd, &byte, 1) == 0 || errno != EAGAIN) _exit(0);  // the launcher is dead; it never writes
}

// --- the loop ---

static _Noreturn void loop(void) {
  struct epoll_event events[EVENTS];
  for (;;) {
    int wait = exec_turn();
    wire_flush();
    bury();
    // A spare is forked when nothing else is to be done, and no exec is about to start that would have to share the processor with it.
    bool wants_spare = greeted && !spare_tried && !exec_starting && !supervisor_has_spare();
    int quiet = execs > 1 ? 0 : QUIET_MS;
    if (must_reap) wait = 0;
    else if (wants_spare && (wait < 0 || wait > quiet)) wait = quiet;
    int count = epoll_wait(poller, events, EVENTS, wait);
    tick();
    if (count == 0 && wants_spare) {
      spare_tried = true;
      supervisor_spare();
    }
    for (int i = 0; i < count; i++) {
      struct watch *w = events[i].data.ptr;
      if (w->events) w->ready(w, events[i].events);
    }
    if (must_reap) must_reap = reap();
  }
}

_Noreturn void init_run(struct init_config *given) {
  config = given;
  int oom = fence_self(config);
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 128 << 10);  // said explicitly it stays: otherwise one large argv moves it and its memory is kept for good
#endif
  supervisor_setup(config, oom);
  poller = epoll_create1(EPOLL_CLOEXEC);
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  static struct watch life = {.ready = life_ready}, children = {.ready = child_ready};
  life.fd = config->life;
  children.fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
  if (poller < 0 || children.fd < 0) refuse(config->channel, "launcher.failed", "start of the init", NULL, errno);
  if (life.fd >= 0) watch_set(&life, EPOLLIN);
  watch_set(&children, EPOLLIN);
  wire_open(config->channel, obey);
  tick();
  loop();
}

_Noreturn void refuse(int channel, const char *code, const char *step, const char *subject, int error) {
  struct buffer b = {0};
  size_t start = frame_begin(&b, KIND_REFUSED, 0, 0, 0);
  put_text(&b, TAG_CODE, code);
  put_text(&b, TAG_STEP, step);
  if (subject) put_text(&b, TAG_SUBJECT, subject);
  if (error) put_u32(&b, TAG_ERRNO, (uint32_t)error);
  frame_end(&b, start);
  for (size_t at = 0; at < b.used;) {
    ssize_t sent = write(channel, b.bytes + at, b.used - at);
    if (sent >= 0) at += (size_t)sent;
    else if (errno != EINTR && (errno != EAGAIN || poll(&(struct pollfd){.fd = channel, .events = POLLOUT}, 1, 1000) != 1)) break;
  }
  // A unix socket closed with unread bytes in it (HELLO and EXEC may be there already) is reset, and the engine would see that in place of our words: so
  // what it has sent is read away until it closes.
  shutdown(channel, SHUT_WR);
  for (int turns = 0; turns < 100 && poll(&(struct pollfd){.fd = channel, .events = POLLIN}, 1, 1000) == 1; turns++) {
    static uint8_t waste[65536];
    ssize_t got = read(channel, waste, sizeof waste);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) break;
  }
  _exit(113);
}
