// START: from what the engine asks for to a launcher that can make boxes, and back.
//
// What has to hold before READY is said comes first: who we are (identity.c), our directory with its lock and socket, the nest and the room, which are
// also the test of whether this host lets us mount at all. The templates of boxes come after READY, while the engine connects.
#define _GNU_SOURCE
#include "start.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cgroup.h"
#include "kernel.h"
#include "nest.h"
#include "sweep.h"

struct host host = {.proc = -1, .boxes = -1, .own = -1, .view = -1, .root = -1, .nest = -1, .room = -1, .skeleton = -1, .dev = -1};

static struct start start;
static int state = -1;

static int state_open(int *launchers, struct fault *f) {
  struct stat at;
  const char *const code = "state.unusable";
  int state = open(host.state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (state < 0) return fault_set(f, code, "open the state directory", host.state, errno);
  if (fstat(state, &at) < 0 || at.st_uid != geteuid() || (at.st_mode & 022)) return fault_set(f, code, "the state directory must be ours, and writable by nobody else", host.state, EACCES);
  if ((mkdirat(state, "launcher", 0700) < 0 && errno != EEXIST) || (mkdirat(state, "box", 0700) < 0 && errno != EEXIST))
    return fault_set(f, code, "make directories in the state directory", host.state, errno);
  *launchers = openat(state, "launcher", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  int boxes = openat(state, "box", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  // As a mount of its own, attached nowhere: the overlays of a box name their upper in its mountinfo, and below this there is no host path to tell.
  host.boxes = boxes < 0 ? -1 : k_open_tree(boxes, "", TREE_CLONE | EMPTY_PATH);
  if (boxes >= 0 && host.boxes < 0) host.boxes = boxes;
  else if (boxes >= 0) close(boxes);
  if (*launchers < 0 || host.boxes < 0) return fault_set(f, code, "make directories in the state directory", host.state, errno);
  return state;
}

// launcher/<id>, under its name only when it is locked.
static int own_open(int launchers, int *listener, struct fault *f) {
  char name[48];
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  snprintf(name, sizeof name, ".%s", host.launcher);
  const char *step = "make our directory";
  if (mkdirat(launchers, name, 0700) < 0) goto failed;
  host.own = openat(launchers, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  int lock = host.own < 0 ? -1 : openat(host.own, "lock", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  step = "lock our directory";
  if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) < 0) goto failed;
  step = "listen";
  *listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  snprintf(at.sun_path, sizeof at.sun_path, "/proc/self/fd/%d/socket", host.own);  // the path itself may be longer than the 107 bytes of an address
  if (*listener < 0 || bind(*listener, (struct sockaddr *)&at, sizeof at) < 0 || listen(*listener, 1024) < 0) goto failed;
  step = "name our directory";
  if (renameat(launchers, name, launchers, host.launcher) < 0) goto failed;
  return 0;
failed:
  return fault_set(f, "state.unusable", step, host.state, errno);
}

static int permits_open(struct fault *f) {
  host.permits = calloc(start.permit_count + 1, sizeof *host.permits);
  for (unsigned i = 0; i < start.permit_count; i++) {
    struct stat at;
    int fd = k_openat2(AT_FDCWD, start.permits[i], O_PATH | O_DIRECTORY, 0, RESOLVE_LINKS_NO);
    if (fd < 0 || fstat(fd, &at) < 0) return fault_set(f, "grant.not_found", "open a permitted directory", start.permits[i], errno);
    close(fd);
    host.permits[host.permit_count++] = (struct permit){at.st_dev, at.st_ino};
  }
  return 0;
}

int start_open(const uint8_t *payload, size_t length, int *listener, struct fault *f) {
  int launchers = -1;
  umask(077);
  if (start_parse(payload, length, &start, f)) return -1;
  host.state = start.state;
  host.secret = start.secret;
  snprintf(host.launcher, sizeof host.launcher, "%s", start.launcher);
  host.proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (host.proc < 0) return fault_set(f, "unsupported", "open /proc", NULL, errno);
  if (identity_enter(start.range_base, start.range_count, f)) return -1;
  if ((state = state_open(&launchers, f)) < 0 || own_open(launchers, listener, f)) return -1;
  close(launchers);
  umask(0);  // from here modes are meant as they are written
  if (nest_make(f) || room_make(f) || permits_open(f)) return -1;
  // Only now: /proc/<pid> of a process that is not dumpable is root's, and newuidmap, and we opening the nest, look there.
  prctl(PR_SET_DUMPABLE, 0);
  return 0;
}

void start_finish(struct fault *f) {
  int record = openat(host.own, "cgroup", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  cgroup_start(host.launcher, record);
  if (record >= 0) close(record);
  if (skeleton_make(&start, f) == 0) dev_make(f);
  // Its bytes are the frame's, which goes; a clone copies what we have mapped, so the rest goes too.
  for (unsigned i = 0; i < start.skeleton_count; i++) free(start.skeleton[i].target);
  free(start.skeleton);
  start.skeleton = NULL;
  start.skeleton_count = 0;
}

pid_t start_sweep(void) {
  pid_t pid = fork();
  if (pid == 0) {
    int boxes = fcntl(host.boxes, F_DUPFD_CLOEXEC, FD_FREE);
    sweep_run(state, boxes);
  }
  close(state);
  return pid;
}

void start_undo(void) {
  if (host.own < 0) return;
  room_end();
  unlinkat(host.own, "socket", 0);
  unlinkat(host.own, "cgroup", 0);
  unlinkat(host.own, "lock", 0);
  // By its own path, whichever of its two names it has.
  char path[40], name[PATH_LIMIT + 64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", host.own);
  ssize_t n = readlink(path, name, sizeof name - 1);
  if (n > 0) name[n] = 0, rmdir(name);
}
