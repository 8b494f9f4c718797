// The nest and the room: two places that only the launcher sees.
//
// The NEST is a mount namespace with next to nothing in it. A new mount namespace is a copy of the one it is made from, and what is copied has to be
// got rid of again: with the host's mounts that is 25 us to copy, and a pivot_root and a lazy unmount (an RCU grace period) of 100 us to lose, for
// every box. Boxes are cloned from the nest instead, put their root over its root and change to it: what is left below is an empty read-only tmpfs.
// Its proc is there because the kernel lets a user namespace mount a proc only where a whole one is already in sight (mount_too_revealing); it belongs
// to a pid namespace whose only process is gone, so it tells nothing. Making it is also the test of whether /proc can be mounted at all.
//
// The ROOM is a tmpfs in our own view of the host, holding the templates (skeleton, /dev) that are cloned for every box: before Linux 6.15 only
// what is attached can be cloned or be a layer.
#define _GNU_SOURCE
#include "kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box.h"
#include "nest.h"

static const char *const failed = "mount.failed", *const masked = "mount /proc: parts of it are covered, as in a container";

int tmpfs_make(uint64_t bytes, uint32_t mode, uint64_t attributes) {
  char number[32];
  int fs = k_fsopen("tmpfs"), tree = -1;
  if (fs < 0) return -1;
  snprintf(number, sizeof number, "%llu", (unsigned long long)bytes);
  int ok = !bytes || k_fsconfig(fs, CONFIG_STRING, "size", number, 0) == 0;
  snprintf(number, sizeof number, "%o", mode);
  ok = ok && k_fsconfig(fs, CONFIG_STRING, "mode", number, 0) == 0 && k_fsconfig(fs, CONFIG_CREATE, NULL, NULL, 0) == 0;
  if (ok) tree = k_fsmount(fs, (unsigned)attributes);
  int error = errno;
  close(fs);
  errno = error;
  return tree;
}

struct word {
  int error;
  const char *step;  // the same program: an address is good in both
};

static _Noreturn void say(int to, const char *step, int error) {
  struct word w = {error, step};
  if (write(to, &w, sizeof w) < 0) _exit(1);
  _exit(0);
}

// In a process of its own, PID 1 of the pid namespace that its proc will belong to.
static _Noreturn void inside_nest(int to, int until) {
  char byte;
  // To the root of the namespace, should we have been started in a chroot: it is that one which has to go.
  int whole = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
  if (whole < 0 || setns(whole, CLONE_NEWNS) < 0) say(to, "open our mount namespace", errno);
  close(whole);
  if (mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) < 0) say(to, "make mounts private", errno);
  int fs = k_fsopen("proc"), proc = -1;
  bool made = fs >= 0 && k_fsconfig(fs, CONFIG_CREATE, NULL, NULL, 0) == 0;
  if (made) proc = k_fsmount(fs, ATTR_NOSUID | ATTR_NODEV | ATTR_NOEXEC);
  if (proc < 0) say(to, made && errno == EPERM ? masked : "mount /proc", errno);
  int top = tmpfs_make(1 << 20, 0755, ATTR_NOSUID | ATTR_NODEV | ATTR_NOEXEC);
  if (top < 0) say(to, "mount a tmpfs", errno);
  static const char *const shown[] = {NEST_EMPTY, NEST_FILE}, *const names[] = {NEST_PROC, NEST_STAGE, NEST_DEV, NEST_EMPTY};
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
    if (mkdirat(top, names[i], 0755) < 0) say(to, "fill the nest", errno);
  int file = openat(top, NEST_FILE, O_CREAT | O_WRONLY | O_CLOEXEC, 0444);
  if (file < 0) say(to, "fill the nest", errno);
  close(file);
  uint32_t root = identity_outer(0);
  for (unsigned i = 0; root && i < sizeof shown / sizeof *shown; i++)
    if (fchownat(top, shown[i], root, root, 0) < 0) say(to, "fill the nest", errno);
  if (k_move_mount(top, AT_FDCWD, "/") < 0 || fchdir(top) < 0) say(to, "attach the nest", errno);
  if (syscall(SYS_pivot_root, ".", ".") < 0) say(to, errno == EINVAL ? "pivot_root: the root of this host cannot be changed (an initramfs)" : "pivot_root", errno);
  if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0) say(to, "leave the host's mounts", errno);
  if (k_move_mount(proc, AT_FDCWD, "/" NEST_PROC) < 0) say(to, "attach the nest's proc", errno);
  if (k_mount_setattr(top, 0, ATTR_READONLY, -1) < 0) say(to, "make the nest read-only", errno);
  struct word good = {0};
  if (write(to, &good, sizeof good) == sizeof good && read(until, &byte, 1) < 0) _exit(1);
  _exit(0);
}

