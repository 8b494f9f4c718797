// User namespaces that only serve as the id map of a mount: who a source's owner is to one box.
//
// The kernel takes such a map from a user namespace, and a user namespace begins with a process. That process shares our memory (nothing to
// copy) and sleeps until its namespace is open, then it is killed; 100 us, so the namespace is kept for the next box in the same
// slot until the launcher rests.
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box.h"
#include "kernel.h"
#include "nest.h"

#define KEPT 256

static struct kept {
  int slot, fd;
  enum owner_use use;
  uid_t uid;
  gid_t gid;
} kept[KEPT];
static unsigned kept_count, kept_next;

// Shows `owner` as `user`. For a layer, which nobody can write, everyone else by number, and 1000 in the owner's place.
static void map_text(char *out, size_t size, uint32_t base, enum owner_use use, uint32_t owner) {
  const uint32_t user = INSIDE_USER;
  if (use == OWNER_BIND) {
    snprintf(out, size, "%u %u 1", owner, base + user);
    return;
  }
  uint32_t cuts[2] = {owner < user ? owner : user, owner < user ? user : owner}, at = 0;
  int used = 0;
  for (int i = 0; i < 2; i++) {
    uint32_t to = cuts[i] < RANGE_SIZE ? cuts[i] : RANGE_SIZE, shown = cuts[1 - i];
    if (to > at) used += snprintf(out + used, size - (size_t)used, "%u %u %u\n", at, base + at, to - at);
    if (cuts[i] >= at && shown < RANGE_SIZE) used += snprintf(out + used, size - (size_t)used, "%u %u 1\n", cuts[i], base + shown);
    at = cuts[i] < RANGE_SIZE ? cuts[i] + 1 : RANGE_SIZE;
    if (cuts[0] == cuts[1]) break;
  }
  if (at < RANGE_SIZE) snprintf(out + used, size - (size_t)used, "%u %u %u\n", at, base + at, RANGE_SIZE - at);
}

static int sleeper(void *nothing) {
  // Signals are blocked, as ours are: only SIGKILL ends this.
  while (syscall(SYS_rt_sigtimedwait, nothing, NULL, NULL, 8)) continue;
  return 0;
}

static int put(pid_t pid, const char *name, const char *text) {
  char path[40];
  snprintf(path, sizeof path, "%d/%s", pid, name);
  int fd = openat(host.proc, path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  int result = write(fd, text, strlen(text)) < 0 ? -1 : 0, error = errno;
  close(fd);
  errno = error;
  return result;
}

static int make(uint32_t base, enum owner_use use, uid_t uid, gid_t gid) {
  static char stack[16384] __attribute__((aligned(16)));
  char map[256], path[40];
  if (nest_enter() < 0) return -1;
  pid_t pid = clone(sleeper, stack + sizeof stack, CLONE_VM | CLONE_FILES | CLONE_NEWUSER | SIGCHLD, &(sigset_t){0});
  nest_leave();
  if (pid < 0) return -1;
  int fd = -1;
  map_text(map, sizeof map, base, use, uid);
  if (put(pid, "uid_map", map) == 0) {
    map_text(map, sizeof map, base, use, gid);
    snprintf(path, sizeof path, "%d/ns/user", pid);
    prctl(PR_SET_DUMPABLE, 1);  // shared with it: what is not is for a root that may trace, which that of a container may not
    if (put(pid, "gid_map", map) == 0) fd = openat(host.proc, path, O_RDONLY | O_CLOEXEC);
  }
  int error = errno;
  prctl(PR_SET_DUMPABLE, 0);
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  errno = error;
  return fd;
}

int owner_map(int slot, enum owner_use use, uid_t uid, gid_t gid) {
  for (unsigned i = 0; i < kept_count; i++)
    if (kept[i].slot == slot && kept[i].use == use && kept[i].uid == uid && kept[i].gid == gid) return kept[i].fd;
  int fd = make(slot_base(slot), use, uid, gid);
  if (fd < 0) return -1;
  bool full = kept_count == KEPT;
  struct kept *k = &kept[full ? kept_next++ % KEPT : kept_count++];
  if (full) close(k->fd);
  *k = (struct kept){slot, fd, use, uid, gid};
  return fd;
}

void owner_rest(void) {
  for (unsigned i = 0; i < kept_count; i++) close(kept[i].fd);
  kept_count = kept_next = 0;
}
