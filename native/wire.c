// The engine's connection as PID 1 sees it.
//
// In: bytes are collected until a frame is whole; a length above the limit ends everything before a byte of it is kept. No frame is read while
// answers pile up, so a peer that only sends cannot make us grow.
// Out: small frames are gathered in `wire_out` and leave in one write at the end of a turn. Output of commands goes by writev straight from its
// ring; what the socket did not take of that one frame is copied behind `wire_out`, and no further output is taken up before that has left.
// So `wire_out` holds at most one DATA frame plus small ones: the pipes wait, not we.
#include "wire.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "exec.h"
#include "loop.h"

#define PIECE (64u << 10)      // largest DATA frame
#define COPY (16u << 10)       // output up to this size joins the small frames: one write for all
#define OUT_LIMIT (256u << 10)  // answers waiting above this: nothing more is read
#define READ_SIZE (64u << 10)

struct buffer wire_out;

static struct watch channel;
static struct buffer in;
static void (*obey)(const struct frame *frame, const uint8_t *payload);
static struct exec *first, **last = &first;  // execs with output to send, taken in turn
static bool full;                            // the socket took less than it was given

static void look(void) {
  watch_set(&channel, EPOLLRDHUP | (wire_out.used < OUT_LIMIT ? EPOLLIN : 0u) | (full ? EPOLLOUT : 0u));
}

static _Noreturn void end(int status) { _exit(status); }  // the kernel ends every process of the namespace with its PID 1

static void take(void) {
  size_t at = 0;
  while (in.used - at >= FRAME_HEADER) {
    struct frame f;
    frame_decode(in.bytes + at, &f);
    if (f.length > FRAME_LIMIT_IN) wire_fault_end(f.id, "argument.invalid", "length of a frame");
    if (in.used - at - FRAME_HEADER < f.length) break;
    obey(&f, in.bytes + at + FRAME_HEADER);
    at += FRAME_HEADER + (size_t)f.length;
  }
  if (at == in.used && in.size > 4 * READ_SIZE) buffer_free(&in);  // a large argv is no reason to stay large
  else if (at) buffer_shift(&in, at);
}

static void receive(void) {
  for (int round = 0; round < 4 && wire_out.used < OUT_LIMIT; round++) {
    size_t room = READ_SIZE;
    if (in.used >= FRAME_HEADER) {  // an unfinished frame: as much as it lacks, in one read
      struct frame f;
      frame_decode(in.bytes, &f);
      size_t lacks = FRAME_HEADER + (size_t)f.length - in.used;
      if (lacks > room) room = lacks;
    }
    if (in.size < in.used + room) {
      uint8_t *bytes = realloc(in.bytes, in.used + room);
      if (!bytes) wire_fault_end(0, "internal", "no memory for a frame");
      in.bytes = bytes;
      in.size = in.used + room;
    }
    ssize_t got = read(channel.fd, in.bytes + in.used, room);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) end(0);
    in.used += (size_t)got;
    take();
    if ((size_t)got < room) return;
  }
  // Cut short: epoll reports what is left, as it looks at levels.
}

static void ready(struct watch *w, uint32_t events) {
  (void)w;
  if (events & EPOLLOUT) full = false;
  if (events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP)) end(0);
  if (events & EPOLLIN) receive();
}

void wire_open(int fd, void (*handler)(const struct frame *frame, const uint8_t *payload)) {
  channel = (struct watch){.fd = fd, .ready = ready};
  obey = handler;
  look();
}

void wire_put_empty(uint8_t kind, uint16_t number, uint32_t id) { frame_end(&wire_out, frame_begin(&wire_out, kind, 0, number, id)); }

void wire_put_u64(uint8_t kind, uint16_t number, uint32_t id, const uint64_t *values, int count) {
  size_t start = frame_begin(&wire_out, kind, 0, number, id);
  for (int i = 0; i < count; i++) put_raw_u64(&wire_out, values[i]);
  frame_end(&wire_out, start);
}

