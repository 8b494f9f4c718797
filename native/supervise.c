// The supervisor: one process between PID 1 and a command.
//
// It is a child subreaper, so whatever the command forks, orphans and moves to other sessions stays below it, and "nothing is left" is the kernel's
// word ECHILD. It runs under the ids of PID 1 and under the filter of commands, which is inherited and so costs nothing when one starts.
// The first process shares its memory until execve (vfork: no page tables to copy) and writes what failed straight into the slip.
// The slip tells PID 1 everything, and always before the step that would lose it: an exit is noted before it is reaped.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fence.h"
#include "kernel.h"
#include "supervisor.h"

#define STACK_SIZE (64u << 10)
#define PATH_LENGTH 4096
#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

#if defined(__SANITIZE_ADDRESS__)
#define ON_OWN_STACK __attribute__((no_sanitize_address))
#else
#define ON_OWN_STACK
#endif

struct command {
  const struct duty *duty;
  char **argv, **env;  // argv[-1] is free, for the shell of a script without interpreter
  const char *path, *cwd;
  uint32_t uid, gid;
  gid_t *groups;
  size_t group_count;
  bool wants_stdin, merges;
};

static void *allocate(size_t size) {
  void *memory = malloc(size);
  if (!memory) _exit(112);
  return memory;
}

// PID 1 has checked every field.
static void read_command(struct command *c, const uint8_t *payload, size_t length) {
  size_t arguments = 0, variables = 0, groups = 0;
  struct field f;
  for (size_t at = 0; field_next(payload, length, &at, &f) > 0;) {
    arguments += f.tag == TAG_ARGV;
    variables += f.tag == TAG_ENV;
    groups += f.tag == TAG_GROUP;
  }
  char *text = allocate(length + 1);  // every text with its NUL is shorter than its field
  c->argv = (char **)allocate((arguments + 3) * sizeof(char *)) + 1;
  c->env = allocate((variables + 1) * sizeof(char *));
  c->groups = allocate((groups + 1) * sizeof(gid_t));
  c->path = DEFAULT_PATH;
  c->cwd = "/";
  c->uid = c->gid = INSIDE_USER;
  arguments = variables = 0;
  for (size_t at = 0; field_next(payload, length, &at, &f) > 0;) {
    char *here = text;
    if (f.tag == TAG_ARGV || f.tag == TAG_ENV || f.tag == TAG_CWD) {
      if (f.length) memcpy(text, f.bytes, f.length);
      text[f.length] = 0;
      text += f.length + 1;
    }
    switch (f.tag) {
      case TAG_ARGV: c->argv[arguments++] = here; break;
      case TAG_ENV:
        c->env[variables++] = here;
        if (!strncmp(here, "PATH=", 5)) c->path = here + 5;
        break;
      case TAG_CWD: c->cwd = here; break;
      case TAG_UID: c->uid = field_u32(&f); break;
      case TAG_GID: c->gid = field_u32(&f); break;
      case TAG_GROUP: c->groups[c->group_count++] = field_u32(&f); break;
      case TAG_STDIN: c->wants_stdin = field_u32(&f) == 1; break;
      case TAG_MERGE: c->merges = field_u32(&f) == 1; break;
      default: break;
    }
  }
  c->argv[arguments] = NULL;
  c->env[variables] = NULL;
}

// A file the kernel does not know how to start is a script for /bin/sh, as for execvp and every shell.
ON_OWN_STACK static void execute(const struct command *c, char *file) {
  execve(file, c->argv, c->env);
  if (errno != ENOEXEC) return;
  char *name = c->argv[0];
  c->argv[-1] = (char *)"sh";
  c->argv[0] = file;
  execve("/bin/sh", c->argv - 1, c->env);
  c->argv[0] = name;
}

