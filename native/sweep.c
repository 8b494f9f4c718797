// What a killed launcher leaves: control groups, directories of its boxes, its own directory. Processes and mounts end by themselves.
//
// A launcher holds a lock on launcher/<id>/lock for as long as it lives; a directory gets that name only once the lock is held. So a lock that can
// be taken marks a leftover, and while we hold it no other sweep touches it. Where its groups are is in launcher/<id>/cgroup.
// Runs beside the launcher, which does not wait for it, confined to the state directory once the groups' paths are read.
#define _GNU_SOURCE
#include "sweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cgroup.h"
#include "host.h"
#include "kernel.h"
#include "tree.h"

#define LEFT_LIMIT 64

struct left {
  char id[64];
  int lock;
};

static int list(int dir, DIR **out) {
  int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  *out = fd < 0 ? NULL : fdopendir(fd);
  if (!*out && fd >= 0) close(fd);
  return *out ? 0 : -1;
}

static void end_groups(int dir) {
  char line[1200];
  int fd = openat(dir, "cgroup", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  FILE *in = fd < 0 ? NULL : fdopen(fd, "r");
  while (in && fgets(line, sizeof line, in)) {
    line[strcspn(line, "\n")] = 0;
    if (strstr(line, "/sandlot-")) cgroup_sweep(line);
  }
  if (in) fclose(in);
}

static bool find(int launchers, struct left *l, const char *name) {
  struct stat at;
  int dir = openat(launchers, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (dir < 0) return false;
  l->lock = openat(dir, "lock", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  bool free_now = l->lock >= 0 && flock(l->lock, LOCK_EX | LOCK_NB) == 0;
  // One under its first name is being made, unless it has stayed so.
  if (name[0] == '.' && (fstat(dir, &at) < 0 || time(NULL) - at.st_mtime < 60)) free_now = false;
  if (name[0] == '.' && l->lock < 0 && fstat(dir, &at) == 0 && time(NULL) - at.st_mtime >= 60) free_now = true;
  if (free_now) end_groups(dir);
  close(dir);
  if (!free_now && l->lock >= 0) close(l->lock);
  if (free_now) snprintf(l->id, sizeof l->id, "%s", name);
  return free_now;
}

static void remove_boxes(int boxes, const struct left *l) {
  DIR *all;
  size_t n = strlen(l->id);
  if (l->id[0] == '.' || list(boxes, &all) < 0) return;
  for (struct dirent *e; (e = readdir(all));)
    if (!strncmp(e->d_name, l->id, n) && e->d_name[n] == '.') tree_remove(boxes, e->d_name);
  closedir(all);
}

_Noreturn void sweep_run(int state, int boxes) {
  static struct left left[LEFT_LIMIT];
  unsigned count = 0;
  DIR *all;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  close(FD_CONTROL);
  int launchers = openat(state, "launcher", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (launchers < 0 || list(launchers, &all) < 0) _exit(0);
  for (struct dirent *e; count < LEFT_LIMIT && (e = readdir(all));)
    if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && find(launchers, &left[count], e->d_name)) count++;
  closedir(all);
  if (tree_confine(state, 0) < 0) _exit(1);
  for (unsigned i = 0; i < count; i++) {
    remove_boxes(boxes, &left[i]);
    tree_remove(launchers, left[i].id);
    if (left[i].lock >= 0) close(left[i].lock);
  }
  _exit(0);
}
