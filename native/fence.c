// What PID 1 takes from itself before it obeys anyone.
//
// Order matters: securebits and bounding set need SETPCAP, ids need SETUID and SETGID, so capabilities go last; the kernel forgets the parent-death
// signal and resets `dumpable` whenever ids or capabilities change, so those two come after that.
// What stays is SETUID, SETGID and KILL, effective in this user namespace only: to become whom a command runs as, and to end it. The bounding set
// is emptied whole, since nobody here ever gains by execve: commands could not drop it themselves without SETPCAP. With a single id there is
// nobody to become and everything may be signalled by its equal owner: nothing stays at all.
#define _GNU_SOURCE
#include "fence.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/securebits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel.h"

struct rlimit fence_files;

static int set_capabilities(uint32_t low, uint32_t high) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[2] = {{.effective = low, .permitted = low}, {.effective = high, .permitted = high}};
  return (int)syscall(SYS_capset, &header, data);
}

int fence_no_capability(void) { return set_capabilities(0, 0); }

void fence_close_except(const int *keep, int count) {
  int sorted[8];
  for (int i = 0; i < count; i++) {
    int at = i;
    for (; at > 0 && sorted[at - 1] > keep[i]; at--) sorted[at] = sorted[at - 1];
    sorted[at] = keep[i];
  }
  unsigned from = 3;
  for (int i = 0; i < count; i++) {
    if (sorted[i] < 0 || (unsigned)sorted[i] < from) continue;
    if ((unsigned)sorted[i] > from) syscall(NR_CLOSE_RANGE, from, (unsigned)sorted[i] - 1, 0);
    from = (unsigned)sorted[i] + 1;
  }
  syscall(NR_CLOSE_RANGE, from, ~0u, 0);
}

// 0, 1 and 2 are /dev/null: a number below 3 is always stdio, and nothing we print by mistake reaches anyone.
static void descriptors(struct init_config *config) {
  int *own[2] = {&config->channel, &config->life};
  for (int i = 0; i < 2; i++)
    if (*own[i] >= 0 && *own[i] < 3) *own[i] = fcntl(*own[i], F_DUPFD_CLOEXEC, 3);
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) refuse(config->channel, "launcher.failed", "open", "/dev/null", errno);
  for (int fd = 0; fd < 3; fd++)
    if (fd != null) dup2(null, fd);
  fence_close_except((int[]){config->channel, config->life}, 2);
  for (int i = 0; i < 2; i++) {
    fcntl(*own[i], F_SETFD, FD_CLOEXEC);
    fcntl(*own[i], F_SETFL, fcntl(*own[i], F_GETFL) | O_NONBLOCK);
  }
}

void fence_short_turns(void) {
  if (syscall(SYS_sched_getscheduler, 0) != 0) return;  // whoever chose another policy than the ordinary one keeps it
  struct { uint32_t size, policy; uint64_t flags; int32_t nice; uint32_t priority; uint64_t runtime, deadline, period; } turns = {
      .size = sizeof turns, .flags = 1 /* SCHED_FLAG_RESET_ON_FORK */, .runtime = 100000 /* ns, the least there is */,
      .nice = getpriority(PRIO_PROCESS, 0)};
  syscall(SYS_sched_setattr, 0, &turns, 0);
}

// Nothing of the caller's is left in memory a guest could be shown, in signals or in the mask of files.
static void habits(void) {
  clearenv();
  umask(022);
  if (chdir("/") < 0) _exit(114);
  struct sigaction normal = {.sa_handler = SIG_DFL};
  for (int s = 1; s <= 64; s++) sigaction(s, &normal, NULL);
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL);
  // Many execs have many pipes. Commands get their old soft limit back (supervise.c).
  getrlimit(RLIMIT_NOFILE, &fence_files);
  setrlimit(RLIMIT_NOFILE, &(struct rlimit){fence_files.rlim_max, fence_files.rlim_max});
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  prctl(PR_SET_NAME, "init");
  fence_short_turns();
}

static void identity(const struct init_config *config) {
  const int own = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
  const uint32_t set_id = 1u << CAP_SETUID | 1u << CAP_SETGID;
  bool several = config->identity != IDENTITY_SINGLE;
  const char *step = "securebits";
  if (prctl(PR_SET_SECUREBITS, own | SECBIT_KEEP_CAPS) < 0) goto failed;
  step = "capability bounding set";
  for (int cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++)
    if (prctl(PR_CAPBSET_DROP, cap) < 0) goto failed;
  step = "ids";
  // By system call: the library's wrappers are for threads, which we have none of.
  if (several && syscall(SYS_setgroups, 0, NULL) < 0) goto failed;
  int id = several ? INSIDE_RESERVED : INSIDE_USER;
  if (syscall(SYS_setresgid, id, id, id) < 0 || syscall(SYS_setresuid, id, id, id) < 0) goto failed;
  step = "securebits";
  // Leaving uid 0 emptied the effective set and KEEP_CAPS kept the permitted one; SETPCAP once more locks KEEP_CAPS off.
  if (set_capabilities(set_id | 1u << CAP_KILL | 1u << CAP_SETPCAP, 0) < 0) goto failed;
  if (prctl(PR_SET_SECUREBITS, own | SECBIT_KEEP_CAPS_LOCKED) < 0) goto failed;
  step = "capabilities";
  if (set_capabilities(several ? set_id | 1u << CAP_KILL : 0, 0) < 0) goto failed;
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  step = "no_new_privs";
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) goto failed;
  step = "dumpable";
  if (prctl(PR_SET_DUMPABLE, 0) < 0) goto failed;
  step = "parent-death signal";
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) goto failed;
  return;
failed:
  refuse(config->channel, "launcher.failed", step, NULL, errno);
}

int fence_self(struct init_config *config) {
  descriptors(config);
  habits();
  syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);  // a kernel without keyrings has none to leak
  setsid();                                                // fails only where we lead one already
  // All of /proc/self of a non-dumpable process is root's, and changing ids has made us one. Nobody is here yet who could look at us.
  prctl(PR_SET_DUMPABLE, 1);
  int oom = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
  identity(config);
  return oom;
}
