// Who the launcher is, and who its boxes may be.
//
//   range        uid 0 with CAP_SYS_ADMIN: each box gets 65,536 ids that exist nowhere else; sources are id-mapped into them.
//   subordinate  anyone with newuidmap and 65,534 subordinate ids: ONE user namespace, entered here, in which 0 is the caller and 1.. are those
//                ids. newuidmap costs 2.4 ms: so once, not for every box.
//   single       anyone else: a user namespace with the caller alone.
//   uid 0 of a user namespace that somebody else made (a rootless container) is in one of the last two already.
//
// Boxes get a user namespace below that. Host uid 0 is never in it: in range mode the map starts at the range, elsewhere 0 here is a caller who
// is not root; for a root without CAP_SYS_ADMIN there is nobody to be, so it is refused.
//
// Slots of the range are taken by byte-range locks (one byte a slot) on one file in a place fixed for the host, so that launchers of several
// state directories cannot share one. The kernel drops the locks with the last descriptor of our open file: children close theirs at once.
// A slot is kept for the next box: its helper user namespaces (owner.c) are kept with it.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host.h"
#include "kernel.h"

#define ENOUGH 65534u  // inside ids up to 65534, `nobody`

static const char *const refused = "userns.unavailable";

static long setting(const char *path) {
  char text[32] = "";
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t got = read(fd, text, sizeof text - 1);
  close(fd);
  return got > 0 ? strtol(text, NULL, 10) : -1;
}

static bool filtered(void) {
  char line[128];
  int mode = 0;
  FILE *in = fopen("/proc/self/status", "re");
  while (in && !mode && fgets(line, sizeof line, in)) sscanf(line, "Seccomp: %d", &mode);
  if (in) fclose(in);
  return mode == 2;
}

static const char *reason(int error) {
  static const char *const filter = "a seccomp filter, such as a container's";
  if (setting("/proc/sys/user/max_user_namespaces") == 0) return "sysctl user.max_user_namespaces is 0";
  if (error == ENOSPC) return "sysctl user.max_user_namespaces is used up, or namespaces are nested too deep";
  if (error == ENOSYS || error == EINVAL) return filtered() ? filter : "the kernel has no user namespaces";
  if (error != EPERM && error != EACCES) return NULL;
  if (geteuid() && setting("/proc/sys/kernel/unprivileged_userns_clone") == 0) return "sysctl kernel.unprivileged_userns_clone is 0";
  if (setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1) return "sysctl kernel.apparmor_restrict_unprivileged_userns is 1";
  return filtered() ? filter : "a security module, such as AppArmor, or a chroot";
}

const char *identity_reason(int error) {
  int kept = errno;
  const char *text = reason(error);
  errno = kept;
  return text;
}

static bool has_admin(void) {
  struct { uint32_t version; int pid; } header = {0x20080522, 0};
  struct { uint32_t effective, permitted, inheritable; } data[2];
  return syscall(SYS_capget, &header, data) == 0 && (data[0].effective >> 21 & 1);
}

// The line of /proc/self/uid_map (or gid_map) that holds `id`; 0 if none does.
static uint32_t mapped(const char *path, uint32_t id, uint32_t *first, uint32_t *outer) {
  FILE *file = fopen(path, "re");
  uint32_t count = 0, found = 0;
  while (file && fscanf(file, "%u %u %u", first, outer, &count) == 3)
    if (id >= *first && id - *first < count) { found = count; break; }
  if (file) fclose(file);
  return found;
}

static bool range_exists(uint32_t base, uint32_t count) {
  uint32_t first, outer, size = mapped("/proc/self/uid_map", base, &first, &outer);
  uint32_t groups_first, groups = mapped("/proc/self/gid_map", base, &groups_first, &outer);
  uint64_t end = (uint64_t)base + (uint64_t)count * RANGE_SIZE;
  return end <= (uint64_t)first + size && end <= (uint64_t)groups_first + groups && size && groups;
}

