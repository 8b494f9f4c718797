#ifndef SANDLOT_CONNECTION_H
#define SANDLOT_CONNECTION_H

#include <stdint.h>

#include "fault.h"

// MADE: accepted from the listening socket, its CREATE is due. FIRST: came with the launcher, and may wait for ever.
enum connection_kind { CONNECTION_MADE, CONNECTION_FIRST };

// A new connection; `hindrance`, if it has a code, is why no box can be made.
void connection_open(int fd, enum connection_kind kind, const struct fault *hindrance);
// Closes those that took too long. Returns milliseconds until the next is due, -1 = none.
int connection_turn(void);
void connection_close_all(void);

#endif