int nest_make(struct fault *f) {
  char path[40];
  int to[2], until[2];
  struct word w = {EPIPE, "make the nest"};
  host.view = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
  host.root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (host.view < 0 || host.root < 0) return fault_set(f, failed, "open our mount namespace", "/proc/self/ns/mnt", errno);
  if (pipe2(to, O_CLOEXEC) < 0 || pipe2(until, O_CLOEXEC) < 0) return fault_set(f, "launcher.failed", "pipe", NULL, errno);
  struct clone_args_v2 args = {.flags = CLONE_NEWNS | CLONE_NEWPID, .exit_signal = SIGCHLD};
  pid_t pid = k_clone3(&args);
  if (pid == 0) {
    close(to[0]), close(until[1]);
    inside_nest(to[1], until[0]);
  }
  int error = errno;
  close(to[1]), close(until[0]);
  if (pid < 0) return fault_set(f, host.userns ? "userns.unavailable" : "launcher.failed", "make a pid namespace", identity_reason(error), error);
  if (read(to[0], &w, sizeof w) != sizeof w) w = (struct word){EPIPE, "make the nest"};
  if (!w.error) {
    snprintf(path, sizeof path, "%d/ns/mnt", pid);
    host.nest = openat(host.proc, path, O_RDONLY | O_CLOEXEC);
    if (host.nest < 0) w = (struct word){errno, "open the nest"};
  }
  close(to[0]), close(until[1]);
  waitpid(pid, NULL, 0);
  return w.error ? fault_set(f, failed, w.step, w.error == EPERM && w.step != masked ? identity_reason(EPERM) : NULL, w.error) : 0;
}

int nest_enter(void) { return setns(host.nest, CLONE_NEWNS); }

void nest_leave(void) {
  int error = errno;
  // A launcher that cannot get back could open no source: nothing of it is of use any more.
  if (setns(host.view, CLONE_NEWNS) < 0 || fchdir(host.root) < 0 || chroot(".") < 0) _exit(113);
  errno = error;
}

int room_make(struct fault *f) {
  int tree = tmpfs_make(0, 0700, ATTR_NOSUID);
  if (tree < 0) return fault_set(f, host.userns ? "userns.unavailable" : failed, "mount a tmpfs", errno == EPERM ? identity_reason(EPERM) : NULL, errno);
  if (mkdirat(host.own, "room", 0700) < 0 && errno != EEXIST) return fault_set(f, "state.unusable", "make a directory", "room", errno);
  if (k_move_mount(tree, host.own, "room") < 0) return fault_set(f, failed, "attach a tmpfs", "room", errno);
  host.room = tree;
  return 0;
}

void room_end(void) {
  char path[40];
  snprintf(path, sizeof path, "/proc/self/fd/%d/room", host.own);
  umount2(path, MNT_DETACH);
  unlinkat(host.own, "room", AT_REMOVEDIR);
}

int room_attach(int tree, char name[16]) {
  static unsigned counter;
  snprintf(name, 16, "%u", counter++);
  if (mkdirat(host.room, name, 0700) < 0) return -1;
  if (k_move_mount(tree, host.room, name) == 0) return 0;
  int error = errno;
  unlinkat(host.room, name, AT_REMOVEDIR);
  errno = error;
  return -1;
}

void room_detach(const char *name) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d/%s", host.room, name);
  umount2(path, MNT_DETACH);
  unlinkat(host.room, name, AT_REMOVEDIR);
}

static int template(uint64_t attributes, const char *what, struct fault *f) {
  char name[16];
  int tree = tmpfs_make(64 << 20, 0755, attributes);
  if (tree < 0 || room_attach(tree, name) < 0) return fault_set(f, failed, "make a template", what, errno);
  return tree;
}

static int own(int top, const char *path, uint32_t uid, uint32_t gid) {
  if (host.identity == IDENTITY_SINGLE) return 0;
  return fchownat(top, path, identity_outer(uid), identity_outer(gid), AT_SYMLINK_NOFOLLOW | (*path ? 0 : AT_EMPTY_PATH));
}

