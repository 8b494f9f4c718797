// What passes from the launcher to a box's first process over `life` (root.h says in which order).
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "root.h"

int send_with(int socket, const void *bytes, size_t length, const int *fds, unsigned count) {
  union { char bytes[CMSG_SPACE(BATCH * sizeof(int))]; struct cmsghdr align; } control;
  struct iovec part = {(void *)bytes, length};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  if (count) {
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(count * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(head), fds, count * sizeof(int));
  }
  while (part.iov_len) {
    ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return -1;
    part.iov_base = (char *)part.iov_base + sent;
    part.iov_len -= (size_t)sent;
    message.msg_control = NULL;
    message.msg_controllen = 0;
  }
  return 0;
}

int receive_with(int socket, void *bytes, size_t length, int *fds, unsigned count) {
  union { char bytes[CMSG_SPACE(BATCH * sizeof(int))]; struct cmsghdr align; } control;
  unsigned have = 0;
  for (size_t at = 0; at < length;) {
    struct iovec part = {(char *)bytes + at, length - at};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control};
    ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return -1;
    at += (size_t)got;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (!head || head->cmsg_type != SCM_RIGHTS) continue;
    unsigned came = (unsigned)((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    for (unsigned i = 0; i < came && have < count; i++) memcpy(&fds[have++], CMSG_DATA(head) + i * sizeof(int), sizeof(int));
  }
  return (int)have;
}

int hand_over(int life, const struct plan *p, const uint8_t *payload, size_t length, const struct buffer *says, const int *trees, int channel) {
  int fds[1 + STEP_LIMIT] = {channel};
  uint8_t present[STEP_LIMIT];
  struct handover head = {.payload = (uint32_t)length, .says = (uint32_t)says->used, .steps = p->step_count, .descriptors = 1};
  for (unsigned i = 0; i < p->step_count; i++) {
    present[i] = trees[i] >= 0;
    if (trees[i] >= 0) fds[head.descriptors++] = trees[i];
  }
  struct buffer all_bytes = {0};
  put_raw(&all_bytes, &head, sizeof head);
  put_raw(&all_bytes, payload, length);
  put_raw(&all_bytes, says->bytes, says->used);
  put_raw(&all_bytes, present, p->step_count);
  unsigned at = head.descriptors < BATCH ? head.descriptors : BATCH;
  int result = send_with(life, all_bytes.bytes, all_bytes.used, fds, at);
  for (unsigned n; !result && at < head.descriptors; at += n) {
    n = head.descriptors - at < BATCH ? head.descriptors - at : BATCH;
    result = send_with(life, "", 1, fds + at, n);
  }
  buffer_free(&all_bytes);
  return result;
}
