// The guest protocol as C sees it. The same table stands in src/protocol/frame.ts; test/protocol/frame-table.test.ts compares the two.
//
//   u32 length of payload | u8 kind | u8 flags | u16 channel | u32 id      little endian, then the payload
//
// Payload: DATA is u64 offset + bytes; CREDIT is u64 acknowledged + u64 limit; DATA_END is u64 offset; STOP and RELEASE are empty; every
// other kind is a list of fields u16 tag | u16 flags | u32 length | bytes. An unknown tag is skipped unless its flag MUST is set: then the
// frame is refused as `unsupported`, so that an old init never overlooks a restriction. An unknown kind is answered with FAULT.
#ifndef SANDLOT_FRAME_H
#define SANDLOT_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define GENERATION 1
#define FRAME_HEADER 12
#define FRAME_LIMIT_IN (32u << 20)  // towards launcher and init: argv may be large, the kernel says E2BIG, not we
#define FRAME_LIMIT_OUT (1u << 20)  // from launcher and init
#define WINDOW (256u << 10)         // bytes a channel may be ahead of its credit

enum kind {
  // control channel, engine <-> launcher
  KIND_START = 1,
  KIND_READY = 2,
  KIND_REFUSED = 3,  // also on a sandbox's connection, by launcher or init
  KIND_GONE = 4,
  KIND_DISCARD = 5,
  KIND_CHANGES = 6,
  KIND_CHANGED = 7,
  KIND_CONTROL = 8,  // reserved: first frame of a connection that wants to be a control channel
  KIND_BOXES = 9,    // reserved: what lives, what is gone and was not acknowledged
  // first frame of a sandbox's connection, obeyed by the launcher
  KIND_CREATE = 16,
  KIND_ATTACH = 17,  // reserved: connect anew to a sandbox that lives
  // engine <-> init
  KIND_HELLO = 32,
  KIND_WELCOME = 33,
  KIND_EXEC = 34,
  KIND_STARTED = 35,
  KIND_UNSTARTED = 36,
  KIND_DATA = 37,
  KIND_CREDIT = 38,
  KIND_DATA_END = 39,
  KIND_STOP = 40,
  KIND_EXITED = 41,
  KIND_ENDED = 42,
  KIND_SIGNAL = 43,
  KIND_END = 44,
  KIND_RELEASE = 45,
  KIND_PING = 46,
  KIND_PONG = 47,
  KIND_FAULT = 48,
  KIND_STATE = 49,  // reserved: after an attach, one a stream that was not released
};

enum field_flag { FIELD_MUST = 1 };

// For an exec; other streams define their own.
enum channel { CHANNEL_STDIN = 0, CHANNEL_STDOUT = 1, CHANNEL_STDERR = 2 };

// Width of the value in brackets: [u32], [u64], [bytes] (text is bytes without a final NUL), [fields] (a nested list).
enum tag {
  TAG_GENERATION = 1,   // [u32]
  TAG_STATE = 2,        // [bytes] absolute path of the state directory
  TAG_LAUNCHER = 3,     // [bytes] id of this launcher, [a-z0-9]{1,32}
  TAG_PERMIT = 4,       // [bytes] directory below which host sources may lie; repeated; none = everything
  TAG_RANGE_BASE = 5,   // [u32] first host id of the ranges
  TAG_RANGE_COUNT = 6,  // [u32] how many ranges of 65,536
  TAG_SKELETON = 7,     // [fields] one entry of the skeleton: ENTRY, TARGET, MODE, UID, GID, BYTES
  TAG_SOCKET = 8,       // [bytes]
  TAG_IDENTITY = 9,     // [bytes] range | subordinate | single
  TAG_FEATURE = 10,     // [bytes] repeated
  TAG_CODE = 11,        // [bytes] a code of src/model/error.ts
  TAG_STEP = 12,        // [bytes] what was being done, a few words
  TAG_SUBJECT = 13,     // [bytes] to what: a path, a number
  TAG_ERRNO = 14,       // [u32]
  TAG_BOX = 15,         // [bytes] id of a sandbox, [a-z0-9]{1,32}
  TAG_STATUS = 16,      // [u32] wait status of the init
  TAG_COUNT = 17,       // [u64]
  TAG_NAME = 18,        // [bytes]
  TAG_HOSTNAME = 19,    // [bytes]
  TAG_MOUNT = 20,       // [fields] one step of the mount plan: ENTRY, SOURCE or LAYER*, TARGET, NAME, IDS, MODE, SIZE, FLAGS, DEV, INO
  TAG_FILTER = 21,      // [bytes] classic BPF, loaded last before every exec
  TAG_CGROUP = 22,      // [u32] 1 = make cgroups where possible
  TAG_MISSING = 23,     // [bytes] a layer that is not there, for the report; repeated
  TAG_ARGV = 24,        // [bytes] repeated
  TAG_ENV = 25,         // [bytes] NAME=value, repeated
  TAG_CWD = 26,         // [bytes]
  TAG_UID = 27,         // [u32] inside
  TAG_GID = 28,         // [u32] inside
  TAG_GROUP = 29,       // [u32] inside, repeated
  TAG_STDIN = 30,       // [u32] 0 = /dev/null, 1 = pipe
  TAG_DEADLINE_MS = 31, // [u64] the init ends the whole tree this long after the start; 0 or absent = never
  TAG_PID = 32,         // [u32] inside
  TAG_EXIT = 33,        // [u32]
  TAG_SIGNAL = 34,      // [u32]
  TAG_SCOPE = 35,       // [u32] 0 = first process, 1 = whole tree
  TAG_USER_US = 36,     // [u64] cpu time in user mode, microseconds
  TAG_SYSTEM_US = 37,   // [u64] cpu time in the kernel, microseconds
  TAG_PEAK_BYTES = 38,  // [u64] largest resident set of one process, bytes
  TAG_COOKIE = 39,      // [bytes] at most 64
  TAG_ENTRY = 40,       // [u32] enum entry (skeleton) or enum step (mount plan)
  TAG_TARGET = 41,      // [bytes] absolute path inside, or what a link points to (BYTES)
  TAG_MODE = 42,        // [u32]
  TAG_BYTES = 43,       // [bytes] content of a file, target of a link
  TAG_SOURCE = 44,      // [bytes] absolute host path without symbolic links; empty = the skeleton
  TAG_IDS = 45,         // [u32] enum ids
  TAG_SIZE = 46,        // [u64] bytes
  TAG_FLAGS = 47,       // [u32] enum mount_flag
  TAG_CORE = 48,        // [u32] 1 = a core would have been written
  TAG_MERGE = 49,       // [u32] 1 = stderr goes to the stdout channel
  TAG_LAYER = 50,       // [fields] one layer of an overlay, topmost first: SOURCE, IDS, DEV, INO
  TAG_UPPER = 51,       // [u32] enum upper
  TAG_DEV = 52,         // [u64] with INO: the source must be this very directory, else refused
  TAG_INO = 53,         // [u64]
  TAG_EPOCH = 54,       // [u32] which engine speaks; a later one takes over, an earlier one is refused
  TAG_ON_EOF = 55,      // [u32] 0 = end of the channel destroys, 1 = it does not
  TAG_CAUSE = 56,       // [u32] enum cause
  TAG_SECRET = 57,      // [bytes] 16 to 64, of START and of every CREATE: who cannot name it is not our engine
};

