// Running from a sealed memfd.
//
// The program file may lie where the caller's own uid can write; a guest with that uid, or a later process of it, must not change what PID 1 of every
// sandbox executes. So we copy ourselves into a memfd, seal it against any change and execute that, with an empty environment and
// an argv that says nothing: /proc/1/environ and cmdline inside are what the kernel keeps of this.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "launcher.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x10u
#endif
#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x20
#endif

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

extern char **environ;

const char *memfd_enter(char *const argv[]) {
  struct stat at;
  int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  if (from < 0) return "open /proc/self/exe";
  int seals = fcntl(from, F_GET_SEALS);
  if (seals >= 0 && (seals & SEALS) == SEALS && !environ[0]) {
    close(from);
    prctl(PR_SET_NAME, "sandlot");
    return NULL;
  }
  int to = memfd_create("sandlot", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
  if (to < 0 && errno == EINVAL) to = memfd_create("sandlot", MFD_CLOEXEC | MFD_ALLOW_SEALING);  // before Linux 6.3
  if (to < 0) return "memfd_create";
  if (fstat(from, &at) < 0) return "look at /proc/self/exe";
  for (off_t left = at.st_size; left > 0;) {
    ssize_t sent = sendfile(to, from, NULL, (size_t)left);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return "copy into a memfd";
    left -= sent;
  }
  close(from);
  if (fcntl(to, F_ADD_SEALS, SEALS) < 0) return "seal a memfd";
  fcntl(to, F_ADD_SEALS, F_SEAL_EXEC);  // Linux 6.3; without it the mode could change, not the content
  syscall(SYS_execveat, to, "", argv, (char *[]){NULL}, AT_EMPTY_PATH);
  return errno == EACCES ? "execute a memfd: sysctl vm.memfd_noexec forbids it" : "execute a memfd";
}
