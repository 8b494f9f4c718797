// Putting a box's root together, inside.
//
// Everything runs in the box's own namespaces with the rights of its own root; no guest process exists yet, but the lower layers of a root may be
// anybody's: so a target is resolved by the kernel as if the new root were ours already (RESOLVE_IN_ROOT), and never through a magic link.
// /proc and /dev come last, over real directories: a link under one of these names is replaced in the upper, and a target that a link has led there
// is covered.
// The new root is put over the nest's, then chroot: what lies below is the nest, an empty read-only file system (nest.c says why not pivot_root).
#define _GNU_SOURCE
#include "root.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel.h"
#include "nest.h"

#define INSIDE (RESOLVE_ROOT | RESOLVE_MAGIC_NO)

static const char *const failed = "mount.failed";

// The target, made where it does not exist: directories on the way, and at its end a directory or an empty file.
static int target_open(int root, const char *path, bool directory) {
  int fd = k_openat2(root, path, O_PATH, 0, INSIDE);
  if (fd >= 0 || errno != ENOENT) return fd;
  char *copy = strdup(path);
  int parent = k_openat2(root, ".", O_PATH | O_DIRECTORY, 0, INSIDE);
  for (char *at = copy + strspn(copy, "/"); copy && parent >= 0 && *at;) {
    size_t n = strcspn(at, "/");
    char *rest = at + n + strspn(at + n, "/");
    bool last = !*rest, make_directory = !last || directory;
    at[n] = 0;
    int next = k_openat2(root, copy, O_PATH, 0, INSIDE);
    if (next < 0 && errno == ENOENT) {
      if (make_directory) {
        if (mkdirat(parent, at, 0755) == 0) next = k_openat2(parent, at, O_PATH | O_DIRECTORY, 0, RESOLVE_LINKS_NO | RESOLVE_BELOW);
      } else {
        int file = openat(parent, at, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (file >= 0) close(file);
        if (file >= 0) next = k_openat2(parent, at, O_PATH, 0, RESOLVE_LINKS_NO | RESOLVE_BELOW);
      }
    }
    int error = errno;
    close(parent);
    parent = next;
    errno = error;
    if (!last) at[n] = '/';
    at = rest;
  }
  int error = errno;
  free(copy);
  errno = error;
  return parent;
}

static int attach(int tree, int root, const char *target, bool directory, const char *what, struct fault *f) {
  int at = target_open(root, target, directory);
  if (at < 0) return fault_set(f, failed, "make the place for a mount", target, errno);
  int result = k_move_mount(tree, at, "");
  if (result < 0) fault_set(f, failed, what, target, errno);
  close(at);
  return result;
}

static int hide(int root, const char *target, struct fault *f) {
  struct stat at;
  int place = k_openat2(root, target, O_PATH, 0, INSIDE);
  if (place < 0) return errno == ENOENT || errno == ENOTDIR ? 0 : fault_set(f, failed, "hide", target, errno);
  int tree = fstat(place, &at) < 0 ? -1 : k_open_tree(AT_FDCWD, S_ISDIR(at.st_mode) ? "/" NEST_EMPTY : "/" NEST_FILE, TREE_CLONE);
  int result = tree < 0 || k_move_mount(tree, place, "") < 0 ? fault_set(f, failed, "hide", target, errno) : 0;
  if (tree >= 0) close(tree);
  close(place);
  return result;
}

static int step(int root, const struct mount_step *s, int tree, struct fault *f) {
  struct stat at;
  switch (s->kind) {
    case STEP_BIND:
      if (tree < 0) return 0;  // optional, and not there
      if (fstat(tree, &at) < 0) return fault_set(f, failed, "look at a bind", s->target, errno);
      return attach(tree, root, s->target, S_ISDIR(at.st_mode), "bind", f);
    case STEP_OVERLAY: return attach(tree, root, s->target, true, "attach an overlay", f);
    case STEP_TMPFS: {
      int fs = tmpfs_make(s->size, s->mode ? s->mode & 01777 : 0755, ATTR_NOSUID | ATTR_NODEV | (s->flags & MOUNT_NOEXEC ? ATTR_NOEXEC : 0));
      if (fs < 0) return fault_set(f, failed, "mount a tmpfs", s->target, errno);
      int result = attach(fs, root, s->target, true, "attach a tmpfs", f);
      close(fs);
      return result;
    }
    case STEP_HIDE: return hide(root, s->target, f);
    default: return 0;
  }
}

// A real directory at the top of the root, whatever a layer has there.
static int real_directory(int root, const char *name, struct fault *f) {
  int fd = k_openat2(root, name, O_PATH | O_DIRECTORY, 0, RESOLVE_BELOW | RESOLVE_LINKS_NO);
  if (fd >= 0) return fd;
  if ((errno == ENOENT || unlinkat(root, name, 0) == 0) && mkdirat(root, name, 0755) == 0) fd = k_openat2(root, name, O_PATH | O_DIRECTORY, 0, RESOLVE_BELOW | RESOLVE_LINKS_NO);
  return fd >= 0 ? fd : fault_set(f, failed, "make a directory of the root", name, errno);
}

static int move_in(int tree, int root, const char *name, struct fault *f) {
  int at = real_directory(root, name, f);
  if (at < 0) return -1;
  int result = k_move_mount(tree, at, "") < 0 ? fault_set(f, failed, "attach", name, errno) : 0;
  close(at);
  return result;
}

int root_assemble(const struct plan *p, const int *trees, int proc, int dev, struct fault *f) {
  struct stat ours, top, above;
  int root = trees[0];
  if (k_move_mount(root, AT_FDCWD, "/") < 0) return fault_set(f, failed, "attach the root", NULL, errno);
  for (unsigned i = 1; i < p->step_count; i++)
    if (step(root, &p->steps[i], trees[i], f)) return -1;
  if (move_in(proc, root, "proc", f) || move_in(dev, root, "dev", f)) return -1;
  if (fchdir(root) < 0 || chroot(".") < 0 || chdir("/") < 0) return fault_set(f, failed, "change to the root", NULL, errno);
  if (fstat(root, &ours) < 0 || stat("/", &top) < 0 || stat("/..", &above) < 0 || ours.st_ino != top.st_ino || ours.st_dev != top.st_dev || ours.st_ino != above.st_ino ||
      ours.st_dev != above.st_dev)
    return fault_set(f, failed, "the root is not where it was put", NULL, 0);
  return 0;
}