// uid 0 of a user namespace that somebody else made, and not root outside of it: what we would have entered is there already.
static bool in_place(void) {
  uint32_t first, uid = 0, gid, ends[2] = {0, 0};
  static const char *const maps[] = {"/proc/self/uid_map", "/proc/self/gid_map"};
  if (!mapped(maps[0], 0, &first, &uid) || !uid) return false;
  for (int i = 0; i < 2; i++)
    for (uint32_t count; (count = mapped(maps[i], ends[i], &first, &gid)) && first + count > ends[i];) ends[i] = first + count;
  if (!ends[1]) return false;
  host.sub_count = (ends[0] < ends[1] ? ends[0] : ends[1]) - 1;
  host.identity = host.sub_count < ENOUGH ? IDENTITY_SINGLE : IDENTITY_SUBORDINATE;
  host.userns = true;
  return true;
}

static int own_mounts(struct fault *f, const char *code) {
  if (unshare(CLONE_NEWNS) < 0) return fault_set(f, code, "make a mount namespace", identity_reason(errno), errno);
  // What the host mounts later shows here, nothing of ours shows there.
  if (mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL) < 0) return fault_set(f, code, "detach our mounts from the host's", errno == EPERM ? identity_reason(EPERM) : NULL, errno);
  return 0;
}

// First id of a range of `file` (/etc/subuid, /etc/subgid) that belongs to the caller, by name or number, and is large enough. 0 = none.
static uint32_t subordinate(const char *file, uid_t uid, const char *name, uint32_t *count) {
  char line[512], who[256];
  FILE *in = fopen(file, "re");
  uint32_t start = 0;
  while (in && !start && fgets(line, sizeof line, in)) {
    uint32_t first, size;
    char *end;
    if (sscanf(line, "%255[^:]:%u:%u", who, &first, &size) != 3 || size < ENOUGH || first == 0) continue;
    if (strcmp(who, name) && (strtoul(who, &end, 10) != uid || *end)) continue;
    start = first;
    *count = size;
  }
  if (in) fclose(in);
  return start;
}

static void name_of(uid_t uid, char out[256]) {
  // By hand: a static program cannot ask NSS. Someone known to it alone is found by number.
  char line[1024], name[256];
  FILE *in = fopen("/etc/passwd", "re");
  *out = 0;
  while (in && !*out && fgets(line, sizeof line, in)) {
    unsigned number;
    if (sscanf(line, "%255[^:]:%*[^:]:%u:", name, &number) == 2 && number == uid) strcpy(out, name);
  }
  if (in) fclose(in);
}

static pid_t start_tool(const char *tool, char *const argv[]) {
  pid_t pid = fork();
  if (pid == 0) {
    static const char *const places[] = {"/usr/bin", "/bin", "/usr/local/bin", "/run/wrappers/bin"};
    int null = open("/dev/null", O_RDWR);
    dup2(null, 2);  // why it fails is not for the caller: we go on with one id
    for (unsigned i = 0; i < sizeof places / sizeof *places; i++) {
      char path[64];
      snprintf(path, sizeof path, "%s/%s", places[i], tool);
      execve(path, argv, (char *[]){NULL});
    }
    _exit(127);
  }
  return pid;
}

// The child that stays outside: once we have unshared, has the two set-id tools write our maps, side by side.
static _Noreturn void map_from_outside(int go, pid_t target, uid_t uid, gid_t gid, uint32_t uids, uint32_t uid_count, uint32_t gids, uint32_t gid_count) {
  char pid[16], id[4][16], byte;
  if (read(go, &byte, 1) != 1) _exit(1);
  snprintf(pid, sizeof pid, "%d", target);
  snprintf(id[0], 16, "%u", uid), snprintf(id[1], 16, "%u", uids), snprintf(id[2], 16, "%u", uid_count);
  pid_t users = start_tool("newuidmap", (char *[]){"newuidmap", pid, "0", id[0], "1", "1", id[1], id[2], NULL});
  snprintf(id[0], 16, "%u", gid), snprintf(id[1], 16, "%u", gids), snprintf(id[2], 16, "%u", gid_count);
  pid_t groups = start_tool("newgidmap", (char *[]){"newgidmap", pid, "0", id[0], "1", "1", id[1], id[2], NULL});
  int a = -1, b = -1;
  waitpid(users, &a, 0);
  waitpid(groups, &b, 0);
  _exit(a || b ? 1 : 0);
}

