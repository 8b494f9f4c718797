// Control groups: <our own group>/sandlot-<launcher>/<serial> in the v1 hierarchies of memory, pids, cpu and freezer and in the unified tree.
//
// Best effort: what we may not make is named in the box's report. We mount nothing and write only below directories that we made. Numbers, not
// box ids, name the groups, since a box may be cloned before it is given to anybody.
//   v1       the box's first process makes its groups and joins them itself, by writing "0" to `tasks` while it is single-threaded: writing a
//            pid, or to cgroup.procs, takes a global lock and an RCU grace period (7-23 ms). Kernel uid 0 (or the delegate) it still is then.
//   unified  CLONE_INTO_CGROUP, which costs nothing. Such a group has cgroup.kill and cgroup.freeze even where v1 owns all controllers.
#define _GNU_SOURCE
#include "cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "box.h"

#define UNIFIED 4
static const char *const controllers[] = {"memory", "pids", "cpu", "freezer", NULL};

static struct hierarchy {
  char own[1024];  // directory of our own group
  int error;       // why there is no parent; 0 = there is one
  bool same;       // mounted together with an earlier one
} hierarchies[UNIFIED + 1];
static char parent[48];

static bool has_word(const char *list, const char *word) {
  size_t n = strlen(word);
  for (const char *at = list; (at = strstr(at, word)); at += n)
    if ((at == list || at[-1] == ',') && (!at[n] || at[n] == ',' || at[n] == '\n')) return true;
  return false;
}

// Path of our group in the hierarchy of `index`, from /proc/self/cgroup ("4:memory:/a/b", "0::/a/b").
static bool group_of(int index, char *out, size_t size) {
  char line[1200];
  bool found = false;
  FILE *in = fopen("/proc/self/cgroup", "re");
  while (in && !found && fgets(line, sizeof line, in)) {
    char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
    if (!path) continue;
    *path++ = 0;
    path[strcspn(path, "\n")] = 0;
    if (index == UNIFIED ? list[1] == 0 : has_word(list + 1, controllers[index])) found = snprintf(out, size, "%s", path) < (int)size;
  }
  if (in) fclose(in);
  return found;
}

static void find(void) {
  char line[4096], root[1024], at[1024], type[64], options[512], group[1024];
  FILE *in = fopen("/proc/self/mountinfo", "re");
  while (in && fgets(line, sizeof line, in)) {
    char *tail = strstr(line, " - ");
    if (!tail || sscanf(line, "%*s %*s %*s %1023s %1023s", root, at) != 2 || sscanf(tail, " - %63s %*s %511s", type, options) != 2) continue;
    for (int i = 0; i <= UNIFIED; i++) {
      struct hierarchy *h = &hierarchies[i];
      if (h->own[0] || (i == UNIFIED ? strcmp(type, "cgroup2") : strcmp(type, "cgroup") || !has_word(options, controllers[i]))) continue;
      if (!group_of(i, group, sizeof group)) continue;
      // The mount may show only a part of the hierarchy, as a container's does.
      size_t n = strcmp(root, "/") ? strlen(root) : 0;
      const char *below = strncmp(group, root, n) || (n && group[n] && group[n] != '/') ? "" : group + n;
      if (snprintf(h->own, sizeof h->own, "%s%s", at, below) >= (int)sizeof h->own) h->own[0] = 0;
    }
  }
  if (in) fclose(in);
}

void cgroup_start(const char *launcher, int record) {
  snprintf(parent, sizeof parent, "sandlot-%s", launcher);
  find();
  for (int i = 0; i <= UNIFIED; i++) {
    struct hierarchy *h = &hierarchies[i];
    char path[1100];
    for (int k = 0; k < i; k++)
      if (!strcmp(hierarchies[k].own, h->own)) h->same = true;
    h->error = ENOENT;
    if (!h->own[0] || h->same) continue;
    if (snprintf(path, sizeof path, "%s/%s", h->own, parent) >= (int)sizeof path) continue;
    h->error = mkdir(path, 0755) < 0 && errno != EEXIST ? errno : 0;
    if (h->error) continue;
    if (record >= 0) dprintf(record, "%s\n", path);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || dup3(fd, FD_CGROUP + i, O_CLOEXEC) < 0) h->error = errno;
    if (fd >= 0) close(fd);
  }
}

