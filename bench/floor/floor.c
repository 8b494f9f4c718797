// What the kernel itself costs: the floor under every figure of `bench start`. One process, no library, no protocol, nothing that is not needed to get one
// dynamic program to run in namespaces of its own on an overlay and its output back. It fences nothing; never use it as a sandbox.
//
//   floor whole  DIR ROOT PROGRAM...   clone into seven new namespaces, id map, overlay, pivot_root, exec with stdout on a pipe, read to the end, wait
//   floor read   DIR ROOT PROGRAM...   the same without the wait, in which the kernel takes the namespaces down again
//   floor create DIR ROOT              the same up to the point where a program could be started
//   floor exec   PROGRAM...            vfork, exec, wait on the host: the floor of an exec in a sandbox that is already there
//   floor filter FILE                  load the system-call filter in FILE
//
// DIR is an empty directory for uppers, ROOT the lower layer. For every line `count pause` on stdin it makes `count` runs, `pause` milliseconds before each,
// and prints the microseconds of each on a line. Every run is timed by the process that a launcher would be; removing the directories is not timed.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sched.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NAMESPACES (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET | CLONE_NEWCGROUP)
#define RANGE_BASE 0x10000000
#define INSIDE 1000

static char *environment[] = {"PATH=/usr/local/bin:/usr/bin:/bin", NULL};
static int null_fd;

static void die(const char *step) {
  fprintf(stderr, "floor: %s: %s\n", step, strerror(errno));
  _exit(1);
}

static void must(int holds, const char *step) {
  if (!holds) die(step);
}

static double now_us(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static void put(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  must(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), path);
  close(fd);
}

static int overlay(const char *root, int user) {
  int fs = syscall(SYS_fsopen, "overlay", 1 /* FSOPEN_CLOEXEC */);
  must(fs >= 0, "fsopen");
  const char *pairs[][2] = {{"lowerdir", root}, {"upperdir", "upper"}, {"workdir", "work"}};
  for (int i = 0; i < 3; i++) must(syscall(SYS_fsconfig, fs, 1 /* FSCONFIG_SET_STRING */, pairs[i][0], pairs[i][1], 0) == 0, pairs[i][0]);
  if (user) must(syscall(SYS_fsconfig, fs, 0 /* FSCONFIG_SET_FLAG */, "userxattr", NULL, 0) == 0, "userxattr");
  must(syscall(SYS_fsconfig, fs, 6 /* FSCONFIG_CMD_CREATE */, NULL, NULL, 0) == 0, "create overlay");
  int tree = syscall(SYS_fsmount, fs, 1 /* FSMOUNT_CLOEXEC */, 0);
  must(tree >= 0, "fsmount");
  close(fs);
  return tree;
}

