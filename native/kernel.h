// System calls that a C library of 2020 has no wrapper for, and their constants: our own names, so that no header's edition matters.
#ifndef SANDLOT_KERNEL_H
#define SANDLOT_KERNEL_H

#include <fcntl.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

// The same numbers on x86-64 and arm64.
#define NR_PIDFD_SEND_SIGNAL 424
#define NR_OPEN_TREE 428
#define NR_MOVE_MOUNT 429
#define NR_FSOPEN 430
#define NR_FSCONFIG 431
#define NR_FSMOUNT 432
#define NR_CLONE3 435
#define NR_CLOSE_RANGE 436
#define NR_OPENAT2 437
#define NR_MOUNT_SETATTR 442

#define RESOLVE_XDEV_NO 0x01
#define RESOLVE_MAGIC_NO 0x02
#define RESOLVE_LINKS_NO 0x04
#define RESOLVE_BELOW 0x08
#define RESOLVE_ROOT 0x10

#define TREE_CLONE 1
#define EMPTY_PATH 0x1000
#define RECURSIVE 0x8000
#define FROM_EMPTY_PATH 4
#define TO_EMPTY_PATH 0x40

#define ATTR_READONLY 0x01
#define ATTR_NOSUID 0x02
#define ATTR_NODEV 0x04
#define ATTR_NOEXEC 0x08
#define ATTR_IDMAP 0x00100000

#define CONFIG_FLAG 0
#define CONFIG_STRING 1
#define CONFIG_FD 5
#define CONFIG_CREATE 6

#define CLONE_CLEAR_HANDLERS 0x100000000ULL
#define CLONE_CGROUP 0x200000000ULL
#define CLONE_PID_FD 0x1000

#define P_PID_FD 3

struct open_how_v0 {
  uint64_t flags, mode, resolve;
};

struct mount_attr_v0 {
  uint64_t set, clear, propagation, userns;
};

struct clone_args_v2 {
  uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};

static inline int k_openat2(int dir, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve) {
  struct open_how_v0 how = {flags | O_CLOEXEC, mode, resolve};
  return (int)syscall(NR_OPENAT2, dir, path, &how, sizeof how);
}

static inline int k_open_tree(int dir, const char *path, unsigned flags) { return (int)syscall(NR_OPEN_TREE, dir, path, flags | O_CLOEXEC); }

static inline int k_move_mount(int from, int to, const char *path) {
  return (int)syscall(NR_MOVE_MOUNT, from, "", to, path, FROM_EMPTY_PATH | (*path ? 0 : TO_EMPTY_PATH));
}

static inline int k_fsopen(const char *type) { return (int)syscall(NR_FSOPEN, type, 1 /* close on exec */); }

static inline int k_fsconfig(int fs, unsigned command, const char *key, const char *value, int fd) {
  return (int)syscall(NR_FSCONFIG, fs, command, key, value, fd);
}

static inline int k_fsmount(int fs, unsigned attributes) { return (int)syscall(NR_FSMOUNT, fs, 1 /* close on exec */, attributes); }

static inline int k_mount_setattr(int fd, int recursive, uint64_t set, int userns) {
  struct mount_attr_v0 attr = {.set = set | (userns >= 0 ? ATTR_IDMAP : 0), .userns = userns >= 0 ? (uint64_t)userns : 0};
  return (int)syscall(NR_MOUNT_SETATTR, fd, "", EMPTY_PATH | (recursive ? RECURSIVE : 0), &attr, sizeof attr);
}

static inline pid_t k_clone3(struct clone_args_v2 *args) { return (pid_t)syscall(NR_CLONE3, args, sizeof *args); }

static inline int k_close_range(unsigned from, unsigned to) { return (int)syscall(NR_CLOSE_RANGE, from, to, 0); }

static inline int k_pidfd_kill(int pidfd, int signal) { return (int)syscall(NR_PIDFD_SEND_SIGNAL, pidfd, signal, NULL, 0); }

#endif
