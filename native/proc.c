// /proc and /dev of a box, put together in the nest while the launcher still makes the mounts.
//
// Most of what is dangerous in /proc belongs to host uid 0, which no box contains; but the settings that a namespace owns (hostname, net, ipc) belong to
// its root, and a box's uid 0 is that root. So /proc/sys and what else takes writes is a read-only mount over itself, for everyone and whatever the
// capabilities. Nothing is decided by access(2): bubblewrap does, and as root gets the wrong answer in a child user namespace.
#define _GNU_SOURCE
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel.h"
#include "nest.h"
#include "root.h"

static const char *const readonly[] = {"sys", "sysrq-trigger", "irq", "bus", "fs", "mtrr", "pressure", NULL};
static const char *const hidden[] = {"kcore", "keys", "key-users", "kallsyms", "timer_list", "sched_debug", "latency_stats", "acpi", "scsi", "asound", NULL};

int proc_make(struct fault *f) {
  struct stat at;
  int fs = k_fsopen("proc"), proc = -1;
  if (fs >= 0 && k_fsconfig(fs, CONFIG_CREATE, NULL, NULL, 0) == 0) proc = k_fsmount(fs, ATTR_NOSUID | ATTR_NODEV | ATTR_NOEXEC);
  if (proc < 0) return fault_set(f, "mount.failed", errno == EPERM ? "mount /proc: parts of it are covered, as in a container" : "mount /proc", NULL, errno);
  close(fs);
  if (k_move_mount(proc, AT_FDCWD, "/" NEST_STAGE) < 0) return fault_set(f, "mount.failed", "attach /proc", NULL, errno);
  for (unsigned i = 0; readonly[i]; i++) {
    int tree = k_open_tree(proc, readonly[i], TREE_CLONE);
    if (tree < 0 && errno == ENOENT) continue;
    if (tree < 0 || k_mount_setattr(tree, 0, ATTR_READONLY, -1) < 0 || k_move_mount(tree, proc, readonly[i]) < 0)
      return fault_set(f, "mount.failed", "make a part of /proc read-only", readonly[i], errno);
    close(tree);
  }
  for (unsigned i = 0; hidden[i]; i++) {
    if (fstatat(proc, hidden[i], &at, AT_SYMLINK_NOFOLLOW) < 0) continue;
    int tree = k_open_tree(AT_FDCWD, S_ISDIR(at.st_mode) ? "/" NEST_EMPTY : "/" NEST_FILE, TREE_CLONE);
    if (tree < 0 || k_move_mount(tree, proc, hidden[i]) < 0) return fault_set(f, "mount.failed", "cover a part of /proc", hidden[i], errno);
    close(tree);
  }
  return proc;
}

int dev_complete(int dev, struct fault *f) {
  if (k_move_mount(dev, AT_FDCWD, "/" NEST_DEV) < 0) return fault_set(f, "mount.failed", "attach /dev", NULL, errno);
  int fs = k_fsopen("devpts"), pts = -1;
  if (fs >= 0 && k_fsconfig(fs, CONFIG_STRING, "ptmxmode", "0666", 0) == 0 && k_fsconfig(fs, CONFIG_STRING, "mode", "0620", 0) == 0 &&
      k_fsconfig(fs, CONFIG_CREATE, NULL, NULL, 0) == 0)
    pts = k_fsmount(fs, ATTR_NOSUID | ATTR_NOEXEC);
  if (pts < 0 || k_move_mount(pts, dev, "pts") < 0) return fault_set(f, "mount.failed", "mount /dev/pts", NULL, errno);
  close(fs);
  close(pts);
  int shm = tmpfs_make(0, 01777, ATTR_NOSUID | ATTR_NODEV);
  if (shm < 0 || k_move_mount(shm, dev, "shm") < 0) return fault_set(f, "mount.failed", "mount /dev/shm", NULL, errno);
  close(shm);
  return 0;
}
