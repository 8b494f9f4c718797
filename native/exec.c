// One exec from EXEC to RELEASE.
//
//   STARTING -> RUNNING -> EXITED -> ENDED -> released      or      STARTING -> UNSTARTED -> released
//
// States move on what the supervisor notes (supervisor.c), or on what PID 1 reaps itself when a guest has killed the supervisor. Every state is told
// once, in this order, and nothing is forgotten before RELEASE: an id that is known is never started twice.
#include "exec.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel.h"
#include "supervisor.h"
#include "wire.h"

#define SLOTS 256u
#define LOOK_MS 250
#define NR_PIDFD_OPEN 434  // on every architecture

struct exec *live_execs;
bool exec_starting;
static struct exec *table[SLOTS];

static struct exec **slot_of(uint32_t id) {
  struct exec **at = &table[id % SLOTS];
  while (*at && (*at)->id != id) at = &(*at)->next_same;
  return at;
}

// The frame cannot be understood at all: whoever sent it is not to be trusted with the next one.
static _Noreturn void malformed(const struct frame *f) { wire_fault_end(f->id, "argument.invalid", "a malformed frame"); }

enum reading { READ_END, READ_FIELD };

// The next field; what an unknown one means is for the caller to judge.
static enum reading next(const struct frame *f, const uint8_t *payload, size_t *at, struct field *out) {
  int got = field_next(payload, f->length, at, out);
  if (got < 0) malformed(f);
  return got ? READ_FIELD : READ_END;
}

static bool is_text(const struct field *f) { return memchr(f->bytes, 0, f->length) == NULL; }

// Checks every field of EXEC, so that nobody has to again. Returns NULL or the code to refuse it with.
static const char *read_exec(const struct frame *f, const uint8_t *payload, struct exec *e) {
  const char *refused = NULL;
  size_t arguments = 0;
  struct field field;
  for (size_t at = 0; next(f, payload, &at, &field) == READ_FIELD;) {
    bool good = true;
    switch (field.tag) {
      case TAG_ARGV:
        arguments++;
        good = is_text(&field);
        break;
      case TAG_ENV:
      case TAG_CWD: good = is_text(&field); break;
      case TAG_UID:
      case TAG_GID:
      case TAG_GROUP: good = field.length == 4; break;
      case TAG_STDIN:
        good = field.length == 4 && field_u32(&field) <= 1;
        e->wants_stdin = good && field_u32(&field);
        break;
      case TAG_MERGE:
        good = field.length == 4 && field_u32(&field) <= 1;
        e->merges = good && field_u32(&field);
        break;
      case TAG_DEADLINE_MS:
        good = field.length == 8;
        e->deadline_ms = field_u64(&field);
        break;
      default:
        if (field.flags & FIELD_MUST) refused = "unsupported";
    }
    if (!good) return "argument.invalid";
  }
  if (!refused && !arguments) refused = "argument.invalid";
  return refused;
}

static void open_exec(const struct frame *f, const uint8_t *payload) {
  struct exec **slot = slot_of(f->id);
  if (*slot || f->id == 0) {
    wire_fault(f->id, "argument.invalid", EEXIST);
    return;
  }
  struct exec *e = calloc(1, sizeof *e);
  if (!e) wire_fault_end(f->id, "internal", "no memory for an exec");
  e->id = f->id;
  e->input.pipe.fd = e->output.way[0].pipe.fd = e->output.way[1].pipe.fd = -1;
  const char *refused = read_exec(f, payload, e);
  if (refused) {
    free(e);
    wire_fault(f->id, refused, 0);
    return;
  }
  *slot = e;
  e->next_live = live_execs;
  live_execs = e;
  e->look_at = now_ms() + LOOK_MS;
  if (f->length <= REQUEST_LIMIT && (e->request = malloc(f->length + 1))) {
    memcpy(e->request, payload, f->length);
    e->request_length = f->length;
  }
  supervisor_start(e, payload, f->length);
}

static void forget_request(struct exec *e) {
  free(e->request);
  e->request = NULL;
}

static void not_live(struct exec *e) {
  struct exec **at = &live_execs;
  while (*at != e) at = &(*at)->next_live;
  *at = e->next_live;
  ending_over(e);
}

