// Places to mount on that the skeleton lacks, such as the path of a work directory: a layer of their own between upper and skeleton.
//
// Made here on a small tmpfs each costs a microsecond or two; made through the overlay each would cost the copying up of its parents (100 us on
// ext4), and files that only hold a mount would count as changed. The skeleton itself must not get them: they are one sandbox's, it is everybody's.
// A directory that the skeleton has too is copied with owner and mode, since the upper one of two merged directories is the one that shows.
// Only where the root lies over the skeleton alone: that is ours, so walking it here is safe. Whatever is not plain (a link on the way, something
// that an earlier mount covers) is left to root.c, which finds or makes every target anyway.
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "box.h"
#include "kernel.h"
#include "nest.h"

// "d/path\0" or "f/path\0" for each step whose target the skeleton lacks.
void places_list(const struct plan *p, const int *trees, struct buffer *out) {
  struct stat at;
  for (unsigned i = 1; i < p->step_count; i++) {
    const struct mount_step *s = &p->steps[i];
    if (s->kind == STEP_HIDE || (s->kind == STEP_BIND && trees[i] < 0)) continue;
    bool file = s->kind == STEP_BIND && fstat(trees[i], &at) == 0 && !S_ISDIR(at.st_mode);
    const char *path = s->target + strspn(s->target, "/");
    if (strstr(path, "..")) continue;
    int there = k_openat2(host.skeleton, path, O_PATH, 0, RESOLVE_BELOW | RESOLVE_LINKS_NO);
    if (there >= 0) close(there);
    else if (errno == ENOENT) {
      put_raw(out, file ? "f" : "d", 1);
      put_raw(out, path, strlen(path) + 1);
    }
  }
}

static uint32_t shown(const struct box *b, uint32_t on_disk) { return host.identity == IDENTITY_RANGE ? slot_base(b->slot) + on_disk : on_disk; }

static int give_to_root(const struct box *b, int fd) {
  uint32_t root = shown(b, identity_outer(0));
  return fchownat(fd, "", root, root, AT_EMPTY_PATH);
}

// One directory below `place`, like the one of the skeleton if there is one. Returns its descriptor; *like goes along or becomes -1.
static int directory(const struct box *b, int place, int *like, const char *name) {
  struct stat at = {.st_mode = 0755, .st_uid = identity_outer(0), .st_gid = identity_outer(0)};
  int there = *like < 0 ? -1 : openat(*like, name, O_PATH | O_NOFOLLOW | O_CLOEXEC), fd = -1;
  if (*like >= 0) close(*like);
  *like = there;
  if (there < 0 || (fstat(there, &at) == 0 && S_ISDIR(at.st_mode))) {
    bool made = mkdirat(place, name, at.st_mode & 01777) == 0;
    fd = openat(place, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && made && fchownat(fd, "", shown(b, at.st_uid), shown(b, at.st_gid), AT_EMPTY_PATH) < 0) close(fd), fd = -1;
  }
  close(place);
  return fd;
}

int places_make(const struct box *b, const struct buffer *list) {
  int top = tmpfs_make(1 << 20, 0755, ATTR_NOSUID | ATTR_NODEV);
  if (top < 0) return -1;
  if (give_to_root(b, top) < 0) return close(top), -1;
  for (size_t at = 0; at < list->used;) {
    char path[PATH_LIMIT + 1];
    bool file = list->bytes[at] == 'f';
    size_t length = strlen((const char *)list->bytes + at + 1);
    if (length < sizeof path) {
      memcpy(path, list->bytes + at + 1, length + 1);
      int place = fcntl(top, F_DUPFD_CLOEXEC, FD_FREE), like = fcntl(host.skeleton, F_DUPFD_CLOEXEC, FD_FREE);
      for (char *name = path; place >= 0 && *name;) {
        char *end = name + strcspn(name, "/"), *next = end + strspn(end, "/");
        *end = 0;
        if (*next || !file) place = directory(b, place, &like, name);
        else {
          int made = openat(place, name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0644);
          if (made >= 0 && give_to_root(b, made) < 0) unlinkat(place, name, 0);
          if (made >= 0) close(made);
        }
        name = next;
      }
      if (place >= 0) close(place);
      if (like >= 0) close(like);
    }
    at += length + 2;
  }
  return top;
}