// Looks along PATH as execvp does, with the command's own PATH and rights. Returns with errno when nothing could be started.
ON_OWN_STACK static void search(const struct command *c, char *candidate) {
  const char *name = c->argv[0];
  size_t name_length = strlen(name);
  if (!name_length) {
    errno = ENOENT;
    return;
  }
  if (strchr(name, '/')) {
    execute(c, (char *)name);
    return;
  }
  bool denied = false;
  errno = ENOENT;
  for (const char *at = c->path;;) {
    size_t length = strcspn(at, ":");
    if (length + name_length + 2 <= PATH_LENGTH) {
      memcpy(candidate, at, length);
      if (length) candidate[length] = '/';  // an empty element is the current directory
      memcpy(candidate + length + (length > 0), name, name_length + 1);
      execute(c, candidate);
      if (errno == EACCES) denied = true;
      else if (errno != ENOENT && errno != ENOTDIR && errno != ESTALE && errno != ENODEV && errno != ETIMEDOUT) return;
    }
    if (!at[length]) break;
    at += length + 1;
  }
  errno = denied ? EACCES : ENOENT;
}

ON_OWN_STACK static _Noreturn void failed(struct slip *slip, enum slip_step step, int error) {
  slip->error = error;
  slip->step = step;
  _exit(127);
}

// The first process, in the supervisor's memory. Everything it does before execve that can be refused is done as the user it will be.
ON_OWN_STACK static int first(void *argument) {
  const struct command *c = argument;
  const struct duty *d = c->duty;
  struct slip *slip = d->slip;
  char buffer[PATH_LENGTH];
  slip->pid = (int)syscall(SYS_getpid);
  int waiting = SLIP_WAITING;
  if (!atomic_compare_exchange_strong(&slip->state, &waiting, SLIP_BORN)) _exit(0);  // our supervisor was killed and PID 1 has begun anew
  setsid();
  if (c->wants_stdin) dup2(d->ends[0], 0);
  dup2(d->ends[1], 1);
  dup2(c->merges ? d->ends[1] : d->ends[2], 2);
  // With a single id setgroups is refused for good, and the caller's groups cannot be dropped; its own group it has already.
  bool single = d->config->identity == IDENTITY_SINGLE;
  for (uint32_t i = 0; single && i < c->group_count; i++)
    if (c->groups[i] != INSIDE_USER) failed(slip, FAILED_USER, EPERM);
  if (!single && syscall(SYS_setgroups, c->group_count, c->groups) < 0) failed(slip, FAILED_USER, errno);
  // Whoever has the reserved id could kill supervisors.
  if (!single && (c->uid == INSIDE_RESERVED || c->gid == INSIDE_RESERVED)) failed(slip, FAILED_USER, EPERM);
  if (syscall(SYS_setresgid, c->gid, c->gid, c->gid) < 0 || syscall(SYS_setresuid, c->uid, c->uid, c->uid) < 0) failed(slip, FAILED_USER, errno);
  if (fence_no_capability() < 0) failed(slip, FAILED_USER, errno);
  if (!c->wants_stdin) {  // opened anew: an open file has flags and locks that would be shared with other commands
    close(0);
    if (open("/dev/null", O_RDONLY) != 0) failed(slip, FAILED_FORK, errno);
  }
  if (c->cwd[0] != '/') failed(slip, FAILED_CWD, EINVAL);
  if (chdir(c->cwd) < 0) failed(slip, FAILED_CWD, errno);
  // A directory outside the root, reached through a descriptor in /proc, is "(unreachable)/...": path_resolution(7) forgets, getcwd(2) knows.
  long cwd = syscall(SYS_getcwd, buffer, sizeof buffer);
  if (cwd < 0 || buffer[0] != '/') failed(slip, FAILED_CWD, cwd < 0 ? errno : ENOENT);
  syscall(NR_CLOSE_RANGE, 3u, ~0u, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  search(c, buffer);
  failed(slip, FAILED_EXEC, errno);
}

static void tell(const struct duty *d) { send(d->wire, "!", 1, MSG_DONTWAIT | MSG_NOSIGNAL); }

static _Noreturn void leave(const struct duty *d, int state) {
  d->slip->state = state;
  tell(d);
  _exit(0);
}

static _Noreturn void unstarted(const struct duty *d, enum slip_step step, int error) {
  d->slip->error = error;
  d->slip->step = step;
  leave(d, SLIP_UNSTARTED);
}

static void note(struct result *r, const siginfo_t *info, const struct rusage *use) {
  r->code = info->si_code;
  r->status = info->si_status;
  r->user_us = (uint64_t)use->ru_utime.tv_sec * 1000000 + (uint64_t)use->ru_utime.tv_usec;
  r->system_us = (uint64_t)use->ru_stime.tv_sec * 1000000 + (uint64_t)use->ru_stime.tv_usec;
  r->peak_bytes = (uint64_t)use->ru_maxrss * 1024;
}

int wait_any(siginfo_t *info, int options, struct result *r) {
  struct rusage use;
  for (;;) {
    info->si_pid = 0;
    // waitid(3) leaves out the fifth argument, which is the usage of this very process; with WNOWAIT it is known before the process is reaped.
    long got = syscall(SYS_waitid, P_ALL, 0, info, options | __WALL, &use);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0 && info->si_pid) note(r, info, &use);
    return (int)got;
  }
}