void wire_fault(uint32_t id, const char *code, int error) {
  size_t start = frame_begin(&wire_out, KIND_FAULT, 0, 0, id);
  put_text(&wire_out, TAG_CODE, code);
  if (error) put_u32(&wire_out, TAG_ERRNO, (uint32_t)error);
  frame_end(&wire_out, start);
}

_Noreturn void wire_fault_end(uint32_t id, const char *code, const char *step) {
  size_t start = frame_begin(&wire_out, KIND_FAULT, 0, 0, id);
  put_text(&wire_out, TAG_CODE, code);
  put_text(&wire_out, TAG_STEP, step);
  frame_end(&wire_out, start);
  // The last words get a second; a peer that does not read is told by the end of the channel.
  for (size_t at = 0; at < wire_out.used;) {
    ssize_t sent = write(channel.fd, wire_out.bytes + at, wire_out.used - at);
    if (sent >= 0) at += (size_t)sent;
    else if (errno != EAGAIN || poll(&(struct pollfd){.fd = channel.fd, .events = POLLOUT}, 1, 1000) != 1) break;
  }
  end(113);
}

void wire_queue(struct exec *e) {
  if (e->queued) return;
  e->queued = true;
  e->next_queued = NULL;
  *last = e;
  last = &e->next_queued;
}

void wire_unqueue(struct exec *e) {
  if (!e->queued) return;
  struct exec **at = &first;
  while (*at != e) at = &(*at)->next_queued;
  *at = e->next_queued;
  if (last == &e->next_queued) last = at;
  e->queued = false;
}

// Writes `wire_out` and up to three more parts. What the socket does not take is kept in `wire_out`.
static void push(const struct iovec *more, int count) {
  struct iovec v[4] = {{wire_out.bytes, wire_out.used}};
  size_t total = wire_out.used;
  for (int i = 0; i < count; i++) {
    v[i + 1] = more[i];
    total += more[i].iov_len;
  }
  if (!total) return;
  ssize_t sent = writev(channel.fd, v, count + 1);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) end(0);
  size_t gone = sent < 0 ? 0 : (size_t)sent, skip;
  full = gone < total;
  skip = gone < wire_out.used ? gone : wire_out.used;
  buffer_shift(&wire_out, skip);
  gone -= skip;
  for (int i = 0; i < count; i++) {
    skip = gone < more[i].iov_len ? gone : more[i].iov_len;
    put_raw(&wire_out, (uint8_t *)more[i].iov_base + skip, more[i].iov_len - skip);
    gone -= skip;
  }
}

void wire_flush(void) {
  while (first && !full) {
    struct exec *e = first;
    struct piece p;
    if (!output_next(&e->output, PIECE, &p)) {
      wire_unqueue(e);
      continue;
    }
    size_t start = frame_begin(&wire_out, KIND_DATA, 0, p.channel, e->id);
    put_raw_u64(&wire_out, p.offset);
    if (p.length <= COPY) {
      for (int i = 0; i < 2; i++) put_raw(&wire_out, p.part[i].iov_base, p.part[i].iov_len);
      frame_end(&wire_out, start);
      if (wire_out.used > PIECE) push(NULL, 0);
    } else {
      frame_end(&wire_out, start);
      wire_out.bytes[start] = (uint8_t)(8 + p.length);
      wire_out.bytes[start + 1] = (uint8_t)((8 + p.length) >> 8);
      wire_out.bytes[start + 2] = (uint8_t)((8 + p.length) >> 16);
      push(p.part, 2);
    }
    output_sent(e, p.length);
    wire_unqueue(e);  // to the end of the line
    wire_queue(e);
  }
  if (!full) push(NULL, 0);
  if (wire_out.used == 0 && wire_out.size > 2 * PIECE) buffer_free(&wire_out);
  look();
}