enum entry { ENTRY_DIRECTORY = 1, ENTRY_FILE = 2, ENTRY_LINK = 3 };

// Where an upper lies: in the box's directory on disk, or in memory (a tmpfs of SIZE bytes).
enum upper { UPPER_DISK = 0, UPPER_MEMORY = 1 };

// Why the first process is over.
enum cause { CAUSE_SELF = 0, CAUSE_DEADLINE = 1, CAUSE_END = 2 };

enum step { STEP_ROOT = 1, STEP_BIND = 2, STEP_OVERLAY = 3, STEP_TMPFS = 4, STEP_HIDE = 5 };

// How owners on the host show inside (identity mode `range` only; elsewhere ids are the launcher's own).
//   IDS_SYSTEM  host 0 is inside 0, host n is inside n
//   IDS_OWNER   the source's owner is `user` (1000): alone for a bind, swapped with 1000 for a lower layer, which nobody can write
enum ids { IDS_SYSTEM = 0, IDS_OWNER = 1 };

enum mount_flag {
  MOUNT_READONLY = 1,
  MOUNT_OPTIONAL = 2,  // absent source: the step is skipped
  MOUNT_NOEXEC = 4,
  MOUNT_RECURSIVE = 8,  // with what is mounted below the source
};

// --- building and reading; frame.c ---

struct buffer {
  uint8_t *bytes;
  size_t used, size;
};

struct field {
  uint16_t tag, flags;
  uint32_t length;
  const uint8_t *bytes;
};

struct frame {
  uint32_t length;
  uint8_t kind, flags;
  uint16_t channel;
  uint32_t id;
};

void frame_decode(const uint8_t header[FRAME_HEADER], struct frame *out);

// Starts a frame in `b` and returns where it starts; frame_end writes the length.
size_t frame_begin(struct buffer *b, uint8_t kind, uint8_t flags, uint16_t channel, uint32_t id);
void frame_end(struct buffer *b, size_t start);
void put_bytes(struct buffer *b, uint16_t tag, const void *bytes, size_t length);
void put_text(struct buffer *b, uint16_t tag, const char *text);
void put_u32(struct buffer *b, uint16_t tag, uint32_t value);
void put_u64(struct buffer *b, uint16_t tag, uint64_t value);
void put_raw(struct buffer *b, const void *bytes, size_t length);
void put_raw_u64(struct buffer *b, uint64_t value);
void buffer_free(struct buffer *b);
// Drops the first `count` bytes.
void buffer_shift(struct buffer *b, size_t count);

// Walks a list of fields: returns 1 and fills `out`, 0 at the end, -1 when malformed. *at starts at 0.
int field_next(const uint8_t *payload, size_t length, size_t *at, struct field *out);
uint32_t field_u32(const struct field *f);
uint64_t field_u64(const struct field *f);
// A copy with a final NUL; NULL when the field holds a NUL byte.
char *field_text(const struct field *f);

#endif
