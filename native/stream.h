// Bytes of one exec on their way: output towards the engine, stdin towards the command.
#ifndef SANDLOT_STREAM_H
#define SANDLOT_STREAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "frame.h"
#include "loop.h"

struct exec;

// The bytes from..to of a stream, by absolute offset; memory only once there is a byte, WINDOW at most.
struct ring {
  uint8_t *bytes;
  uint64_t from, to;
};

#define SEGMENTS 1024u  // runs of one channel that may be kept; when they are used up the pipes wait, as when the ring is full

struct segment {
  uint64_t start;  // up to the start of the next one, or the end of the ring
  uint16_t channel;
};

struct output {
  struct {
    struct watch pipe;
    bool ended, said;  // every writer has closed; the engine has been told
    uint64_t end;
  } way[2];
  struct ring ring;  // from = acknowledged by the engine, to = read so far
  uint64_t sent, limit;
  int64_t hush_until;  // by now_ms: DATA_END waits this long for EXITED, which mostly comes right behind
  struct segment *segments;        // SEGMENTS of them, used in a circle
  uint32_t oldest, sending, next;  // counters into it: sending holds `sent`
};

struct piece {
  uint16_t channel;
  uint64_t offset;
  size_t length;
  struct iovec part[2];
};

struct input {
  struct watch pipe;
  struct ring ring;  // from = written to the pipe, to = received
  uint64_t told;     // acknowledged in the last CREDIT
  uint64_t end;
  bool open;     // the exec has a stdin at all
  bool ended;    // the engine has said DATA_END
  bool stopped;  // nobody reads: what comes is counted and dropped
};

#define HUSH_MS 2

// Takes the pipes; `err` is -1 when stderr goes where stdout goes.
void output_open(struct output *o, int out, int err);
void output_watch(struct output *o);
// Reads what the pipes hold and the ring can take.
void output_pump(struct exec *e);
// How far the output goes with what still lies in the pipes.
uint64_t output_written(const struct output *o);
// The next bytes that may be sent, of one channel, at most `most`; false if there are none.
bool output_next(struct output *o, size_t most, struct piece *p);
void output_sent(struct exec *e, size_t count);
// Says DATA_END for what has ended and was sent.
void output_say_ends(struct exec *e);
// CREDIT from the engine; false if it acknowledges what was not sent.
bool output_credit(struct exec *e, uint64_t acknowledged, uint64_t limit);
// Nobody reads this channel any more: the pipe is closed, its writer gets SIGPIPE.
void output_stop(struct exec *e, uint16_t channel);
void output_close(struct output *o);

enum input_verdict { INPUT_TAKEN, INPUT_NONE, INPUT_GAP };

void input_open(struct input *i, int pipe);
void input_start(struct exec *e);
enum input_verdict input_data(struct exec *e, uint64_t offset, const uint8_t *bytes, size_t length);
enum input_verdict input_end(struct exec *e, uint64_t offset);
void input_close(struct input *i);

#endif
