// Bytes of one exec on their way, with memory that is bounded by WINDOW each way.
//
// Output: both pipes are read into one ring, and the order of reading gives every byte its offset, over both channels: it is the position in the
// engine's log. A segment says which channel a run of bytes came from. Bytes are sent up to the engine's limit and kept until it has acknowledged
// them, so that after a reconnect they can be sent again. When the ring is full its pipes are not looked at and the producer waits.
// Stdin: what the pipe does not take at once waits in a ring; CREDIT says how far the pipe has got.
// Rings are mappings of their own, left out of forks (MADV_DONTFORK): a supervisor needs no copy of them.
#include "stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exec.h"
#include "wire.h"

static bool ring_ready(struct ring *r) {
  if (r->bytes) return true;
  void *bytes = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (bytes == MAP_FAILED) return false;
  madvise(bytes, WINDOW, MADV_DONTFORK);
  r->bytes = bytes;
  return true;
}

static void ring_free(struct ring *r) {
  if (r->bytes) munmap(r->bytes, WINDOW);
  r->bytes = NULL;
}

static size_t ring_room(const struct ring *r) { return WINDOW - (size_t)(r->to - r->from); }

// `length` bytes from offset `at` as one or two parts of memory.
static void ring_parts(const struct ring *r, uint64_t at, size_t length, struct iovec part[2]) {
  size_t start = (size_t)(at % WINDOW), one = WINDOW - start < length ? WINDOW - start : length;
  part[0] = (struct iovec){r->bytes + start, one};
  part[1] = (struct iovec){r->bytes, length - one};
}

// --- output ---

static void way_ready(struct exec *e) {
  output_pump(e);
  output_watch(&e->output);
}

static void out_ready(struct watch *w, uint32_t events) {
  (void)events;
  way_ready(owner_of(w, struct exec, output.way[0].pipe));
}

static void err_ready(struct watch *w, uint32_t events) {
  (void)events;
  way_ready(owner_of(w, struct exec, output.way[1].pipe));
}

void output_open(struct output *o, int out, int err) {
  o->limit = WINDOW;
  o->way[0].pipe = (struct watch){.fd = out, .ready = out_ready};
  o->way[1].pipe = (struct watch){.fd = err, .ready = err_ready};
  if (err < 0) o->way[1].ended = o->way[1].said = true;  // merged: this channel does not exist
}

static bool output_full(const struct output *o) { return ring_room(&o->ring) == 0 || o->next - o->oldest == SEGMENTS; }

void output_watch(struct output *o) {
  for (int c = 0; c < 2; c++)
    if (o->way[c].pipe.fd >= 0) watch_set(&o->way[c].pipe, output_full(o) ? 0 : EPOLLIN);
}

void output_say_ends(struct exec *e) {
  // The pipes of a process close a moment before its exit is known: one write for both wakes the engine once.
  if (e->state == EXEC_RUNNING && now_ms() < e->output.hush_until) return;
  for (int c = 0; c < 2; c++) {
    if (!e->output.way[c].ended || e->output.way[c].said || e->output.sent < e->output.way[c].end) continue;
    e->output.way[c].said = true;
    wire_put_u64(KIND_DATA_END, (uint16_t)(CHANNEL_STDOUT + c), e->id, &e->output.way[c].end, 1);
  }
}

static void way_end(struct exec *e, int c) {
  struct output *o = &e->output;
  watch_close(&o->way[c].pipe);
  o->way[c].ended = true;
  o->way[c].end = o->ring.to;
  o->hush_until = now_ms() + HUSH_MS;
  output_say_ends(e);
}

// Notes that the bytes from ring.to on are of `channel`.
static void segment(struct output *o, uint16_t channel) {
  if (o->next != o->oldest && o->segments[(o->next - 1) % SEGMENTS].channel == channel) return;
  o->segments[o->next++ % SEGMENTS] = (struct segment){o->ring.to, channel};
}

