// Reading and building frames and fields. Lengths are checked here, meanings by whoever asked.
#include "frame.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void little(uint8_t *at, uint64_t value, int width) {
  for (int i = 0; i < width; i++) at[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t from_little(const uint8_t *at, int width) {
  uint64_t value = 0;
  for (int i = width - 1; i >= 0; i--) value = value << 8 | at[i];
  return value;
}

void frame_decode(const uint8_t header[FRAME_HEADER], struct frame *out) {
  out->length = (uint32_t)from_little(header, 4);
  out->kind = header[4];
  out->flags = header[5];
  out->channel = (uint16_t)from_little(header + 6, 2);
  out->id = (uint32_t)from_little(header + 8, 4);
}

static uint8_t *reserve(struct buffer *b, size_t more) {
  if (b->used + more > b->size) {
    size_t size = b->size ? b->size : 512;
    while (size < b->used + more) size *= 2;
    uint8_t *bytes = realloc(b->bytes, size);
    if (!bytes) _exit(112);  // no memory for a frame: whoever waits for us sees the end of the channel
    b->bytes = bytes;
    b->size = size;
  }
  uint8_t *at = b->bytes + b->used;
  b->used += more;
  return at;
}

size_t frame_begin(struct buffer *b, uint8_t kind, uint8_t flags, uint16_t channel, uint32_t id) {
  size_t start = b->used;
  uint8_t *at = reserve(b, FRAME_HEADER);
  little(at, 0, 4);
  at[4] = kind;
  at[5] = flags;
  little(at + 6, channel, 2);
  little(at + 8, id, 4);
  return start;
}

void frame_end(struct buffer *b, size_t start) { little(b->bytes + start, b->used - start - FRAME_HEADER, 4); }

void put_bytes(struct buffer *b, uint16_t tag, const void *bytes, size_t length) {
  uint8_t *at = reserve(b, 8 + length);
  little(at, tag, 2);
  little(at + 2, 0, 2);
  little(at + 4, length, 4);
  if (length) memcpy(at + 8, bytes, length);
}

void put_text(struct buffer *b, uint16_t tag, const char *text) { put_bytes(b, tag, text, strlen(text)); }

void put_u32(struct buffer *b, uint16_t tag, uint32_t value) {
  uint8_t bytes[4];
  little(bytes, value, 4);
  put_bytes(b, tag, bytes, 4);
}

void put_u64(struct buffer *b, uint16_t tag, uint64_t value) {
  uint8_t bytes[8];
  little(bytes, value, 8);
  put_bytes(b, tag, bytes, 8);
}

void put_raw(struct buffer *b, const void *bytes, size_t length) {
  if (length) memcpy(reserve(b, length), bytes, length);
}

void put_raw_u64(struct buffer *b, uint64_t value) { little(reserve(b, 8), value, 8); }

void buffer_free(struct buffer *b) {
  free(b->bytes);
  *b = (struct buffer){0};
}

void buffer_shift(struct buffer *b, size_t count) {
  memmove(b->bytes, b->bytes + count, b->used - count);
  b->used -= count;
}

int field_next(const uint8_t *payload, size_t length, size_t *at, struct field *out) {
  if (*at == length) return 0;
  if (length - *at < 8) return -1;
  out->tag = (uint16_t)from_little(payload + *at, 2);
  out->flags = (uint16_t)from_little(payload + *at + 2, 2);
  out->length = (uint32_t)from_little(payload + *at + 4, 4);
  if (out->length > length - *at - 8) return -1;
  out->bytes = payload + *at + 8;
  *at += 8 + (size_t)out->length;
  return 1;
}

uint32_t field_u32(const struct field *f) { return f->length == 4 ? (uint32_t)from_little(f->bytes, 4) : 0; }

uint64_t field_u64(const struct field *f) { return f->length == 8 ? from_little(f->bytes, 8) : 0; }

char *field_text(const struct field *f) {
  if (memchr(f->bytes, 0, f->length)) return NULL;
  char *text = malloc((size_t)f->length + 1);
  if (!text) _exit(112);
  if (f->length) memcpy(text, f->bytes, f->length);
  text[f->length] = 0;
  return text;
}