void exec_started(struct exec *e, pid_t pid) {
  e->state = EXEC_RUNNING;
  e->pid = pid;
  forget_request(e);
  // Beyond some 300,000 years an end is none.
  if (e->deadline_ms && e->deadline_ms < (uint64_t)INT64_MAX / 2) e->deadline_at = now_ms() + (int64_t)e->deadline_ms;
  size_t start = frame_begin(&wire_out, KIND_STARTED, 0, 0, e->id);
  put_u32(&wire_out, TAG_PID, (uint32_t)pid);
  frame_end(&wire_out, start);
  input_start(e);
  output_watch(&e->output);
}

void exec_unstarted(struct exec *e, const char *step, int error) {
  e->state = EXEC_UNSTARTED;
  not_live(e);
  forget_request(e);
  output_close(&e->output);
  input_close(&e->input);
  size_t start = frame_begin(&wire_out, KIND_UNSTARTED, 0, 0, e->id);
  put_text(&wire_out, TAG_STEP, step);
  put_u32(&wire_out, TAG_ERRNO, (uint32_t)error);
  frame_end(&wire_out, start);
}

void exec_exited(struct exec *e, const struct result *r) {
  output_pump(e);  // what it left in its pipes travels in the same write
  output_watch(&e->output);
  e->state = EXEC_EXITED;
  size_t start = frame_begin(&wire_out, KIND_EXITED, 0, 0, e->id);
  if (r->code == CLD_EXITED) put_u32(&wire_out, TAG_EXIT, (uint32_t)r->status);
  else put_u32(&wire_out, TAG_SIGNAL, (uint32_t)r->status);
  if (r->code == CLD_DUMPED) put_u32(&wire_out, TAG_CORE, 1);
  put_u32(&wire_out, TAG_CAUSE, e->cause);
  // Where the output stands when everything the first process wrote has been read: the pipes are first in, first out.
  put_u64(&wire_out, TAG_COUNT, output_written(&e->output));
  put_u64(&wire_out, TAG_USER_US, r->user_us);
  put_u64(&wire_out, TAG_SYSTEM_US, r->system_us);
  put_u64(&wire_out, TAG_PEAK_BYTES, r->peak_bytes);
  frame_end(&wire_out, start);
  output_say_ends(e);
}

void exec_ended(struct exec *e) {
  e->state = EXEC_ENDED;
  not_live(e);
  size_t start = frame_begin(&wire_out, KIND_ENDED, 0, 0, e->id);
  put_u32(&wire_out, TAG_CAUSE, e->cause);
  frame_end(&wire_out, start);
}

static bool is_live(const struct exec *e) { return e->state != EXEC_ENDED && e->state != EXEC_UNSTARTED; }

static void end_tree(struct exec *e, enum cause cause) {
  if (e->supervisor) supervisor_notice(e->supervisor);  // it may have ended by itself a moment ago
  if (!is_live(e) || e->ending.active) return;
  e->cause = cause;
  e->deadline_at = 0;
  ending_begin(e);
}

// The number of a process is its own until it is reaped, and the supervisor notes the end before it reaps: a descriptor opened before that note is the
// right process. Without a supervisor PID 1 reaps, between frames.
static void signal_first(struct exec *e, int signal) {
  if (e->state != EXEC_RUNNING) return;
  int fd = (int)syscall(NR_PIDFD_OPEN, e->pid, 0);
  if (fd < 0) return;
  if (!e->supervisor || e->supervisor->slip->state == SLIP_STARTED) syscall(NR_PIDFD_SEND_SIGNAL, fd, signal, NULL, 0);
  close(fd);
}

static void signal_exec(const struct frame *f, const uint8_t *payload, struct exec *e) {
  uint32_t signal = 0, scope = 0;
  struct field field;
  for (size_t at = 0; next(f, payload, &at, &field) == READ_FIELD;) {
    if (field.tag == TAG_SIGNAL) signal = field_u32(&field);
    else if (field.tag == TAG_SCOPE) scope = field_u32(&field);
    else if (field.flags & FIELD_MUST) {
      wire_fault(f->id, "unsupported", 0);
      return;
    }
  }
  if (signal < 1 || signal > 64 || scope > 1) wire_fault(f->id, "argument.invalid", 0);
  else if (scope == 1 && is_live(e)) tree_signal(e, (int)signal);
  else if (scope == 0) signal_first(e, (int)signal);
}

