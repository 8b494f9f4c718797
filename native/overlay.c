// Overlays: layers that nobody can write, and an upper that is the box's own.
//
// Made with our credentials, so that the box's user namespace decides nothing about the upper, which is plain (an id-mapped upper turns read-only
// with no word but one in dmesg) and given to the box's ids. Lower layers are id-mapped clones in range mode.
//   STATE/box/<launcher>.<serial>/<n>/upper, work        n counts the box's overlays
// or a tmpfs of its own, where the state directory lies on what cannot hold an upper (an overlay, as in a container).
// `volatile`: a box that outlives a crash of its host has no meaning, and without it the unmount syncs the whole file system of the state directory.
// Layers go to the kernel as descriptors (Linux 6.13, of detached mounts 6.15), which has no limit of length; before that as /proc/self/fd/N in the
// options of mount(2), with detached layers attached in the room for that moment.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "box.h"
#include "copy.h"
#include "kernel.h"
#include "nest.h"

#define DEFAULT_MEMORY (512ull << 20)

static bool by_path;      // this kernel takes no descriptors of detached mounts
static bool no_disk;      // the state directory cannot hold an upper
static char no_disk_why[64];

struct making {
  int layers[LAYER_LIMIT];
  bool detached[LAYER_LIMIT];
  unsigned count;
  int memory;  // detached tmpfs of the upper, or -1
  int upper, work;
};

// The directory of the next upper, with `upper` and `work` in it.
static int place_make(struct box *b) {
  char path[BOX_NAME + 32];
  box_name(b, path);
  if (!b->has_directory && mkdirat(host.boxes, path, 0700) < 0) return -1;
  b->has_directory = true;
  size_t used = strlen(path);
  snprintf(path + used, sizeof path - used, "/%u", b->places);
  if (mkdirat(host.boxes, path, 0700) < 0) return -1;
  used = strlen(path);
  snprintf(path + used, sizeof path - used, "/upper");
  if (mkdirat(host.boxes, path, 0755) < 0) return -1;
  snprintf(path + used, sizeof path - used, "/work");
  if (mkdirat(host.boxes, path, 0700) < 0) return -1;
  b->places++;
  return 0;
}