static int put(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  int result = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1, error = errno;
  if (fd >= 0) close(fd);
  errno = error;
  return result;
}

static int enter_userns(uid_t uid, gid_t gid, struct fault *f) {
  char name[256], map[64];
  uint32_t uid_count = 0, gid_count = 0;
  name_of(uid, name);
  uint32_t uids = subordinate("/etc/subuid", uid, name, &uid_count), gids = subordinate("/etc/subgid", uid, name, &gid_count);
  pid_t self = getpid(), helper = -1;
  int go[2] = {-1, -1};
  if (uids && gids && pipe2(go, O_CLOEXEC) == 0) {
    helper = fork();
    if (helper == 0) {
      close(go[1]);
      map_from_outside(go[0], self, uid, gid, uids, uid_count, gids, gid_count);
    }
  }
  int made = unshare(CLONE_NEWUSER), error = errno, status = -1;
  if (made == 0 && helper > 0 && write(go[1], "", 1) != 1) error = errno;
  if (go[0] >= 0) close(go[0]), close(go[1]);
  if (helper > 0 && waitpid(helper, &status, 0) < 0) status = -1;
  if (made < 0) return fault_set(f, refused, "make a user namespace", identity_reason(error), error);
  if (status == 0) {
    host.identity = IDENTITY_SUBORDINATE;
    host.sub_count = uid_count < gid_count ? uid_count : gid_count;
  } else {
    // Either map may have been written by the tool that did not fail; a map is written once. Then there is no way on from here.
    host.identity = IDENTITY_SINGLE;
    snprintf(map, sizeof map, "0 %u 1", uid);
    if (put("/proc/self/uid_map", map) < 0) return fault_set(f, refused, "write the uid map", "newuidmap or newgidmap failed; see /etc/subuid and /etc/subgid", errno);
    snprintf(map, sizeof map, "0 %u 1", gid);
    if (put("/proc/self/setgroups", "deny") < 0 || put("/proc/self/gid_map", map) < 0) return fault_set(f, refused, "write the gid map", "newuidmap or newgidmap failed; see /etc/subuid and /etc/subgid", errno);
  }
  if (syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0) return fault_set(f, refused, "become root of the user namespace", identity_reason(errno), errno);
  return 0;
}

int identity_enter(uint32_t range_base, uint32_t range_count, struct fault *f) {
  uid_t uid = geteuid();
  gid_t gid = getegid();
  host.range_base = range_base;
  host.range_count = range_count;
  if (uid == 0 && has_admin()) {
    if (range_exists(range_base, range_count)) host.identity = IDENTITY_RANGE;
    else if (!in_place()) return fault_set(f, refused, "the range of ids is not mapped in this user namespace, whose root is root outside of it too", "/proc/self/uid_map", 0);
    return own_mounts(f, "launcher.failed");
  }
  if (uid == 0) {
    // A root that may not mount, as in a container. Its own id is never given to a sandbox, and it has no range.
    pid_t probe = fork();
    if (probe == 0) _exit(unshare(CLONE_NEWUSER) < 0 ? errno : 0);
    int status = 0;
    waitpid(probe, &status, 0);
    int error = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    if (error) return fault_set(f, refused, "root without CAP_SYS_ADMIN cannot make a user namespace", identity_reason(error), error);
    return fault_set(f, refused, "root without CAP_SYS_ADMIN has no ids for a sandbox: uid 0 is never mapped into one", NULL, 0);
  }
  host.userns = true;
  // A user namespace may be made and yet be empty of rights (AppArmor of Ubuntu 24): the mount namespace in it tells.
  return enter_userns(uid, gid, f) || own_mounts(f, refused) ? -1 : 0;
}

