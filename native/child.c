// The first process of a box, from the clone to init_run().
//
// Cloned into user, mount, pid, ipc and uts namespaces, still kernel uid 0 (or the caller) with no id mapped, which is enough for what comes first:
// control groups, then network and cgroup namespaces. A network namespace is the dearest piece of a box (0.45 ms): made here it costs the launcher
// nothing, which maps ids and makes mounts at the same time on another core. Then, as inside uid 0, /proc and /dev.
// Up to here nothing of the order is needed, so a box can be made ahead (box.c) and wait for it. Whatever goes wrong before the channel
// has arrived is kept and said on it: the engine gets one sentence in every case.
// Descriptors: `life` (FD_LIFE) from the launcher; it carries the hand-over. Everything else of the launcher is closed first, its locks above all.
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cgroup.h"
#include "kernel.h"
#include "root.h"

static int network(struct fault *f) {
  if (unshare(CLONE_NEWNET) < 0) return fault_set(f, "launcher.failed", "make a network namespace", NULL, errno);
  if (unshare(CLONE_NEWCGROUP) < 0 && errno != EINVAL) return fault_set(f, "launcher.failed", "make a cgroup namespace", NULL, errno);
  struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo) < 0) return fault_set(f, "launcher.failed", "bring loopback up", NULL, errno);
  close(fd);
  return 0;
}

static int become_root(struct fault *f) {
  if (host.identity == IDENTITY_SINGLE) return 0;  // inside 1000 is who we are; it has every capability here
  if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
    return fault_set(f, "launcher.failed", "become root of the sandbox", NULL, errno);
  return 0;
}

static void prepare(unsigned serial, bool grouped, bool unified, struct buffer *says, int *proc, int *dev, struct fault *f) {
  char go;
  if (grouped) cgroup_join(serial, unified, says);
  f->code = NULL;
  int got = network(f) ? 0 : 1;
  if (receive_with(FD_LIFE, &go, 1, dev, 1) < 0) _exit(0);  // the launcher is gone, or gave this box up
  if (!got || become_root(f)) return;
  if (*dev < 0) {
    fault_set(f, "mount.failed", "clone the template of /dev", NULL, 0);
    return;
  }
  *proc = proc_make(f);
  if (*proc >= 0) dev_complete(*dev, f);
}

static void *take(size_t length) {
  void *bytes = malloc(length ? length : 1);
  if (!bytes || receive_with(FD_LIFE, bytes, length, NULL, 0) < 0) _exit(0);
  return bytes;
}

_Noreturn void child_run(int life, unsigned serial, bool grouped, bool unified) {
  static int fds[1 + STEP_LIMIT];
  static int trees[STEP_LIMIT];
  struct fault f;
  struct handover head;
  struct plan plan;
  struct buffer says = {0};
  int proc = -1, dev = -1;
  dup3(life, FD_LIFE, O_CLOEXEC);
  close(FD_CONTROL);
  k_close_range(FD_FREE, ~0u);
  umask(022);
  prepare(serial, grouped, unified, &says, &proc, &dev, &f);

  int have = receive_with(FD_LIFE, &head, sizeof head, fds, BATCH);
  if (have < 1) _exit(0);
  uint8_t *payload = take(head.payload), *more = take(head.says), *present = take(head.steps);
  for (char byte; (unsigned)have < head.descriptors;) {
    int got = receive_with(FD_LIFE, &byte, 1, fds + have, head.descriptors - (unsigned)have);
    if (got < 1) _exit(0);
    have += got;
  }
  int channel = fds[0];
  if (f.code) refuse(channel, f.code, f.step, f.subject[0] ? f.subject : NULL, f.error);
  if (plan_parse(payload, head.payload, &plan, &f) || plan.step_count != head.steps) refuse(channel, "internal", "hand over a plan", NULL, 0);
  for (unsigned i = 0, next = 1; i < head.steps; i++) trees[i] = present[i] ? fds[next++] : -1;
  if (root_assemble(&plan, trees, proc, dev, &f)) refuse(channel, f.code, f.step, f.subject[0] ? f.subject : NULL, f.error);
  const char *name = plan.hostname ? plan.hostname : "sandlot";
  if (sethostname(name, strlen(name)) < 0) refuse(channel, errno == EPERM ? "userns.unavailable" : "launcher.failed", "set the host name", errno == EPERM ? identity_reason(EPERM) : name, errno);
  put_raw(&says, more, head.says);
  // Changing ids made /proc/self root's of the host; PID 1 has to write its oom_score_adj there before it closes that for good.
  prctl(PR_SET_DUMPABLE, 1);
  init_run(&(struct init_config){.channel = channel, .life = FD_LIFE, .identity = host.identity, .filter = plan.filter, .filter_length = plan.filter_length, .missing = says});
}