// A copy of a layer whose owners cannot be mapped, in a new directory of the box or a tmpfs; -1 with a fault.
static int layer_copy(struct box *b, int from, const struct stat *at, bool memory, const char *source, struct fault *f) {
  const struct owners owners = {slot_base(b->slot), at->st_uid, at->st_gid};
  b->wants_copy = !b->may_copy;
  if (b->wants_copy) return fault_set(f, "internal", "a directory has to be copied", source, 0);
  char path[BOX_NAME + 32];
  int to;
  if (memory) to = tmpfs_make(COPY_BYTES + (128 << 20), 0755, ATTR_NOSUID | ATTR_NODEV);
  else {
    if (b->next_place == b->places && place_make(b) < 0) return fault_set(f, "mount.failed", "make a place for the copy of a directory", source, errno);
    box_name(b, path);
    size_t used = strlen(path);
    snprintf(path + used, sizeof path - used, "/%u/upper", b->next_place++);
    to = openat(host.boxes, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  }
  int readable = to < 0 ? -1 : openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const char *wrong = readable < 0 ? "it failed" : copy_layer(readable, to, &owners);
  int error = errno;
  if (readable >= 0) close(readable);
  if (!wrong) return to;
  if (to >= 0) close(to);
  char name[24], subject[PATH_LIMIT + 80];
  snprintf(subject, sizeof subject, "%s in %s (%s)", wrong, source, file_system(from, name));  // what is too long is cut at its end
  if (error == E2BIG) return fault_set(f, "mount.ids", "copy a directory whose owners cannot be mapped", subject, 0);
  return fault_set(f, "mount.failed", "copy a directory whose owners cannot be mapped", subject, error);
}

static int layer_open(struct box *b, const struct source *s, bool memory, struct making *m, struct buffer *missing, struct fault *f) {
  struct stat at;
  char name[24];
  if (!s->path[0]) {
    bool clone = host.identity == IDENTITY_RANGE;
    int fd = clone ? template_clone(b, host.skeleton, ATTR_READONLY) : fcntl(host.skeleton, F_DUPFD_CLOEXEC, FD_FREE);
    if (fd < 0) return fault_set(f, "mount.failed", "clone the skeleton", NULL, errno);
    m->detached[m->count] = clone;
    m->layers[m->count++] = fd;
    return 0;
  }
  int fd = source_open(s, f);
  if (fd < 0) return -1;
  if (fstat(fd, &at) < 0 || !S_ISDIR(at.st_mode)) return close(fd), fault_set(f, "grant.not_found", "a layer that is not a directory", s->path, ENOTDIR);
  if (host.identity == IDENTITY_RANGE) {
    int map = s->ids == IDS_SYSTEM ? b->userns : owner_map(b->slot, OWNER_LAYER, at.st_uid, at.st_gid);
    if (map < 0) return fault_set(f, "launcher.failed", "make a user namespace for the owners of a source", s->path, errno), close(fd), -1;
    int tree = k_open_tree(fd, "", TREE_CLONE | EMPTY_PATH);
    if (tree >= 0 && k_mount_setattr(tree, 0, ATTR_READONLY, map) == 0) {
      close(fd);
      m->detached[m->count] = true;
      m->layers[m->count++] = tree;
      return 0;
    }
    if (tree >= 0) close(tree);
    if (s->ids == IDS_OWNER) {
      int copy = layer_copy(b, fd, &at, memory, s->path, f);
      if (copy >= 0) missing_put(missing, "ids: %s is on %s, which cannot map owners: what shows is a copy, made at the start", s->path, file_system(fd, name));
      close(fd);
      if (copy < 0) return -1;
      m->detached[m->count] = memory;
      m->layers[m->count++] = copy;
      return 0;
    }
    missing_put(missing, "ids: %s is on %s, which cannot map owners: its files show as nobody's", s->path, file_system(fd, name));
  }
  m->detached[m->count] = false;
  m->layers[m->count++] = fd;
  return 0;
}

// The merged directory shows owner and mode of the upper: those of the topmost layer, as the box shall see them.
static int upper_like(const struct box *b, const struct mount_step *s, const struct making *m) {
  struct stat at;
  if (fstat(m->layers[0], &at) < 0) return -1;
  uid_t uid = at.st_uid;
  gid_t gid = at.st_gid;
  if (host.identity == IDENTITY_RANGE) {
    uint32_t base = slot_base(b->slot);
    // Through an id-mapped clone fstat tells the id that is shown already; unmapped it is a host's, and the box gets it as its own.
    if (uid < base || uid - base >= RANGE_SIZE) uid = base + (s->kind == STEP_ROOT ? 0 : INSIDE_USER);
    if (gid < base || gid - base >= RANGE_SIZE) gid = base + (s->kind == STEP_ROOT ? 0 : INSIDE_USER);
  } else if (uid > host.sub_count || gid > host.sub_count || uid == INSIDE_RESERVED + 1) {
    uid = gid = s->kind == STEP_ROOT ? identity_outer(0) : identity_outer(INSIDE_USER);
  }
  if ((uid || gid) && fchownat(m->upper, "", uid, gid, AT_EMPTY_PATH) < 0) return -1;
  char path[40];
  snprintf(path, sizeof path, "/proc/self/fd/%d", m->upper);  // fchmod takes no O_PATH
  return (at.st_mode & 01777) == 0755 ? 0 : chmod(path, at.st_mode & 01777);
}

static int upper_open(struct box *b, const struct mount_step *s, struct making *m, bool memory) {
  char upper[BOX_NAME + 32] = "upper", work[BOX_NAME + 32] = "work";
  int dir;
  if (memory) {
    dir = m->memory = tmpfs_make(s->size ? s->size : DEFAULT_MEMORY, 0700, 0);
    if (dir < 0 || mkdirat(dir, upper, 0755) < 0 || mkdirat(dir, work, 0700) < 0) return -1;
  } else {
    if (b->next_place == b->places && place_make(b) < 0) return -1;
    dir = host.boxes;
    box_name(b, upper);
    size_t used = strlen(upper);
    memcpy(work, upper, used);
    snprintf(upper + used, sizeof upper - used, "/%u/upper", b->next_place);
    snprintf(work + used, sizeof work - used, "/%u/work", b->next_place++);
  }
  m->upper = openat(dir, upper, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  m->work = openat(dir, work, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  return m->upper >= 0 && m->work >= 0 && upper_like(b, s, m) == 0 ? 0 : -1;
}

static int make_by_path(struct making *m) {
  static bool boxes_attached;
  char boxes_name[16];
  if (!boxes_attached) room_attach(host.boxes, boxes_name);  // fails where it is no detached mount, and then need not be
  boxes_attached = true;
  char options[16384], attached[LAYER_LIMIT + 1][16], place[16], path[64];
  unsigned count = 0;
  int used = snprintf(options, sizeof options, "volatile%s,upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/%d,lowerdir=", host.userns ? ",userxattr" : "", m->upper, m->work);
  int tree = -1, error = 0;
  if (m->memory >= 0) error = room_attach(m->memory, attached[count]) < 0 ? errno : (count++, 0);
  for (unsigned i = 0; i < m->count && !error; i++) {
    if (m->detached[i]) error = room_attach(m->layers[i], attached[count]) < 0 ? errno : (count++, 0);
    used += snprintf(options + used, sizeof options - (size_t)used, "%s/proc/self/fd/%d", i ? ":" : "", m->layers[i]);
    if (used >= 4095) error = E2BIG;  // one page
  }
  int at = error ? -1 : tmpfs_make(4096, 0700, 0);
  if (at >= 0 && room_attach(at, place) == 0) {
    snprintf(path, sizeof path, "/proc/self/fd/%d/%s", host.room, place);
    if (mount("overlay", path, "overlay", 0, options) == 0) tree = k_open_tree(host.room, place, TREE_CLONE);
    error = errno;
    if (tree >= 0 && k_mount_setattr(tree, 0, ATTR_NOSUID | ATTR_NODEV, -1) < 0) error = errno, close(tree), tree = -1;
    umount2(path, MNT_DETACH);
    room_detach(place);
  } else if (!error) error = errno;
  if (at >= 0) close(at);
  for (unsigned i = 0; i < count; i++) room_detach(attached[i]);
  errno = error;
  return tree;
}

static int make(struct making *m) {
  if (by_path) return make_by_path(m);
  int fs = k_fsopen("overlay"), tree = -1;
  if (fs < 0) return -1;
  bool ok = true;
  for (unsigned i = 0; i < m->count && ok; i++) ok = k_fsconfig(fs, CONFIG_FD, "lowerdir+", NULL, m->layers[i]) == 0;
  ok = ok && k_fsconfig(fs, CONFIG_FD, "upperdir", NULL, m->upper) == 0 && k_fsconfig(fs, CONFIG_FD, "workdir", NULL, m->work) == 0;
  ok = ok && k_fsconfig(fs, CONFIG_FLAG, "volatile", NULL, 0) == 0 && (!host.userns || k_fsconfig(fs, CONFIG_FLAG, "userxattr", NULL, 0) == 0);
  if (ok && k_fsconfig(fs, CONFIG_CREATE, NULL, NULL, 0) == 0) tree = k_fsmount(fs, ATTR_NOSUID | ATTR_NODEV);
  int error = errno;
  close(fs);
  errno = error;
  return tree;
}

bool overlay_by_path(void) {
  struct utsname name;
  unsigned major_number = 0, minor_number = 0;
  if (uname(&name) == 0 && sscanf(name.release, "%u.%u", &major_number, &minor_number) == 2 && (major_number > 6 || (major_number == 6 && minor_number >= 15))) return false;
  // An older number may have it all the same: tried once, on two directories of a detached tmpfs.
  int top = tmpfs_make(4096, 0700, 0), fs = k_fsopen("overlay");
  by_path = true;
  if (top >= 0 && fs >= 0 && mkdirat(top, "a", 0700) == 0 && mkdirat(top, "b", 0700) == 0) {
    int a = openat(top, "a", O_PATH | O_CLOEXEC), b = openat(top, "b", O_PATH | O_CLOEXEC);
    by_path = k_fsconfig(fs, CONFIG_FD, "lowerdir+", NULL, a) < 0 || k_fsconfig(fs, CONFIG_FD, "lowerdir+", NULL, b) < 0 || k_fsconfig(fs, CONFIG_CREATE, NULL, NULL, 0) < 0;
    close(a);
    close(b);
  }
  if (top >= 0) close(top);
  if (fs >= 0) close(fs);
  return by_path;
}

static int attempt(struct box *b, const struct mount_step *s, struct making *m, bool memory) {
  m->memory = m->upper = m->work = -1;
  int tree = upper_open(b, s, m, memory) < 0 ? -1 : make(m), error = errno;
  if (tree >= 0) {
    b->uppers = reallocarray(b->uppers, b->upper_count + 1, sizeof *b->uppers);
    if (!b->uppers) _Exit(112);
    struct upper_ref *u = &b->uppers[b->upper_count++];
    *u = (struct upper_ref){.fd = memory ? m->upper : -1, .place = b->next_place - 1};
    snprintf(u->name, sizeof u->name, "%s", s->name ? s->name : "root");
    if (memory) m->upper = -1;
  }
  if (m->memory >= 0) close(m->memory);
  if (m->upper >= 0) close(m->upper);
  if (m->work >= 0) close(m->work);
  errno = error;
  return tree;
}

bool overlay_plain(const struct mount_step *s) { return s->layer_count == 1 && !s->layers[0].path[0] && s->upper == UPPER_DISK; }

void overlay_ahead(struct box *b, unsigned overlays, bool root, const struct buffer *places) {
  static struct source skeleton = {.path = ""};
  const struct mount_step step = {.kind = STEP_ROOT, .layers = &skeleton, .layer_count = 1};
  struct fault ignored;
  if (no_disk) return;
  while (b->places < overlays && place_make(b) == 0) continue;
  if (!root || !b->places) return;
  b->root = overlay_make(b, &step, places, NULL, &ignored);
  put_raw(&b->root_places, places->bytes, places->used);
}

static bool same(const struct buffer *a, const struct buffer *b) { return a->used == b->used && (!a->used || !memcmp(a->bytes, b->bytes, a->used)); }

int overlay_make(struct box *b, const struct mount_step *s, const struct buffer *places, struct buffer *missing, struct fault *f) {
  struct making m = {0};
  char name[24];
  int tree = -1;
  const char *what = s->target ? s->target : "/";
  bool memory = s->upper == UPPER_MEMORY || no_disk;
  if (b->root >= 0 && s->kind == STEP_ROOT) {
    tree = b->root;
    b->root = -1;
    if (overlay_plain(s) && same(places, &b->root_places)) return tree;
    close(tree);
    tree = -1;
    b->upper_count = 0;
  }
  if (places && places->used) {
    m.layers[0] = places_make(b, places);
    if (m.layers[0] < 0) return fault_set(f, "mount.failed", "make places to mount on", NULL, errno);
    m.detached[m.count++] = true;
  }
  for (unsigned i = 0; i < s->layer_count; i++)
    if (layer_open(b, &s->layers[i], memory, &m, missing, f) < 0) goto out;
  tree = attempt(b, s, &m, memory);
  if (tree < 0 && !memory && errno != ENOSPC && errno != EDQUOT) {
    int error = errno;
    tree = attempt(b, s, &m, memory = true);
    if (tree < 0) errno = error;
    else {
      no_disk = true;
      snprintf(no_disk_why, sizeof no_disk_why, "%s (%s)", file_system(host.boxes, name), strerror(error));
    }
  }
  if (tree < 0) fault_set(f, "mount.failed", "mount an overlay", what, errno);
  else if (missing && memory && s->upper == UPPER_DISK) missing_put(missing, "upper: writes below %s are kept in memory: the state directory is on %s", what, no_disk_why);
out:
  for (unsigned i = 0; i < m.count; i++) close(m.layers[i]);
  return tree;
}