static void release(struct exec *e) {
  if (is_live(e)) {
    wire_fault(e->id, "argument.invalid", EBUSY);
    return;
  }
  if (e->supervisor) e->supervisor->exec = NULL;
  wire_unqueue(e);
  output_close(&e->output);
  input_close(&e->input);
  struct exec **slot = slot_of(e->id);
  *slot = e->next_same;
  free_later(e);
}

static uint64_t u64_at(const uint8_t *payload, int index) {
  return field_u64(&(struct field){.length = 8, .bytes = payload + 8 * index});
}

static void judge(const struct frame *f, enum input_verdict verdict) {
  if (verdict == INPUT_GAP) wire_fault_end(f->id, "argument.invalid", "stdin: a gap, or more than there was credit for");
  if (verdict == INPUT_NONE) wire_fault(f->id, "exec.stdin_closed", 0);
}

void exec_obey(const struct frame *f, const uint8_t *payload) {
  if (f->kind == KIND_EXEC) {
    open_exec(f, payload);
    return;
  }
  // Fixed sizes first: whether the exec is still known does not make a frame well-formed.
  static const uint8_t exact[] = {[KIND_CREDIT] = 16 + 1, [KIND_DATA_END] = 8 + 1, [KIND_STOP] = 0 + 1, [KIND_RELEASE] = 0 + 1};
  if (f->kind < sizeof exact && exact[f->kind] && f->length != exact[f->kind] - 1u) malformed(f);
  if (f->kind == KIND_DATA && f->length < 8) malformed(f);
  struct exec *e = *slot_of(f->id);
  if (!e) {  // a late CREDIT or a second RELEASE is harmless; a wish about nobody is not
    if (f->kind == KIND_SIGNAL || f->kind == KIND_END) wire_fault(f->id, "exec.not_found", 0);
    return;
  }
  switch (f->kind) {
    case KIND_DATA:
      if (f->channel != CHANNEL_STDIN) malformed(f);
      judge(f, input_data(e, u64_at(payload, 0), payload + 8, f->length - 8));
      break;
    case KIND_DATA_END:
      if (f->channel != CHANNEL_STDIN) malformed(f);
      judge(f, input_end(e, u64_at(payload, 0)));
      break;
    case KIND_CREDIT:
      if (!output_credit(e, u64_at(payload, 0), u64_at(payload, 1))) wire_fault_end(f->id, "argument.invalid", "acknowledged more than was sent");
      break;
    case KIND_STOP:
      if (f->channel != CHANNEL_STDOUT && f->channel != CHANNEL_STDERR) malformed(f);
      output_stop(e, f->channel);
      break;
    case KIND_SIGNAL: signal_exec(f, payload, e); break;
    case KIND_END: end_tree(e, CAUSE_END); break;
    case KIND_RELEASE: release(e); break;
    default: break;
  }
}

int exec_turn(void) {
  int64_t now = now_ms(), due = INT64_MAX;
  exec_starting = false;
  for (struct exec *e = live_execs, *following; e; e = following) {
    following = e->next_live;
    if (e->deadline_at && e->deadline_at <= now) end_tree(e, CAUSE_DEADLINE);
    if (is_live(e) && e->ending.active && e->ending.next_at <= now) ending_turn(e);
    if (!is_live(e)) continue;
    if (e->state == EXEC_RUNNING && e->output.hush_until) {
      if (e->output.hush_until <= now) {
        e->output.hush_until = 0;
        output_say_ends(e);
      } else if (e->output.hush_until < due) {
        due = e->output.hush_until;
      }
    }
    // Between taking its user's id and execve the first process can be stopped by another of that user, and its supervisor waits for it.
    if (e->state == EXEC_STARTING && e->look_at <= now) {
      if (e->supervisor && e->supervisor->slip->pid) kill(e->supervisor->slip->pid, SIGCONT);
      e->look_at = now + LOOK_MS;
    }
    if (e->state == EXEC_STARTING) {
      exec_starting = true;
      if (e->look_at < due) due = e->look_at;
    }
    if (e->deadline_at && e->deadline_at < due) due = e->deadline_at;
    if (e->ending.active && e->ending.next_at < due) due = e->ending.next_at;
  }
  if (due == INT64_MAX) return -1;
  return due <= now ? 0 : due - now > 3600000 ? 3600000 : (int)(due - now);
}