static _Noreturn void reap(const struct duty *d, pid_t command) {
  siginfo_t info;
  struct result result;
  while (wait_any(&info, WEXITED | WNOWAIT, &result) == 0) {
    bool is_command = info.si_pid == command && d->slip->state == SLIP_STARTED;
    if (is_command) {
      d->slip->result = result;
      d->slip->state = SLIP_EXITED;
    }
    waitid(P_PID, (id_t)info.si_pid, &info, WEXITED | __WALL);
    if (!is_command) continue;
    // Mostly nothing is left: then PID 1 is woken once, for both.
    if (wait_any(&info, WEXITED | WNOWAIT | WNOHANG, &result) < 0) break;
    tell(d);
  }
  leave(d, SLIP_ENDED);
}

static int load_filter(const struct init_config *config) {
  if (!config->filter) return 0;
  struct sock_fprog program = {
      .len = (unsigned short)(config->filter_length / sizeof(struct sock_filter)),
      .filter = (struct sock_filter *)(uintptr_t)config->filter,
  };
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 ? errno : 0;
}

_Noreturn void supervise(const struct duty *d) {
  static uint8_t request[REQUEST_LIMIT];
  static _Alignas(16) uint8_t stack[STACK_SIZE];
  fence_close_except((int[]){d->wire, d->ends[0], d->ends[1], d->ends[2]}, 4);
  prctl(PR_SET_NAME, "supervisor");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  fence_short_turns();
  setrlimit(RLIMIT_NOFILE, &fence_files);
  int refused = load_filter(d->config);  // ahead of time: the filter is inherited, and nothing below needs what it refuses
  struct command c = {.duty = d};
  if (d->request) {
    read_command(&c, d->request, d->length);
  } else {
    // After a fork the first write to a page is a fault and a copy: here nobody waits for it.
    for (size_t at = 0; at < 4 * 4096; at += 4096) ((volatile uint8_t *)stack)[STACK_SIZE - 1 - at] = 0;
    ((volatile uint8_t *)request)[0] = 0;
    free(memset(allocate(REQUEST_LIMIT / 8), 0, REQUEST_LIMIT / 8));
    ssize_t got;
    do got = recv(d->wire, request, sizeof request, 0);
    while (got < 0 && errno == EINTR);
    if (got <= 0) _exit(0);
    read_command(&c, request, (size_t)got);
  }
  if (refused) unstarted(d, FAILED_FILTER, refused);
  pid_t command = clone(first, stack + STACK_SIZE, CLONE_VM | CLONE_VFORK | SIGCHLD, &c);
  if (command < 0) unstarted(d, FAILED_FORK, errno);
  for (int i = 0; i < 3; i++) close(d->ends[i]);
  if (d->slip->step) {
    waitid(P_PID, (id_t)command, NULL, WEXITED | __WALL);
    leave(d, SLIP_UNSTARTED);
  }
  d->slip->state = SLIP_STARTED;
  tell(d);
  reap(d, command);
}
