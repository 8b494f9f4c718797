// Entry of the native program. `launcher` is what the engine spawns; PID 1 of a sandbox is a clone of it, never started on its own.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host.h"
#include "kernel.h"
#include "launcher.h"

// Before anything else: descriptors that somebody forgot to close on exec do not pass through us. The numbers with a fixed
// use are occupied, so that nothing else lands on them.
static int descriptors(int *first) {
  struct stat at;
  *first = fstat(FD_FIRST, &at) == 0 && S_ISSOCK(at.st_mode) ? fcntl(FD_FIRST, F_DUPFD_CLOEXEC, FD_FREE) : -1;
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return -1;
  if (dup2(null, 0) < 0 || dup2(null, 1) < 0) return -1;
  if (*first >= 0) k_close_range(FD_CONTROL + 1, (unsigned)*first - 1);
  k_close_range(*first >= 0 ? (unsigned)*first + 1 : FD_CONTROL + 1, ~0u);
  null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = FD_CONTROL + 1; fd < FD_FREE; fd++)
    if (fd != null && dup3(null, fd, O_CLOEXEC) < 0) return -1;
  return fcntl(FD_CONTROL, F_GETFD) < 0 ? -1 : 0;
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "--version")) return printf("sandlot native %d\n", GENERATION) < 0;
  if (argc != 2 || strcmp(argv[1], "launcher")) {
    fprintf(stderr, "usage: sandlot launcher, with the control channel as descriptor %d and, if wanted, the connection of the first sandbox as %d; or --version\n", FD_CONTROL, FD_FIRST);
    return 2;
  }
  const char *step = memfd_enter((char *[]){"sandlot", "launcher", NULL});
  if (!step) {
    int first;
    if (descriptors(&first) == 0) {
      fcntl(FD_CONTROL, F_SETFD, FD_CLOEXEC);
      launcher_run(first);
    }
    step = "take over descriptors; the control channel must be descriptor 3";
  }
  int error = errno;
  fprintf(stderr, "sandlot: %s: %s\n", step, strerror(error));
  refuse(FD_CONTROL, "launcher.failed", step, NULL, error);
}
