#ifndef SANDLOT_LAUNCHER_H
#define SANDLOT_LAUNCHER_H

// Obeys the control channel at FD_CONTROL until it ends.
_Noreturn void launcher_run(void);

// memfd.c: comes back in a copy of this program that nobody can change, or not at all. Returns why not: a step, with errno.
const char *memfd_enter(char *const argv[]);

#endif
