#ifndef SANDLOT_LAUNCHER_H
#define SANDLOT_LAUNCHER_H

// Obeys the control channel at FD_CONTROL until it ends. `first`: a connection that need not be made any more, or -1.
_Noreturn void launcher_run(int first);

// memfd.c: comes back in a copy of this program that nobody can change, or not at all. Returns why not: a step, with errno.
const char *memfd_enter(char *const argv[]);

#endif