// Everything in the new namespaces. As root the parent has made the overlay and writes the map; an ordinary user does both in here.
static void inside(int user, uid_t uid, gid_t gid, int go, int tree, const char *root, int out, char **program) {
  char map[64];
  if (user) {
    put("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "%d %u 1", INSIDE, uid);
    put("/proc/self/uid_map", map);
    snprintf(map, sizeof map, "%d %u 1", INSIDE, gid);
    put("/proc/self/gid_map", map);
    tree = overlay(root, 1);
  } else {
    char byte;
    must(read(go, &byte, 1) == 1, "wait for the map");
  }
  must(syscall(SYS_move_mount, tree, "", AT_FDCWD, "mnt", 4 /* MOVE_MOUNT_F_EMPTY_PATH */) == 0, "move_mount");
  must(chdir("mnt") == 0 && syscall(SYS_pivot_root, ".", ".") == 0, "pivot_root");
  must(umount2(".", MNT_DETACH) == 0 && chdir("/") == 0, "leave the old root");
  if (!user) must(setresgid(INSIDE, INSIDE, INSIDE) == 0 && setresuid(INSIDE, INSIDE, INSIDE) == 0, "setresuid");
  if (program == NULL) {
    must(write(out, "", 1) == 1, "say ready");
    _exit(0);
  }
  must(dup2(out, 1) == 1, "dup2");
  execve(program[0], program, environment);
  die(program[0]);
}

static double sandbox(const char *root, char **program, int wait) {
  uid_t uid = geteuid();
  gid_t gid = getegid();
  int user = uid != 0, out[2], go[2] = {-1, -1}, tree = -1;
  double start = now_us();
  must(mkdir("upper", 0755) == 0 && mkdir("work", 0755) == 0, "mkdir");
  must(pipe2(out, O_CLOEXEC) == 0, "pipe");
  if (!user) {
    must(pipe2(go, O_CLOEXEC) == 0, "pipe");
    tree = overlay(root, 0);
  }
  struct clone_args args = {.flags = NAMESPACES, .exit_signal = SIGCHLD};
  pid_t child = syscall(SYS_clone3, &args, sizeof args);
  must(child >= 0, "clone3");
  if (child == 0) inside(user, uid, gid, go[0], tree, root, out[1], program);
  close(out[1]);
  if (!user) {
    char path[64], map[64];
    snprintf(map, sizeof map, "0 %d 65536", RANGE_BASE);
    snprintf(path, sizeof path, "/proc/%d/uid_map", child);
    put(path, map);
    snprintf(path, sizeof path, "/proc/%d/gid_map", child);
    put(path, map);
    must(write(go[1], "", 1) == 1, "let go");
    close(go[0]), close(go[1]), close(tree);
  }
  char buffer[4096];
  ssize_t got, total = 0;
  while ((got = read(out[0], buffer, sizeof buffer)) > 0) {
    total += got;
    if (program == NULL) break;
  }
  double end = now_us();
  int status;
  must(waitpid(child, &status, 0) == child, "wait");
  if (wait) end = now_us();
  close(out[0]);
  if (status != 0 || (program == NULL && total != 1)) fprintf(stderr, "floor: the program ended with status 0x%x\n", status), _exit(1);
  rmdir("work/work"), rmdir("work/index");
  must(rmdir("work") == 0 && rmdir("upper") == 0, "rmdir");
  return end - start;
}

static double execute(char **program) {
  double start = now_us();
  pid_t child = vfork();
  must(child >= 0, "vfork");
  if (child == 0) {
    dup2(null_fd, 1);
    execve(program[0], program, environment);
    _exit(127);
  }
  int status;
  must(waitpid(child, &status, 0) == child, "wait");
  double end = now_us();
  if (status != 0) fprintf(stderr, "floor: the program ended with status 0x%x\n", status), _exit(1);
  return end - start;
}

// Loading walks the program once for every system call number of every architecture and translates it to machine code.
static double load(const struct sock_fprog *filter) {
  int out[2];
  must(pipe2(out, O_CLOEXEC) == 0, "pipe");
  pid_t child = fork();
  must(child >= 0, "fork");
  if (child == 0) {
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
    double start = now_us();
    must(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, filter) == 0, "seccomp");
    double took = now_us() - start;
    must(write(out[1], &took, sizeof took) == sizeof took, "report");
    _exit(0);
  }
  close(out[1]);
  double took = 0;
  must(read(out[0], &took, sizeof took) == sizeof took, "read the report");
  close(out[0]);
  must(waitpid(child, NULL, 0) == child, "wait");
  return took;
}

int main(int argc, char **argv) {
  const char *phase = argc > 1 ? argv[1] : "";
  int whole = strcmp(phase, "whole") == 0 && argc > 4, output = strcmp(phase, "read") == 0 && argc > 4, create = strcmp(phase, "create") == 0 && argc == 4;
  int exec = strcmp(phase, "exec") == 0 && argc > 2, filter = strcmp(phase, "filter") == 0 && argc == 3;
  if (!whole && !output && !create && !exec && !filter) {
    fprintf(stderr, "usage: floor whole|read DIR ROOT PROGRAM... | create DIR ROOT | exec PROGRAM... | filter FILE\n");
    return 2;
  }
  static struct sock_filter code[4096];
  struct sock_fprog program = {.filter = code};
  if (filter) {
    int fd = open(argv[2], O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, code, sizeof code);
    must(size > 0, argv[2]);
    program.len = size / sizeof code[0];
  }
  null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
  must(null_fd >= 0, "/dev/null");
  if (whole || output || create) {
    must(chdir(argv[2]) == 0, argv[2]);
    must(mkdir("mnt", 0755) == 0 || errno == EEXIST, "mkdir mnt");
  }
  char line[64];
  while (fgets(line, sizeof line, stdin) != NULL) {
    long count = 0, pause_ms = 0;
    if (sscanf(line, "%ld %ld", &count, &pause_ms) < 1) return 2;
    for (long i = 0; i < count; i++) {
      if (pause_ms > 0) {
        struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000};
        nanosleep(&pause, NULL);
      }
      double took = whole || output ? sandbox(argv[3], argv + 4, whole) : create ? sandbox(argv[3], NULL, 0) : exec ? execute(argv + 2) : load(&program);
      printf("%.1f\n", took);
    }
    fflush(stdout);
  }
  return 0;
}
