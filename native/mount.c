// The host's side of a mount plan: detached mounts, made here with the host's rights and handed to the box, which only puts them in place.
//
// Nothing is attached anywhere on the way, so nothing shows on the host and a box that fails leaves nothing behind: a detached mount ends with its
// last descriptor. Owners are translated by the mount (range mode only): the file system keeps what it has. Every mount is nosuid and nodev.
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "box.h"
#include "kernel.h"

void missing_put(struct buffer *missing, const char *format, ...) {
  char text[700];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  put_text(missing, TAG_MISSING, text);
}

int template_clone(const struct box *b, int template, uint64_t attributes) {
  int tree = k_open_tree(template, "", TREE_CLONE | EMPTY_PATH | RECURSIVE);
  if (tree < 0) return -1;
  if (k_mount_setattr(tree, 1, attributes, b->userns) == 0) return tree;
  if (b->userns >= 0 && k_mount_setattr(tree, 1, attributes, -1) == 0) return tree;  // a tmpfs of before 6.3: owners show as nobody
  int error = errno;
  close(tree);
  errno = error;
  return -1;
}

static int bind_make(struct box *b, const struct mount_step *s, struct buffer *missing, struct fault *f) {
  const struct source *from = &s->layers[0];
  struct stat at;
  char name[24];
  bool recursive = s->flags & MOUNT_RECURSIVE, readonly = s->flags & MOUNT_READONLY;
  int fd = source_open(from, f);
  if (fd < 0) {
    if ((s->flags & MOUNT_OPTIONAL) && !strcmp(f->code, "grant.not_found")) f->code = NULL;
    return -1;
  }
  int tree = k_open_tree(fd, "", TREE_CLONE | EMPTY_PATH | (recursive ? RECURSIVE : 0));
  if (tree < 0 && errno == EINVAL && host.userns && !recursive) {
    // In a user namespace the kernel does not take off what the host has mounted over parts of it.
    tree = k_open_tree(fd, "", TREE_CLONE | EMPTY_PATH | RECURSIVE);
    recursive = true;
    if (tree >= 0) missing_put(missing, "mount: %s shows what the host has mounted below it, which only root can leave out", from->path);
  }
  if (tree < 0) {
    fault_set(f, "mount.failed", "bind", from->path, errno);
    close(fd);
    return -1;
  }
  uint64_t attributes = ATTR_NOSUID | ATTR_NODEV | (readonly ? ATTR_READONLY : 0) | (s->flags & MOUNT_NOEXEC ? ATTR_NOEXEC : 0);
  int map = -1, result = -1;
  if (host.identity == IDENTITY_RANGE) {
    if (from->ids == IDS_SYSTEM) map = b->userns;
    else if (fstat(fd, &at) == 0) map = owner_map(b->slot, OWNER_BIND, at.st_uid, at.st_gid);
    if (map < 0) {
      fault_set(f, "launcher.failed", "make a user namespace for the owners of a source", from->path, errno);
      close(tree);
      close(fd);
      return -1;
    }
    result = k_mount_setattr(tree, recursive, attributes, map);
    if (result < 0 && !readonly) {
      char subject[PATH_LIMIT + 32];
      snprintf(subject, sizeof subject, "%s (%s)", from->path, file_system(fd, name));
      fault_set(f, "mount.ids", "map the owners of a writable directory", subject, errno);
      close(tree);
      close(fd);
      return -1;
    }
    if (result < 0) missing_put(missing, "ids: %s is on %s, which cannot map owners: its files show as nobody's", from->path, file_system(fd, name));
  }
  if (result < 0) result = k_mount_setattr(tree, recursive, attributes, -1);
  if (result < 0) {
    fault_set(f, "mount.failed", "set the attributes of a bind", from->path, errno);
    close(tree);
    tree = -1;
  }
  close(fd);
  return tree;
}

int mounts_make(struct box *b, const struct plan *p, int *trees, struct buffer *places, struct buffer *missing, struct fault *f) {
  bool plain = overlay_plain(&p->steps[0]);
  for (unsigned i = 0; i < p->step_count; i++) trees[i] = -1;
  f->code = NULL;
  for (unsigned i = 0; i < p->step_count && !f->code; i++)
    if (p->steps[i].kind == STEP_BIND) trees[i] = bind_make(b, &p->steps[i], missing, f);
  if (plain && !f->code) places_list(p, trees, places);
  for (unsigned i = 0; i < p->step_count && !f->code; i++)
    if (p->steps[i].kind == STEP_ROOT || p->steps[i].kind == STEP_OVERLAY) trees[i] = overlay_make(b, &p->steps[i], i || !plain ? NULL : places, missing, f);
  if (!f->code) return 0;
  for (unsigned i = 0; i < p->step_count; i++)
    if (trees[i] >= 0) close(trees[i]), trees[i] = -1;
  return -1;
}
