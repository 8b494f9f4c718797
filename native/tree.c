// Walking trees that guests have written, safely.
//
// The process that does it sees nothing but the directory of all boxes (chroot), keeps the capabilities over files and no other, and cannot gain any.
// Every directory is opened below its parent's descriptor with O_NOFOLLOW and across no mount, so a name never leads anywhere but down. A tree can be
// deeper than any path and than all descriptors we may have: removal moves what lies LEVELS deep up to the top and goes on there (the
// names at the top are ours), counting stops at DEEPEST. Files are unlinked, never opened: a FIFO or a device costs nothing.
#define _GNU_SOURCE
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel.h"

#define LEVELS 40
#define DEEPEST 1000
#define BELOW (RESOLVE_BELOW | RESOLVE_LINKS_NO | RESOLVE_XDEV_NO)

struct entry_head {
  uint64_t inode;
  int64_t offset;
  uint16_t length;
  uint8_t type;
  char name[];
};

int tree_confine(int root, uint32_t more) {
  struct { uint32_t version; int pid; } header = {0x20080522, 0};
  struct { uint32_t effective, permitted, inheritable; } data[2];
  if (fchdir(root) < 0 || chroot(".") < 0 || syscall(SYS_capget, &header, data) < 0) return -1;
  uint32_t keep = data[0].permitted & (1u << 1 | 1u << 2 | 1u << 3 | more);  // DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER; the root of a container has not all of them
  data[0].effective = data[0].permitted = keep;
  data[0].inheritable = data[1].effective = data[1].permitted = data[1].inheritable = 0;
  if (syscall(SYS_capset, &header, data) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return -1;
  return prctl(PR_SET_DUMPABLE, 0);
}

static int descend(int dir, const char *name) { return k_openat2(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, BELOW); }

static bool is_dots(const char *name) { return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2])); }

static bool is_directory(int dir, const struct entry_head *e) {
  struct stat at;
  if (e->type != DT_UNKNOWN) return e->type == DT_DIR;
  return fstatat(dir, e->name, &at, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(at.st_mode);
}

struct removal {
  int top;
  unsigned moved;
  int error;
};

// Empties `dir`. Entries are read and removed until a whole pass finds nothing that can go.
static void empty(struct removal *r, int dir, int level) {
  char *bytes = malloc(32768);
  if (!bytes) {
    r->error = ENOMEM;
    return;
  }
  for (bool progress = true; progress;) {
    progress = false;
    lseek(dir, 0, SEEK_SET);
    for (long got; (got = syscall(SYS_getdents64, dir, bytes, 32768)) > 0;) {
      for (long at = 0; at < got;) {
        struct entry_head *e = (struct entry_head *)(bytes + at);
        at += e->length;
        if (is_dots(e->name)) continue;
        if (!is_directory(dir, e)) {
          if (unlinkat(dir, e->name, 0) == 0) progress = true;
          else r->error = errno;
          continue;
        }
        if (unlinkat(dir, e->name, AT_REMOVEDIR) == 0) {
          progress = true;
          continue;
        }
        int sub = level < LEVELS ? descend(dir, e->name) : -1;
        if (sub >= 0) {
          empty(r, sub, level + 1);
          close(sub);
          if (unlinkat(dir, e->name, AT_REMOVEDIR) == 0) progress = true;
          else r->error = errno;
        } else if (level >= LEVELS) {
          char name[24];
          snprintf(name, sizeof name, ".deep%u", r->moved++);
          if (renameat(dir, e->name, r->top, name) == 0) progress = true;
          else r->error = errno;
        } else r->error = errno;
      }
    }
  }
  free(bytes);
}

int tree_remove(int dir, const char *name) {
  int top = descend(dir, name);
  if (top < 0 && errno == ENOENT) return 0;
  if (top < 0) return -1;
  struct removal r = {.top = top};
  do {
    r.moved = 0;
    r.error = 0;
    empty(&r, top, 0);
  } while (r.moved && !r.error);
  close(top);
  if (unlinkat(dir, name, AT_REMOVEDIR) == 0) return 0;
  if (r.error) errno = r.error;
  return -1;
}

// One level of a count: its descriptor and what has been read of it.
struct level {
  int fd;
  long at, got;
  bool any;
  _Alignas(8) char bytes[2048];
};

int tree_count(int dir, uint64_t *count) {
  struct level **levels = calloc(DEEPEST, sizeof *levels);
  int depth = 0, error = 0;
  *count = 0;
  if (!levels || !(levels[0] = calloc(1, sizeof **levels))) return errno = ENOMEM, -1;
  levels[0]->fd = descend(dir, ".");
  if (levels[0]->fd < 0) error = errno, depth = -1;
  while (depth >= 0) {
    struct level *l = levels[depth];
    if (l->at >= l->got) {
      l->at = 0;
      l->got = syscall(SYS_getdents64, l->fd, l->bytes, sizeof l->bytes);
      if (l->got > 0) continue;
      if (!l->any && depth > 0) ++*count;
      close(l->fd);
      free(l);
      levels[depth--] = NULL;
      continue;
    }
    struct entry_head *e = (struct entry_head *)(l->bytes + l->at);
    l->at += e->length;
    if (is_dots(e->name)) continue;
    l->any = true;
    int sub = is_directory(l->fd, e) && depth + 1 < DEEPEST ? descend(l->fd, e->name) : -1;
    struct level *next = sub >= 0 ? calloc(1, sizeof *next) : NULL;
    if (!next) {
      if (sub >= 0) close(sub);
      ++*count;  // a file; or a directory that cannot be looked into, or has gone meanwhile
      continue;
    }
    next->fd = sub;
    levels[++depth] = next;
  }
  free(levels[0]);
  free(levels);
  errno = error;
  return error ? -1 : 0;
}
