// The life of boxes.
//
//   spare ──CREATE──► given to its plan ──init ends──► groups and directory under removal ──► GONE
//
// A spare is a box cloned ahead: namespaces, id maps, control groups, /proc and /dev do not depend on what it will hold, and are most of the cost.
// One is made at the start, while the engine connects, and from the second CREATE on after each one, while the commands of the last one
// run; that has directories for as many uppers as the last plan, and the root if that lay over the skeleton alone. It is dropped when nothing was asked for a second, so a launcher at rest holds nothing.
// What the launcher keeps of a box: pidfd (to see its end and to kill), its end of `life` (the init dies with it), slot, directory. Not the channel.
// Removal is the crew's; the slot is free again only after that.
#define _GNU_SOURCE
#include "boxes.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cgroup.h"
#include "crew.h"
#include "kernel.h"
#include "loops.h"
#include "nest.h"
#include "root.h"
#include "slow.h"

struct alive {
  struct box box;
  struct eye eye;  // on the pidfd
  struct slow slow;
  void (*told)(void *whom, const struct fault *f);  // what came of a plan that takes long
  void *whom;
  bool silent;     // the engine never knew of it: no GONE
  int status;
  struct alive *next, **at;
};

static struct alive *all, *spare;
static unsigned count, serials, created;
static bool grouped = true, ending;
static unsigned usual_overlays;  // what the last plan had on disk: a spare is made ready for the same
static bool usual_root;
static struct buffer usual_places;

void box_name(const struct box *b, char out[BOX_NAME]) { snprintf(out, BOX_NAME, "%s.%u", host.launcher, b->serial); }

static void say_gone(const char *id, int status) {
  struct buffer b = {0};
  size_t start = frame_begin(&b, KIND_GONE, 0, 0, 0);
  put_text(&b, TAG_BOX, id);
  put_u32(&b, TAG_STATUS, (uint32_t)status);
  frame_end(&b, start);
  say(&b);
  buffer_free(&b);
}

static void removed(void *owner, int error, uint64_t counted) {
  struct alive *a = owner;
  (void)counted;
  (void)error;  // what stays is for the sweep; the ids may not be given again while files of theirs are there
  if (!error) slot_release(a->box.slot);
  if (!a->silent) say_gone(a->box.id, a->status);
  *a->at = a->next;
  if (a->next) a->next->at = a->at;
  count--;
  for (unsigned i = 0; i < a->box.upper_count; i++)
    if (a->box.uppers[i].fd >= 0) close(a->box.uppers[i].fd);
  free(a->box.uppers);
  buffer_free(&a->box.root_places);
  free(a);
}

