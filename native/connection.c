// A connection is one sandbox: its first frame is CREATE, everything behind it is the init's.
//
// Exactly that frame is read, however it arrives, and not one byte more: HELLO and EXEC may be in the socket already. Several connections are read side
// by side; one that is slow has ten seconds. After the hand-over nothing is kept of it here.
// After REFUSED the connection is held until the engine closes it: closing a unix socket with unread bytes in it (a pipelined EXEC)
// resets it, and the engine would see that in place of our words.
#define _GNU_SOURCE
#include "connection.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boxes.h"
#include "loops.h"

#define PATIENCE_MS 10000
#define FAREWELL_MS 2000

struct connection {
  struct eye eye;
  int64_t until;
  const struct fault *hindrance;
  uint8_t header[FRAME_HEADER];
  uint8_t *payload;  // NULL = the header is not complete
  struct frame frame;
  size_t have;
  bool refused, waiting;
  struct connection *next, **at;
};

static struct connection *all;

static void drop(struct connection *c) {
  *c->at = c->next;
  if (c->next) c->next->at = c->at;
  if (c->eye.fd >= 0) eye_close(&c->eye);
  free(c->payload);
  free(c);
}

static void refuse_connection(struct connection *c, const struct fault *f) {
  struct buffer b = {0};
  fault_put(&b, 0, f);
  ssize_t put = send(c->eye.fd, b.bytes, b.used, MSG_NOSIGNAL | MSG_DONTWAIT);  // fits: nothing was written to this socket before
  buffer_free(&b);
  if (put < 0 || shutdown(c->eye.fd, SHUT_WR) < 0) return drop(c);
  c->refused = true;
  c->until = launcher_ms() + FAREWELL_MS;
}

static void told(void *whom, const struct fault *f) {
  struct connection *c = whom;
  c->waiting = false;
  if (!f) return drop(c);
  eye_open(&c->eye, EPOLLIN);
  refuse_connection(c, f);
}

// A guest that has been shown a directory with our socket in it may have our very uid, and a socket can be connected to through a read-only mount:
// only the engine knows the secret.
static bool is_engine(const struct plan *p) { return p->secret_length == strlen(host.secret) && !memcmp(p->secret, host.secret, p->secret_length); }

static void obey(struct connection *c) {
  struct fault f = {0};
  struct plan p;
  bool known = false;
  int result = plan_parse(c->payload, c->frame.length, &p, &f);
  if (!is_engine(&p)) {
    plan_free(&p);
    drop(c);
    return;
  }
  if (!result && c->hindrance->code) f = *c->hindrance, result = -1;
  else if (!result) {
    known = boxes_known(p.box);
    result = boxes_create(&p, c->payload, c->frame.length, c->eye.fd, told, c, &f);
  }
  // GONE follows a refusal as it follows any other end, at once where there is nothing to remove.
  if (result < 0 && p.box && !known) boxes_discard(p.box);
  plan_free(&p);
  if (result > 0) {
    c->waiting = true;
    c->until = INT64_MAX;
    eye_leave(&c->eye);  // what is pipelined behind CREATE is not for us
    return;
  }
  if (result) refuse_connection(c, &f);
  else drop(c);
}

// Reads up to `length` bytes in all into `into`; 1 = there, 0 = later, -1 = over.
static int fill(struct connection *c, uint8_t *into, size_t length) {
  while (c->have < length) {
    ssize_t got = recv(c->eye.fd, into + c->have, length - c->have, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return 0;
    if (got <= 0) return -1;
    c->have += (size_t)got;
  }
  return 1;
}

static void ready(struct eye *e, uint32_t events) {
  struct connection *c = owner_of_eye(e, struct connection, eye);
  static uint8_t waste[65536];
  (void)events;
  if (c->refused) {
    ssize_t got = recv(e->fd, waste, sizeof waste, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) drop(c);
    return;
  }
  if (!c->payload) {
    int got = fill(c, c->header, FRAME_HEADER);
    if (got <= 0) return got < 0 ? drop(c) : (void)0;
    frame_decode(c->header, &c->frame);
    struct fault f;
    if (c->frame.kind == KIND_ATTACH || c->frame.kind == KIND_CONTROL) return fault_set(&f, "unsupported", "reach a sandbox that lives", NULL, 0), refuse_connection(c, &f);
    if (c->frame.kind != KIND_CREATE) return drop(c);
    if (c->frame.length > CREATE_LIMIT) return fault_set(&f, "argument.invalid", "length of CREATE", NULL, 0), refuse_connection(c, &f);
    c->payload = malloc(c->frame.length + 1);
    if (!c->payload) return drop(c);
    c->have = 0;
  }
  int got = fill(c, c->payload, c->frame.length);
  if (got < 0) drop(c);
  else if (got) obey(c);
}

void connection_open(int fd, enum connection_kind kind, const struct fault *hindrance) {
  struct ucred peer;
  socklen_t size = sizeof peer;
  struct connection *c = calloc(1, sizeof *c);
  // Ours is uid 0 in a user namespace; the kernel translates the peer's for us.
  if (!c || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || (peer.uid != geteuid() && peer.uid != 0)) {
    close(fd);
    free(c);
    return;
  }
  *c = (struct connection){.eye = {.fd = fd, .ready = ready}, .until = kind == CONNECTION_MADE ? launcher_ms() + PATIENCE_MS : INT64_MAX, .hindrance = hindrance, .next = all, .at = &all};
  if (all) all->at = &c->next;
  all = c;
  eye_open(&c->eye, EPOLLIN);
  ready(&c->eye, EPOLLIN);  // usually all of it is there
}

int connection_turn(void) {
  int64_t now = all ? launcher_ms() : 0, soonest = -1;
  for (struct connection *c = all, *next; c; c = next) {
    next = c->next;
    if (c->until <= now) drop(c);
    else if (c->until != INT64_MAX && (soonest < 0 || c->until - now < soonest)) soonest = c->until - now;
  }
  return (int)soonest;
}

void connection_close_all(void) {
  for (struct connection *c = all, *next; c; c = next) {
    next = c->next;
    if (!c->waiting) drop(c);  // those are told when their box ends
  }
}
