// The engine's connection: frames in, frames out, never blocking.
#ifndef SANDLOT_WIRE_H
#define SANDLOT_WIRE_H

#include <stdbool.h>

#include "frame.h"

struct exec;

void wire_open(int channel, void (*obey)(const struct frame *frame, const uint8_t *payload));

// Frames are put here between frame_begin and frame_end; they leave at the end of the turn.
extern struct buffer wire_out;

void wire_put_empty(uint8_t kind, uint16_t channel, uint32_t id);
void wire_put_u64(uint8_t kind, uint16_t channel, uint32_t id, const uint64_t *values, int count);

// The frame with this id could not be obeyed.
void wire_fault(uint32_t id, const char *code, int error);
// The same for what cannot be survived: ends PID 1 and with it the sandbox.
_Noreturn void wire_fault_end(uint32_t id, const char *code, const char *step);

// This exec has output that may be sent.
void wire_queue(struct exec *e);
void wire_unqueue(struct exec *e);
void wire_flush(void);

#endif