static void let_go(int *fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

// The init is over, and with it, by the kernel, every process of its pid namespace.
static void over(struct eye *e, uint32_t events) {
  struct alive *a = owner_of_eye(e, struct alive, eye);
  (void)events;
  if (waitpid(a->box.pid, &a->status, 0) < 0) a->status = 0;
  eye_close(&a->eye);
  a->box.pid = 0;
  slow_stop(&a->slow);  // before its directory is removed under it
  if (a == spare) spare = NULL;
  let_go(&a->box.life);
  let_go(&a->box.userns);
  let_go(&a->box.root);
  struct job job = {.kind = JOB_REMOVE, .fd = -1, .done = removed, .owner = a, .serial = a->box.grouped ? a->box.serial : 0};
  if (a->box.has_directory) box_name(&a->box, job.path);
  if (job.serial || job.path[0]) crew_add(&job);
  else removed(a, 0, 0);
}

static void end(struct alive *a) {
  if (a->box.pid) k_pidfd_kill(a->eye.fd, SIGKILL);
}

static struct alive *box_clone(struct fault *f) {
  int pair[2], pidfd = -1, group = -1, error;
  int slot = slot_take(f);
  if (slot < 0) return NULL;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
    slot_release(slot);
    return fault_set(f, "launcher.failed", "socketpair", NULL, errno), NULL;
  }
  unsigned serial = ++serials;
  if (grouped) group = cgroup_unified(serial);
  struct clone_args_v2 args = {.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_PID_FD | CLONE_CLEAR_HANDLERS,
                               .pidfd = (uint64_t)(uintptr_t)&pidfd, .exit_signal = SIGCHLD};
  if (group >= 0) args.flags |= CLONE_CGROUP, args.cgroup = (uint64_t)group;
  // Its /proc/<pid>/uid_map and ns/user are ours only while it is dumpable, unless we are a root that may trace, which that of a container may not.
  prctl(PR_SET_DUMPABLE, 1);
  pid_t pid = nest_enter() < 0 ? -1 : k_clone3(&args);
  if (pid < 0 && group >= 0 && (errno == EACCES || errno == EBUSY || errno == EOPNOTSUPP)) {
    args.flags &= ~CLONE_CGROUP;
    let_go(&group);
    pid = k_clone3(&args);
  }
  if (pid == 0) child_run(pair[1], serial, grouped, group >= 0);
  nest_leave();
  error = errno;
  prctl(PR_SET_DUMPABLE, 0);
  close(pair[1]);
  let_go(&group);
  struct alive *a = pid < 0 ? NULL : calloc(1, sizeof *a);
  if (!a) {
    close(pair[0]);
    slot_release(slot);
    return fault_set(f, error == ENOSPC || error == EPERM || error == ENOSYS ? "userns.unavailable" : "launcher.failed", "clone into new namespaces", error == ENOSPC ? "a sysctl user.max_*_namespaces is used up" : identity_reason(error), error), NULL;
  }
  a->box = (struct box){.serial = serial, .slot = slot, .pid = pid, .life = pair[0], .userns = -1, .grouped = grouped, .root = -1};
  a->silent = true;
  a->eye = (struct eye){.fd = pidfd, .ready = over};
  a->next = all;
  a->at = &all;
  if (all) all->at = &a->next;
  all = a;
  count++;
  eye_open(&a->eye, EPOLLIN);
  setsockopt(a->box.life, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){.tv_sec = 5}, sizeof(struct timeval));
  if (identity_map(pid, slot) < 0) {
    fault_set(f, "userns.unavailable", "map the ids of a sandbox", NULL, errno);
    return end(a), NULL;
  }
  if (host.identity == IDENTITY_RANGE) {
    char path[32];
    snprintf(path, sizeof path, "%d/ns/user", pid);
    a->box.userns = openat(host.proc, path, O_RDONLY | O_CLOEXEC);
    if (a->box.userns < 0) return fault_set(f, "launcher.failed", "open a user namespace", NULL, errno), end(a), NULL;
  }
  int dev = template_clone(&a->box, host.dev, ATTR_READONLY | ATTR_NOSUID | ATTR_NOEXEC);
  if (dev < 0) return fault_set(f, "mount.failed", "clone the template of /dev", NULL, errno), end(a), NULL;
  send_with(a->box.life, "", 1, &dev, 1);  // if it is dead already, its pidfd says so
  close(dev);
  return a;
}

static struct alive *by_id(const char *id) {
  for (struct alive *a = all; a; a = a->next)
    if (!strcmp(a->box.id, id) && id[0]) return a;
  return NULL;
}

static void slow_done(struct slow *s, int result, const struct fault *f) {
  struct alive *a = owner_of_eye(s, struct alive, slow);
  let_go(&a->box.userns);
  a->silent = false;
  if (result) end(a);
  a->told(a->whom, result ? f : NULL);
}

bool boxes_known(const char *id) { return by_id(id) != NULL; }