int cgroup_unified(unsigned serial) {
  char name[16];
  if (hierarchies[UNIFIED].error || !parent[0]) return -1;
  snprintf(name, sizeof name, "%u", serial);
  if (mkdirat(FD_CGROUP + UNIFIED, name, 0755) < 0) return -1;
  return openat(FD_CGROUP + UNIFIED, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int join(int index, const char *name) {
  char tasks[32];
  if (mkdirat(FD_CGROUP + index, name, 0755) < 0) return -1;
  snprintf(tasks, sizeof tasks, "%s/tasks", name);
  int fd = openat(FD_CGROUP + index, tasks, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  int result = write(fd, "0", 1) == 1 ? 0 : -1, error = errno;
  close(fd);
  errno = error;
  return result;
}

void cgroup_join(unsigned serial, bool unified, struct buffer *says) {
  char name[16], text[32];
  bool any = false;
  snprintf(name, sizeof name, "%u", serial);
  for (int i = 0; i < UNIFIED; i++) {
    struct hierarchy *h = &hierarchies[i];
    if (!h->own[0] || h->same) continue;
    any = true;
    if (!h->error && join(i, name) < 0) h->error = errno;
    if (h->error) {
      missing_put(says, "cgroup: no group for %s below %s: %s", controllers[i], h->own, strerror(h->error));
      continue;
    }
    snprintf(text, sizeof text, "cgroup.%s", controllers[i]);
    put_text(says, TAG_FEATURE, text);
  }
  if (unified) put_text(says, TAG_FEATURE, "cgroup.unified");
  else if (!hierarchies[UNIFIED].own[0] && !any) put_text(says, TAG_MISSING, "cgroup: no hierarchy is mounted");
  else if (hierarchies[UNIFIED].own[0]) {
    int error = hierarchies[UNIFIED].error;
    missing_put(says, "cgroup: no group in the unified tree below %s: %s", hierarchies[UNIFIED].own, error ? strerror(error) : "the kernel refused it");
  }
}

// Ends every process in the group of `dir`; v1 has no cgroup.kill. Pids are read and killed one by one: what is in there is ours and has no way out.
static void end_all(int dir) {
  char text[4096];
  int fd = openat(dir, "cgroup.kill", O_WRONLY | O_CLOEXEC);
  if (fd >= 0 && write(fd, "1", 1) == 1) return (void)close(fd);
  if (fd >= 0) close(fd);
  fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
  ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  text[got > 0 ? got : 0] = 0;
  for (char *at = text, *next; *at; at = next) {
    long pid = strtol(at, &next, 10);
    if (next == at) break;
    if (pid > 1 && pid != getpid()) kill((pid_t)pid, SIGKILL);
    while (*next == '\n') next++;
  }
}

int cgroup_remove(unsigned serial) {
  char name[16];
  int busy = 0;
  snprintf(name, sizeof name, "%u", serial);
  for (int i = 0; i <= UNIFIED; i++) {
    if (hierarchies[i].error || !parent[0]) continue;
    if (unlinkat(FD_CGROUP + i, name, AT_REMOVEDIR) == 0 || errno != EBUSY) continue;
    int dir = openat(FD_CGROUP + i, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir >= 0) end_all(dir), close(dir);
    if (unlinkat(FD_CGROUP + i, name, AT_REMOVEDIR) < 0 && errno == EBUSY) busy = -1;
  }
  if (busy) errno = EBUSY;
  return busy;
}

void cgroup_end(void) {
  for (int i = 0; i <= UNIFIED; i++) {
    char path[1100];
    if (!parent[0] || !hierarchies[i].own[0] || hierarchies[i].same || hierarchies[i].error) continue;
    if (snprintf(path, sizeof path, "%s/%s", hierarchies[i].own, parent) < (int)sizeof path) rmdir(path);
  }
}

void cgroup_sweep(const char *path) {
  int dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR *all = dir < 0 ? NULL : fdopendir(dir);
  if (!all) {
    if (dir >= 0) close(dir);
    return;
  }
  for (struct dirent *e; (e = readdir(all));) {
    if (e->d_name[0] < '0' || e->d_name[0] > '9') continue;
    for (int wait = 1; unlinkat(dir, e->d_name, AT_REMOVEDIR) < 0 && errno == EBUSY && wait < 500; wait *= 2) {
      int group = openat(dir, e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      if (group >= 0) end_all(group), close(group);
      poll(NULL, 0, wait);
    }
  }
  closedir(all);
  rmdir(path);
}