uint32_t identity_outer(uint32_t inside) {
  if (host.identity == IDENTITY_RANGE) return inside;  // the template's clone is id-mapped
  if (host.identity == IDENTITY_SINGLE || inside == INSIDE_USER) return 0;
  return inside < INSIDE_USER ? inside + 1 : inside;
}

static int put_map(pid_t pid, const char *name, const char *text) {
  char path[40];
  snprintf(path, sizeof path, "%d/%s", pid, name);
  int fd = openat(host.proc, path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t put = write(fd, text, strlen(text));
  int error = errno;
  close(fd);
  errno = error;
  return put < 0 ? -1 : 0;
}

int identity_map(pid_t pid, int slot) {
  char map[128];
  uint32_t last = host.sub_count < RANGE_SIZE - 1 ? host.sub_count : RANGE_SIZE - 1;
  if (host.identity == IDENTITY_RANGE) snprintf(map, sizeof map, "0 %u %u", slot_base(slot), RANGE_SIZE);
  else if (host.identity == IDENTITY_SINGLE) snprintf(map, sizeof map, "%d 0 1", INSIDE_USER);
  else snprintf(map, sizeof map, "0 1 %d\n%d 0 1\n%d %d %u", INSIDE_USER, INSIDE_USER, INSIDE_USER + 1, INSIDE_USER + 1, last - INSIDE_USER);
  return put_map(pid, "uid_map", map) || put_map(pid, "gid_map", map) ? -1 : 0;
}

static int lock_file = -1;
static int *spare_slots;
static unsigned spare_count, spare_size;
static uint8_t *ours;  // one bit a slot: locked by us

static int open_locks(struct fault *f) {
  char path[PATH_LIMIT + 16];
  struct stat at;
  mkdir("/run/sandlot", 0700);
  int dir = open("/run/sandlot", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (dir < 0 || fstat(dir, &at) < 0 || at.st_uid != geteuid() || (at.st_mode & 022)) {
    if (dir >= 0) close(dir);
    dir = open(host.state, O_PATH | O_DIRECTORY | O_CLOEXEC);  // no /run: at least launchers of this state directory cannot meet
  }
  snprintf(path, sizeof path, "%s", "range");
  lock_file = dir < 0 ? -1 : openat(dir, path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  int error = errno;
  if (dir >= 0) close(dir);
  return lock_file < 0 ? fault_set(f, "state.unusable", "open the list of id ranges", "/run/sandlot/range", error) : 0;
}

int slot_take(struct fault *f) {
  if (host.identity != IDENTITY_RANGE) return 0;
  if (spare_count) return spare_slots[--spare_count];
  if (lock_file < 0 && open_locks(f)) return -1;
  if (!ours && !(ours = calloc(host.range_count / 8 + 1, 1))) _Exit(112);
  uint32_t start = 0;  // not always the first: the lock file may not be shared, as between two containers
  if (getrandom(&start, sizeof start, 0) < 0) start = (uint32_t)getpid();
  for (uint32_t i = 0; i < host.range_count; i++) {
    int slot = (int)(((uint64_t)start + i) % host.range_count);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot_base(slot) / RANGE_SIZE, .l_len = 1};
    if (ours[slot / 8] >> slot % 8 & 1) continue;  // locks of one open file never conflict with each other
    if (fcntl(lock_file, F_OFD_SETLK, &lock) < 0) continue;
    ours[slot / 8] |= (uint8_t)(1u << slot % 8);
    return slot;
  }
  return fault_set(f, "launcher.failed", "no id range is free", NULL, EAGAIN);
}

void slot_release(int slot) {
  if (host.identity != IDENTITY_RANGE) return;
  if (spare_count == spare_size) {
    spare_size = spare_size ? 2 * spare_size : 16;
    spare_slots = realloc(spare_slots, spare_size * sizeof *spare_slots);
    if (!spare_slots) _Exit(112);
  }
  spare_slots[spare_count++] = slot;
}

uint32_t slot_base(int slot) { return host.range_base + (uint32_t)slot * RANGE_SIZE; }