static int skeleton_entry(int top, const struct skeleton_entry *e) {
  const char *path = e->target + strspn(e->target, "/");
  if (!*path) return own(top, "", e->uid, e->gid) || fchmod(top, e->mode & 01777) ? -1 : 0;
  char *copy = strdup(path), *slash = copy ? strrchr(copy, '/') : NULL;
  if (!copy) return -1;
  const char *name = slash ? slash + 1 : copy;
  int dir = top, result = -1;
  if (slash) {
    *slash = 0;
    dir = k_openat2(top, copy, O_PATH | O_DIRECTORY, 0, RESOLVE_BELOW | RESOLVE_LINKS_NO);
  }
  if (dir < 0) {
  } else if (e->entry == ENTRY_DIRECTORY) {
    result = mkdirat(dir, name, e->mode & 01777);
  } else if (e->entry == ENTRY_LINK) {
    char *to = strndup((const char *)e->bytes, e->length);
    result = to ? symlinkat(to, dir, name) : -1;
    free(to);
  } else {
    int fd = openat(dir, name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, e->mode & 0777);
    result = fd >= 0 && write(fd, e->bytes, e->length) == (ssize_t)e->length ? 0 : -1;
    if (fd >= 0) close(fd);
  }
  if (!result && (e->uid || e->gid || host.identity == IDENTITY_SUBORDINATE)) result = own(dir, name, e->uid, e->gid);
  int error = errno;
  if (dir >= 0 && dir != top) close(dir);
  free(copy);
  errno = error;
  return result;
}

int skeleton_make(const struct start *s, struct fault *f) {
  int top = template(ATTR_NOSUID | ATTR_NODEV, "skeleton", f);
  if (top < 0) return -1;
  if (own(top, "", 0, 0) < 0) return fault_set(f, failed, "make the skeleton", "/", errno);
  for (unsigned i = 0; i < s->skeleton_count; i++)
    if (skeleton_entry(top, &s->skeleton[i]) < 0) return fault_set(f, errno == ENOSYS ? "unsupported" : "argument.invalid", "make the skeleton", s->skeleton[i].target, errno);
  // Where nothing is id-mapped one clone serves all boxes; detached, so that no path of the host shows in their mountinfo.
  bool whole = overlay_by_path() || host.identity == IDENTITY_RANGE;
  host.skeleton = whole ? top : k_open_tree(top, "", TREE_CLONE | EMPTY_PATH);
  if (host.skeleton < 0 || (!whole && k_mount_setattr(host.skeleton, 0, ATTR_READONLY, -1) < 0)) return fault_set(f, failed, "clone the skeleton", NULL, errno);
  return 0;
}

static const struct { const char *name; unsigned minor_number, major_number; } nodes[] = {{"null", 3, 1}, {"zero", 5, 1}, {"full", 7, 1}, {"random", 8, 1}, {"urandom", 9, 1}, {"tty", 0, 5}};

// Without the right to make nodes, the host's own are shown, once each has proven to be the device of its name.
static int node(int top, unsigned i) {
  char path[32];
  struct stat at;
  dev_t number = makedev(nodes[i].major_number, nodes[i].minor_number);
  if (host.identity == IDENTITY_RANGE && mknodat(top, nodes[i].name, S_IFCHR | 0666, number) == 0) return 0;
  snprintf(path, sizeof path, "/dev/%s", nodes[i].name);
  int file = openat(top, nodes[i].name, O_CREAT | O_WRONLY | O_CLOEXEC, 0666), from = k_openat2(AT_FDCWD, path, O_PATH, 0, RESOLVE_LINKS_NO), tree = -1;
  int ok = file >= 0 && from >= 0 && fstat(from, &at) == 0;
  if (ok && (!S_ISCHR(at.st_mode) || at.st_rdev != number)) ok = 0, errno = ENODEV;
  ok = ok && (tree = k_open_tree(from, "", TREE_CLONE | EMPTY_PATH)) >= 0 && k_move_mount(tree, top, nodes[i].name) == 0;
  int error = errno;
  if (file >= 0) close(file);
  if (from >= 0) close(from);
  if (tree >= 0) close(tree);
  errno = error;
  return ok ? 0 : -1;
}

int dev_make(struct fault *f) {
  static const char *const links[][2] = {{"ptmx", "pts/ptmx"}, {"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"}};
  int top = template(ATTR_NOSUID | ATTR_NOEXEC, "/dev", f);
  if (top < 0) return -1;
  int ok = own(top, "", 0, 0) == 0 && mkdirat(top, "pts", 0755) == 0 && mkdirat(top, "shm", 01777) == 0 && own(top, "pts", 0, 0) == 0 && own(top, "shm", 0, 0) == 0;
  for (unsigned i = 0; ok && i < sizeof links / sizeof *links; i++) ok = symlinkat(links[i][1], top, links[i][0]) == 0 && own(top, links[i][0], 0, 0) == 0;
  if (!ok) return fault_set(f, failed, "make the template of /dev", NULL, errno);
  for (unsigned i = 0; i < sizeof nodes / sizeof *nodes; i++)
    if (node(top, i) < 0) return fault_set(f, failed, "show a device", nodes[i].name, errno);
  host.dev = top;
  return 0;
}
