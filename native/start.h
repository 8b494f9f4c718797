#ifndef SANDLOT_START_H
#define SANDLOT_START_H

#include "host.h"

// Up to READY; -1 with a fault.
int start_open(const uint8_t *payload, size_t length, int *listener, struct fault *f);
// What boxes are made from; a fault stands in the way of every box. `payload` of start_open must still be there.
void start_finish(struct fault *f);
// Forks the sweep of what dead launchers left.
pid_t start_sweep(void);
// Removes our directory.
void start_undo(void);

#endif
