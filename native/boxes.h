// The life of boxes, from the launcher's side.
#ifndef SANDLOT_BOXES_H
#define SANDLOT_BOXES_H

#include "box.h"

// Gives a box to the plan: takes the spare or clones one, makes the mounts and hands over `channel` (not closed). -1 with a fault.
// 1: it takes long; `told` is called once when it is done, with the fault or NULL. `channel` has to stay open until then.
int boxes_create(const struct plan *p, const uint8_t *payload, size_t length, int channel, void (*told)(void *whom, const struct fault *f), void *whom, struct fault *f);
bool boxes_known(const char *id);
// False: no such box; GONE is said all the same.
bool boxes_discard(const char *id);
void boxes_discard_all(void);
// Counts what each upper of the box holds and says CHANGED.
bool boxes_changes(const char *id, uint32_t request);
unsigned boxes_count(void);  // spares and boxes under removal included
// Makes the spare if one is likely to be wanted; called when the launcher has nothing else to do.
void boxes_idle(void);
// Drops the spare: nobody has asked for a while.
void boxes_rest(void);

// launcher.c: to the engine.
void say(const struct buffer *frame);

#endif
