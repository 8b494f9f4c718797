// Opening what the host shows to a box.
//
// The engine decided on a directory by name and we open by name, later: so no symbolic link is followed anywhere on the way, and where the engine
// says which directory it saw (device and inode), another one under that name is refused. Which directories may be shown at all was fixed at START;
// whether a source lies below one is found by walking up from the opened source, never by comparing names.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "box.h"
#include "kernel.h"

const char *file_system(int fd, char name[24]) {
  static const struct { uint32_t magic; const char *name; } known[] = {
      {0x794c7630, "overlayfs"}, {0x6969, "nfs"}, {0x65735546, "fuse"}, {0x01021997, "9p"}, {0xff534d42, "cifs"}, {0xfe534d42, "smb"},
      {0x2fc12fc1, "zfs"}, {0xf15f, "ecryptfs"}, {0x786f4256, "vboxsf"}, {0x01021994, "tmpfs"}, {0xef53, "ext4"}, {0x58465342, "xfs"}, {0x9123683e, "btrfs"},
      {0x9fa0, "proc"}, {0x62656572, "sysfs"}, {0x5346544e, "ntfs"}, {0x4d44, "vfat"}, {0x73717368, "squashfs"}, {0x6a656a63, "virtiofs"}};
  struct statfs s;
  snprintf(name, 24, "unknown");
  if (fstatfs(fd, &s) < 0) return name;
  snprintf(name, 24, "%#lx", (unsigned long)s.f_type & 0xffffffff);
  for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].magic == (uint32_t)s.f_type) snprintf(name, 24, "%s", known[i].name);
  return name;
}

static bool permitted(const struct stat *at) {
  for (unsigned i = 0; i < host.permit_count; i++)
    if (host.permits[i].dev == at->st_dev && host.permits[i].ino == at->st_ino) return true;
  return false;
}

// `dir` or one above it is permitted. ".." of a directory that we hold open cannot be forged by renames: at worst it names the new place.
static bool below_permitted(int dir) {
  struct stat at, last = {0};
  int fd = fcntl(dir, F_DUPFD_CLOEXEC, FD_FREE);
  bool found = false;
  while (fd >= 0 && fstat(fd, &at) == 0) {
    if ((found = permitted(&at)) || (at.st_dev == last.st_dev && at.st_ino == last.st_ino)) break;
    last = at;
    int up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    close(fd);
    fd = up;
  }
  if (fd >= 0) close(fd);
  return found;
}

static int failed(struct fault *f, const char *path, int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR: return fault_set(f, "grant.not_found", "open a source", path, error);
    case ELOOP: return fault_set(f, "grant.refused", "a symbolic link on the way to a source", path, error);
    case ENOSYS: return fault_set(f, "unsupported", "openat2: the kernel is older than 5.6", path, error);
    default: return fault_set(f, "grant.refused", "open a source", path, error);
  }
}

int source_open(const struct source *s, struct fault *f) {
  int fd;
  struct stat at;
  if (!host.permit_count) {
    fd = k_openat2(AT_FDCWD, s->path, O_PATH, 0, RESOLVE_LINKS_NO);
    if (fd < 0) return failed(f, s->path, errno);
    if (!s->seen) return fd;
  } else {
    // A file has no "..": its directory is opened first and asked instead.
    char parent[PATH_LIMIT + 1];
    snprintf(parent, sizeof parent, "%s", s->path);
    char *slash = strrchr(parent, '/');
    const char *name = s->path + (slash - parent) + 1;
    slash[slash == parent] = 0;
    int dir = k_openat2(AT_FDCWD, parent, O_PATH | O_DIRECTORY, 0, RESOLVE_LINKS_NO);
    fd = dir < 0 ? -1 : k_openat2(dir, *name ? name : ".", O_PATH, 0, RESOLVE_LINKS_NO);
    int error = errno;
    bool good = fd >= 0 && fstat(fd, &at) == 0 && below_permitted(S_ISDIR(at.st_mode) ? fd : dir);
    if (dir >= 0) close(dir);
    if (fd < 0) return failed(f, s->path, error);
    if (!good) return close(fd), fault_set(f, "grant.refused", "a source outside of what may be shown", s->path, 0);
  }
  if (fstat(fd, &at) < 0) return close(fd), failed(f, s->path, errno);
  if (s->seen && (at.st_dev != s->dev || at.st_ino != s->ino)) return close(fd), fault_set(f, "grant.refused", "another directory under the name of a source", s->path, 0);
  return fd;
}