void output_pump(struct exec *e) {
  struct output *o = &e->output;
  for (int c = 0; c < 2; c++) {
    while (o->way[c].pipe.fd >= 0 && !output_full(o)) {
      // The first bytes are read aside: most pipes of most commands only ever end.
      static uint8_t aside[4096];
      bool first = !o->ring.bytes;
      size_t room = first ? sizeof aside : ring_room(&o->ring);
      struct iovec part[2] = {{aside, room}, {NULL, 0}};
      if (!first) ring_parts(&o->ring, o->ring.to, room, part);
      ssize_t got = readv(o->way[c].pipe.fd, part, part[1].iov_len ? 2 : 1);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) break;
      if (got <= 0) {
        way_end(e, c);
        break;
      }
      if (first) {
        if (!o->segments) o->segments = malloc(SEGMENTS * sizeof *o->segments);
        if (!ring_ready(&o->ring) || !o->segments) wire_fault_end(e->id, "internal", "no memory for output");
        ring_parts(&o->ring, o->ring.to, (size_t)got, part);
        memcpy(part[0].iov_base, aside, part[0].iov_len);
        if (part[1].iov_len) memcpy(part[1].iov_base, aside + part[0].iov_len, part[1].iov_len);
      }
      segment(o, (uint16_t)(CHANNEL_STDOUT + c));
      o->ring.to += (uint64_t)got;
      if (o->sent < o->limit) wire_queue(e);
      if ((size_t)got < room) break;  // the pipe was empty, or its end comes with the next event
    }
  }
}

uint64_t output_written(const struct output *o) {
  uint64_t position = o->ring.to;
  for (int c = 0; c < 2; c++) {
    int waiting = 0;
    if (o->way[c].pipe.fd >= 0 && ioctl(o->way[c].pipe.fd, FIONREAD, &waiting) == 0) position += (uint64_t)waiting;
  }
  return position;
}

bool output_next(struct output *o, size_t most, struct piece *p) {
  uint64_t end = o->ring.to < o->limit ? o->ring.to : o->limit;
  if (o->sent >= end) return false;
  while (o->next - o->sending > 1 && o->segments[(o->sending + 1) % SEGMENTS].start <= o->sent) o->sending++;
  if (o->next - o->sending > 1 && o->segments[(o->sending + 1) % SEGMENTS].start < end) end = o->segments[(o->sending + 1) % SEGMENTS].start;
  p->channel = o->segments[o->sending % SEGMENTS].channel;
  p->offset = o->sent;
  p->length = end - o->sent < most ? (size_t)(end - o->sent) : most;
  ring_parts(&o->ring, o->sent, p->length, p->part);
  return true;
}

void output_sent(struct exec *e, size_t count) {
  e->output.sent += count;
  output_say_ends(e);
}

bool output_credit(struct exec *e, uint64_t acknowledged, uint64_t limit) {
  struct output *o = &e->output;
  if (acknowledged > o->sent) return false;
  if (limit > o->limit) o->limit = limit;  // an older CREDIT that arrives again takes nothing back
  if (acknowledged > o->ring.from) {
    o->ring.from = acknowledged;
    while (o->next - o->oldest > 1 && o->segments[(o->oldest + 1) % SEGMENTS].start <= acknowledged) o->oldest++;
    if (acknowledged == o->ring.to) {
      o->oldest = o->sending = o->next;
      if (o->way[0].ended && o->way[1].ended) output_close(o);
    } else if ((int32_t)(o->oldest - o->sending) > 0) {
      o->sending = o->oldest;
    }
    output_watch(o);
  }
  if (o->sent < o->ring.to && o->sent < o->limit) wire_queue(e);
  return true;
}

void output_stop(struct exec *e, uint16_t channel) {
  int c = channel - CHANNEL_STDOUT;
  if (e->output.way[c].pipe.fd >= 0) way_end(e, c);
}

void output_close(struct output *o) {
  for (int c = 0; c < 2; c++) watch_close(&o->way[c].pipe);
  ring_free(&o->ring);
  free(o->segments);
  o->segments = NULL;
}

// --- stdin ---

static void credit(struct exec *e) {
  struct input *i = &e->input;
  uint64_t values[2] = {i->ring.from, i->ring.from + WINDOW};
  i->told = i->ring.from;
  wire_put_u64(KIND_CREDIT, CHANNEL_STDIN, e->id, values, 2);
}

