#ifndef SANDLOT_CONNECTION_H
#define SANDLOT_CONNECTION_H

#include <stdint.h>

#include "fault.h"

// A new connection of the listening socket; `hindrance`, if it has a code, is why no box can be made.
void connection_open(int fd, const struct fault *hindrance);
// Closes those that took too long. Returns milliseconds until the next is due, -1 = none.
int connection_turn(void);
void connection_close_all(void);

#endif