int boxes_create(const struct plan *p, const uint8_t *payload, size_t length, int channel, void (*told)(void *whom, const struct fault *f), void *whom, struct fault *f) {
  int trees[STEP_LIMIT];
  struct buffer says = {0};
  created++;
  if (by_id(p->box)) return fault_set(f, "argument.invalid", "a sandbox of this id lives", p->box, EEXIST);
  if (p->cgroup != grouped) {
    grouped = p->cgroup;
    boxes_rest();
  }
  struct alive *a = spare ? spare : box_clone(f);
  if (!a) return -1;
  spare = NULL;
  usual_root = overlay_plain(&p->steps[0]);
  usual_overlays = 0;
  usual_places.used = 0;
  for (unsigned i = 0; i < p->step_count; i++) usual_overlays += (p->steps[i].kind == STEP_ROOT || p->steps[i].kind == STEP_OVERLAY) && p->steps[i].upper == UPPER_DISK;
  snprintf(a->box.id, sizeof a->box.id, "%s", p->box);
  int result = mounts_make(&a->box, p, trees, &usual_places, &says, f);
  if (!result) {
    result = hand_over(a->box.life, p, payload, length, &says, trees, channel);
    if (result) fault_set(f, "launcher.failed", "hand over to a sandbox's first process", NULL, errno);
    for (unsigned i = 0; i < p->step_count; i++) let_go(&trees[i]);
  }
  buffer_free(&says);
  if (result && a->box.wants_copy) {
    // What was made so far is closed: the other process begins anew.
    a->slow = (struct slow){.box = &a->box, .done = slow_done};
    a->told = told;
    a->whom = whom;
    for (unsigned i = 0; i < a->box.upper_count; i++) let_go(&a->box.uppers[i].fd);
    a->box.upper_count = 0;
    if (slow_start(&a->slow, p, payload, length, channel, f) == 0) return 1;
  }
  let_go(&a->box.userns);
  if (result) end(a);
  else a->silent = false;
  return result;
}

bool boxes_discard(const char *id) {
  struct alive *a = by_id(id);
  if (a) {
    a->silent = false;
    end(a);
  } else say_gone(id, 0);  // refused, or told before: whoever waits shall not wait for ever
  return a != NULL;
}

void boxes_discard_all(void) {
  ending = true;
  for (struct alive *a = all; a; a = a->next) end(a);
}

struct changes {
  char box[33];
  uint32_t request;
  unsigned waiting, total;
  struct upper_count {
    struct changes *of;
    char name[33];
    uint64_t files;
    int error;
  } uppers[];
};

static void say_changes(struct changes *of) {
  struct buffer b = {0};
  size_t start = frame_begin(&b, KIND_CHANGED, 0, 0, of->request);
  put_text(&b, TAG_BOX, of->box);
  for (unsigned i = 0; i < of->total; i++) {
    put_text(&b, TAG_NAME, of->uppers[i].name);
    put_u64(&b, TAG_COUNT, of->uppers[i].files);
    if (of->uppers[i].error) put_u32(&b, TAG_ERRNO, (uint32_t)of->uppers[i].error);
  }
  frame_end(&b, start);
  say(&b);
  buffer_free(&b);
  free(of);
}

static void counted(void *owner, int error, uint64_t files) {
  struct upper_count *c = owner;
  c->files = error ? 0 : files;
  c->error = error;
  if (--c->of->waiting == 0) say_changes(c->of);
}

bool boxes_changes(const char *id, uint32_t request) {
  struct alive *a = by_id(id);
  unsigned n = a && a->box.pid ? a->box.upper_count : 0;
  struct changes *of = n ? calloc(1, sizeof *of + n * sizeof of->uppers[0]) : NULL;
  if (!of) return false;
  snprintf(of->box, sizeof of->box, "%s", id);
  of->request = request;
  of->waiting = of->total = n;
  for (unsigned i = 0; i < n; i++) {
    const struct upper_ref *u = &a->box.uppers[i];
    struct job job = {.kind = JOB_COUNT, .fd = u->fd >= 0 ? fcntl(u->fd, F_DUPFD_CLOEXEC, FD_FREE) : -1, .done = counted, .owner = &of->uppers[i]};
    char name[BOX_NAME];
    of->uppers[i].of = of;
    snprintf(of->uppers[i].name, sizeof of->uppers[i].name, "%s", u->name);
    box_name(&a->box, name);
    snprintf(job.path, sizeof job.path, "%s/%u/upper", name, u->place);
    crew_add(&job);
  }
  return true;
}

unsigned boxes_count(void) { return count; }

void boxes_idle(void) {
  struct fault ignored;
  // One command and good-bye is the commonest use: the second CREATE is what tells that more will come.
  if (spare || ending || created == 1) return;
  spare = box_clone(&ignored);
  if (spare && created) overlay_ahead(&spare->box, usual_overlays, usual_root, &usual_places);
}

void boxes_rest(void) {
  if (spare) end(spare);
  spare = NULL;
}