// The reader has gone: EPIPE, or EPOLLERR before anything was written.
static void stop(struct exec *e) {
  struct input *i = &e->input;
  input_close(i);
  i->stopped = true;
  wire_put_empty(KIND_STOP, CHANNEL_STDIN, e->id);
}

static void moved(struct exec *e) {
  struct input *i = &e->input;
  if (i->ring.from == i->ring.to && i->ended) {
    input_close(i);
    return;
  }
  if (i->ring.from - i->told >= WINDOW / 4 && !i->ended) credit(e);
  // EPOLLERR alone is reported when the last reader closes.
  watch_set(&i->pipe, EPOLLERR | (i->ring.from < i->ring.to ? EPOLLOUT : 0u));
}

static void in_ready(struct watch *w, uint32_t events) {
  struct exec *e = owner_of(w, struct exec, input.pipe);
  struct input *i = &e->input;
  if (events & EPOLLERR) {
    stop(e);
    return;
  }
  while (i->ring.from < i->ring.to) {
    struct iovec part[2];
    ring_parts(&i->ring, i->ring.from, (size_t)(i->ring.to - i->ring.from), part);
    ssize_t put = writev(w->fd, part, part[1].iov_len ? 2 : 1);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) break;
    if (put < 0) {
      stop(e);
      return;
    }
    i->ring.from += (uint64_t)put;
  }
  if (i->ring.from == i->ring.to) ring_free(&i->ring);
  moved(e);
}

void input_open(struct input *i, int pipe) {
  i->pipe = (struct watch){.fd = pipe, .ready = in_ready};
  i->open = pipe >= 0;
}

void input_start(struct exec *e) {
  if (!e->input.open) return;
  if (e->input.ended) {  // DATA_END came right behind EXEC
    input_close(&e->input);
    return;
  }
  credit(e);
  watch_set(&e->input.pipe, EPOLLERR);
}

enum input_verdict input_data(struct exec *e, uint64_t offset, const uint8_t *bytes, size_t length) {
  struct input *i = &e->input;
  if (!i->open || e->state == EXEC_STARTING || e->state == EXEC_UNSTARTED) return INPUT_NONE;
  if (offset > i->ring.to) return INPUT_GAP;
  uint64_t known = i->ring.to - offset;
  if (known >= length) return INPUT_TAKEN;  // a repetition
  bytes += known;
  length -= (size_t)known;
  if (i->ended) return INPUT_NONE;
  if (i->stopped) {
    i->ring.from = i->ring.to += length;
    return INPUT_TAKEN;
  }
  if (length > i->told + WINDOW - i->ring.to) return INPUT_GAP;  // more than it was given credit for
  while (i->ring.from == i->ring.to && length) {
    ssize_t put = write(i->pipe.fd, bytes, length);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) break;
    if (put < 0) {
      stop(e);
      i->ring.from = i->ring.to += length;
      return INPUT_TAKEN;
    }
    i->ring.from = i->ring.to += (uint64_t)put;
    bytes += put;
    length -= (size_t)put;
  }
  if (length) {
    if (!ring_ready(&i->ring)) wire_fault_end(e->id, "internal", "no memory for stdin");
    struct iovec part[2];
    ring_parts(&i->ring, i->ring.to, length, part);
    memcpy(part[0].iov_base, bytes, part[0].iov_len);
    memcpy(part[1].iov_base, bytes + part[0].iov_len, part[1].iov_len);
    i->ring.to += length;
  }
  moved(e);
  return INPUT_TAKEN;
}

enum input_verdict input_end(struct exec *e, uint64_t offset) {
  struct input *i = &e->input;
  if (!i->open || e->state == EXEC_UNSTARTED) return INPUT_NONE;
  if (offset != i->ring.to) return offset > i->ring.to ? INPUT_GAP : INPUT_TAKEN;
  i->ended = true;
  if (!i->stopped && i->ring.from == i->ring.to && e->state != EXEC_STARTING) input_close(i);
  return INPUT_TAKEN;
}

void input_close(struct input *i) {
  watch_close(&i->pipe);
  i->ring.from = i->ring.to;
  ring_free(&i->ring);
}
