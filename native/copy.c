// Copying a small directory of the host, for a work directory on a file system that cannot map owners (as in a container, whose files all lie on an
// overlay): unmapped its files would be nobody's inside, and no command could change them. The copy is a layer of its own, so what counts as
// changed stays what the guest changed. Run below slow.c, so nobody waits for it but the box it is for.
//
// No link is followed, no mount crossed, and what is not a file, directory or link is left out. The directory is the host's, but may change
// under us: each thing is opened once and looked at through its descriptor, by a child that has given up everything else (tree_confine).
#define _GNU_SOURCE
#include "copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel.h"
#include "plan.h"
#include "tree.h"

#define SAFE (RESOLVE_BELOW | RESOLVE_LINKS_NO | RESOLVE_XDEV_NO)

struct copying {
  const struct owners *owners;
  uint64_t files, bytes;
  bool dry;  // only how much it is: cheaper than finding out half-way
  const char *excess;
};

static int too_large(struct copying *c, const char *excess) {
  c->excess = excess;
  return errno = E2BIG, -1;
}

static int add_bytes(struct copying *c, const struct stat *at) {
  c->bytes += (uint64_t)at->st_size;
  return c->bytes > COPY_BYTES ? too_large(c, "more than 256 MiB") : 0;
}

static uint32_t shown(const struct owners *o, uint32_t id, uint32_t owner) {
  if (id == owner) return o->base + INSIDE_USER;
  if (id == INSIDE_USER && owner < RANGE_SIZE) return o->base + owner;
  return o->base + (id < RANGE_SIZE ? id : 65534);
}

static int give(const struct copying *c, int fd, const struct stat *at) {
  const struct timespec times[2] = {at->st_atim, at->st_mtim};
  if (fchown(fd, shown(c->owners, at->st_uid, c->owners->uid), shown(c->owners, at->st_gid, c->owners->gid)) < 0) return -1;
  return fchmod(fd, at->st_mode & 01777) < 0 || futimens(fd, times) < 0 ? -1 : 0;
}

static int file(struct copying *c, int from, int to, const char *name) {
  struct stat at;
  int in = k_openat2(from, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, SAFE), out = -1, result = -1;
  if (in < 0) return errno == ENOENT ? 0 : -1;
  if (fstat(in, &at) < 0 || !S_ISREG(at.st_mode)) result = 0;
  else if (add_bytes(c, &at) == 0 && (out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)) >= 0) {
    ssize_t got = 1;
    for (off_t left = at.st_size; left > 0 && (got = sendfile(out, in, NULL, (size_t)left)) > 0;) left -= got;
    result = got < 0 ? -1 : give(c, out, &at);
  }
  int error = errno;
  close(in);
  if (out >= 0) close(out);
  errno = error;
  return result;
}

static int link_of(struct copying *c, int from, int to, const char *name) {
  char target[PATH_LIMIT + 1];
  struct stat at;
  ssize_t n = readlinkat(from, name, target, sizeof target - 1);
  if (n < 0 || fstatat(from, name, &at, AT_SYMLINK_NOFOLLOW) < 0) return errno == ENOENT || errno == EINVAL ? 0 : -1;
  target[n] = 0;
  if (symlinkat(target, to, name) < 0) return -1;
  return fchownat(to, name, shown(c->owners, at.st_uid, c->owners->uid), shown(c->owners, at.st_gid, c->owners->gid), AT_SYMLINK_NOFOLLOW);
}

static int directory(struct copying *c, int from, int to, int depth);

static int entry(struct copying *c, int from, int to, const char *name, int depth) {
  struct stat at;
  if (++c->files > COPY_FILES) return too_large(c, "more than 20,000 files");
  if (fstatat(from, name, &at, AT_SYMLINK_NOFOLLOW) < 0) return errno == ENOENT ? 0 : -1;
  if (c->dry && !S_ISDIR(at.st_mode)) return S_ISREG(at.st_mode) ? add_bytes(c, &at) : 0;
  if (S_ISREG(at.st_mode)) return file(c, from, to, name);
  if (S_ISLNK(at.st_mode)) return link_of(c, from, to, name);
  if (!S_ISDIR(at.st_mode)) return 0;
  int in = k_openat2(from, name, O_RDONLY | O_DIRECTORY, 0, SAFE), out = -1, result = -1;
  if (in < 0) return errno == EXDEV || errno == ENOENT ? 0 : -1;
  if (c->dry) result = directory(c, in, -1, depth + 1);
  else if (mkdirat(to, name, 0700) == 0 && (out = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) >= 0) result = directory(c, in, out, depth + 1);
  int error = errno;
  close(in);
  if (out >= 0) close(out);
  errno = error;
  return result;
}

static int directory(struct copying *c, int from, int to, int depth) {
  struct stat at;
  if (depth > COPY_LEVELS) return too_large(c, "more than 100 directories deep");
  int fd = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), result = 0;
  DIR *all = fd < 0 ? NULL : fdopendir(fd);
  if (!all) {
    if (fd >= 0) close(fd);
    return -1;
  }
  for (struct dirent *e; !result && (e = readdir(all));)
    if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) result = entry(c, from, to, e->d_name, depth);
  if (!result && !c->dry) result = fstat(from, &at) < 0 ? -1 : give(c, to, &at);
  int error = errno;
  closedir(all);
  errno = error;
  return result;
}

struct verdict {
  const char *wrong;  // the same program: an address is good in both
  int error;
};

static _Noreturn void work(int from, int to, const struct owners *owners, pid_t parent, struct verdict *v) {
  struct copying c = {.owners = owners, .dry = true};
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  int out = openat(to, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int result = out < 0 ? -1 : tree_confine(out, TREE_CHOWN);
  if (result == 0) result = directory(&c, from, -1, 0);
  if (result == 0) c = (struct copying){.owners = owners}, result = directory(&c, from, out, 0);
  v->error = errno;
  v->wrong = result == 0 ? NULL : c.excess ? c.excess : "it failed";
  _exit(0);
}

const char *copy_layer(int from, int to, const struct owners *owners) {
  static const char *const died = "the process that copies died";
  struct verdict *v = mmap(NULL, sizeof *v, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (v == MAP_FAILED) return died;
  *v = (struct verdict){died, ECHILD};
  pid_t self = getpid(), pid = fork();
  if (pid == 0) work(from, to, owners, self, v);
  if (pid < 0) v->error = errno;
  else waitpid(pid, NULL, 0);
  struct verdict said = *v;
  munmap(v, sizeof *v);
  errno = said.error;
  return said.wrong;
}
