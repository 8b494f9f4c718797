// Supervisors as PID 1 sees them: forking them, handing an exec over, hearing from them, and what is left when a guest has killed one.
//
// One spare is forked ahead where more execs are likely: from the second exec on, or once the sandbox has been idle for a while (a sandbox that runs
// one command and ends needs none). It already has its pipes, inherited, and waits for the payload of EXEC on a socket pair.
// Without a spare, or with a payload too large for one message, a supervisor is forked with the payload in its memory.
//
// In identity mode `single` a guest has the same id as its supervisor and may stop or kill it. Stopped: PID 1 is its parent, hears of it and continues
// it. Killed before the command began: the slip decides that it never will, and it is started anew. Killed later: the kernel gives its children to
// PID 1, which waits for the first process itself.
#define _GNU_SOURCE
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire.h"

#define TRIES 3
#define SLIPS 32  // in one shared mapping

struct supervisor *supervisors;

static const struct init_config *config;
static int oom = -1;
static char calm[16], eager[16];  // oom_score_adj of PID 1, and of what it starts
static struct supervisor *spare;

union cell {
  struct slip slip;
  union cell *next;
};
static union cell *free_slips;

static struct slip *slip_take(void) {
  if (!free_slips) {
    union cell *cells = mmap(NULL, SLIPS * sizeof *cells, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (cells == MAP_FAILED) return NULL;
    for (int i = 0; i < SLIPS; i++) {
      cells[i].next = free_slips;
      free_slips = &cells[i];
    }
  }
  union cell *cell = free_slips;
  free_slips = cell->next;
  memset(cell, 0, sizeof *cell);
  return &cell->slip;
}

static void slip_give(struct slip *slip) {
  union cell *cell = (union cell *)slip;
  cell->next = free_slips;
  free_slips = cell;
}

// A new process inherits oom_score_adj, and can raise but not read its own once it is non-dumpable: so ours is raised while it is forked.
// Memory that runs out then costs a command, not PID 1 and the sandbox with it.
void supervisor_setup(const struct init_config *given, int oom_fd) {
  config = given;
  if (oom_fd < 0 || pread(oom_fd, calm, sizeof calm - 1, 0) <= 0) return;
  int value = atoi(calm);
  snprintf(calm, sizeof calm, "%d", value);
  snprintf(eager, sizeof eager, "%d", value > 900 ? 1000 : value + 100);
  oom = oom_fd;
}

static void temper(const char *value) {
  if (oom >= 0 && pwrite(oom, value, strlen(value), 0) < 0) oom = -1;
}

static void wire_ready(struct watch *w, uint32_t events) {
  struct supervisor *s = owner_of(w, struct supervisor, wire);
  char bytes[16];
  if (recv(w->fd, bytes, sizeof bytes, MSG_DONTWAIT) < 0) bytes[0] = 0;  // what it says is in the slip
  if (events & (EPOLLHUP | EPOLLERR)) watch_set(w, 0);  // dead or done: SIGCHLD tells the rest
  if (s->exec) supervisor_notice(s);
}

static void close_all(int *fds, int count) {
  for (int i = 0; i < count; i++)
    if (fds[i] >= 0) close(fds[i]);
}

// NULL with errno set when there is no process, descriptor or memory for it.
static struct supervisor *supervisor_fork(const uint8_t *request, size_t length) {
  int fd[8] = {-1, -1, -1, -1, -1, -1, -1, -1}, error;
  struct supervisor *s = calloc(1, sizeof *s);
  struct slip *slip = slip_take();
  if (!s || !slip) goto failed;
  if (pipe2(fd, O_CLOEXEC) < 0 || pipe2(fd + 2, O_CLOEXEC) < 0 || pipe2(fd + 4, O_CLOEXEC) < 0) goto failed;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd + 6) < 0) goto failed;
  // Opening /dev/stdout opens the pipe anew, by its mode: only who may look into the process gets that far, and it is not our id.
  for (int i = 0; i < 6; i += 2) fchmod(fd[i], 0666);
  const int ours[3] = {fd[1], fd[2], fd[4]};
  for (int i = 0; i < 3; i++) fcntl(ours[i], F_SETFL, O_NONBLOCK);
  struct duty duty = {.slip = slip, .wire = fd[7], .ends = {fd[0], fd[3], fd[5]}, .request = request, .length = length, .config = config};
  temper(eager);
  pid_t pid = fork();
  if (pid == 0) supervise(&duty);
  error = errno;
  temper(calm);
  errno = error;
  if (pid < 0) goto failed;
  close(fd[0]);
  close(fd[3]);
  close(fd[5]);
  close(fd[7]);
  s->pid = pid;
  s->slip = slip;
  s->stdin_pipe = fd[1];
  s->out_pipe = fd[2];
  s->err_pipe = fd[4];
  s->wire = (struct watch){.fd = fd[6], .ready = wire_ready};
  watch_set(&s->wire, EPOLLIN);
  s->next = supervisors;
  supervisors = s;
  return s;
failed:
  error = errno;
  close_all(fd, 8);
  if (slip) slip_give(slip);
  free(s);
  errno = error;
  return NULL;
}

bool supervisor_has_spare(void) { return spare != NULL; }

void supervisor_spare(void) {
  if (!spare) spare = supervisor_fork(NULL, 0);
}

static void hand_over(struct supervisor *s, struct exec *e) {
  s->exec = e;
  e->supervisor = s;
  e->tries++;
  if (!e->wants_stdin) {
    close(s->stdin_pipe);
    s->stdin_pipe = -1;
  }
  if (e->merges) {
    close(s->err_pipe);
    s->err_pipe = -1;
  }
  input_open(&e->input, s->stdin_pipe);
  output_open(&e->output, s->out_pipe, s->err_pipe);
  s->stdin_pipe = s->out_pipe = s->err_pipe = -1;
}

bool supervisor_start(struct exec *e, const uint8_t *payload, size_t length) {
  struct supervisor *s = NULL;
  if (spare && length <= REQUEST_LIMIT && send(spare->wire.fd, payload, length, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)length) {
    s = spare;
    spare = NULL;
  }
  if (!s) s = supervisor_fork(payload, length);
  if (!s) {
    exec_unstarted(e, "fork", errno);
    return false;
  }
  hand_over(s, e);
  return true;
}

static const char *const step_names[] = {
    [FAILED_NOT] = "exec", [FAILED_FORK] = "fork", [FAILED_USER] = "user", [FAILED_CWD] = "cwd", [FAILED_FILTER] = "filter", [FAILED_EXEC] = "exec",
};

void supervisor_notice(struct supervisor *s) {
  struct exec *e = s->exec;
  int state = s->slip->state;
  if (e->state == EXEC_STARTING && state == SLIP_UNSTARTED) exec_unstarted(e, step_names[s->slip->step], s->slip->error);
  if (e->state == EXEC_STARTING && state >= SLIP_STARTED) exec_started(e, s->slip->pid);
  if (e->state == EXEC_RUNNING && state >= SLIP_EXITED) exec_exited(e, &s->slip->result);
  if (e->state == EXEC_EXITED && state == SLIP_ENDED) exec_ended(e);
}

struct supervisor *supervisor_of(pid_t pid) {
  for (struct supervisor *s = supervisors; s; s = s->next)
    if (s->pid == pid) return s;
  return NULL;
}

static void start_anew(struct exec *e) {
  output_close(&e->output);
  input_close(&e->input);
  if (e->tries < TRIES && e->request) supervisor_start(e, e->request, e->request_length);
  else exec_unstarted(e, "fork", EAGAIN);
}

void supervisor_gone(struct supervisor *s) {
  struct supervisor **at = &supervisors;
  while (*at != s) at = &(*at)->next;
  *at = s->next;
  if (spare == s) spare = NULL;
  int fds[3] = {s->stdin_pipe, s->out_pipe, s->err_pipe};
  close_all(fds, 3);
  watch_close(&s->wire);
  struct exec *e = s->exec;
  if (e) {
    supervisor_notice(s);
    e->supervisor = NULL;
    if (e->state != EXEC_ENDED && e->state != EXEC_UNSTARTED) {
      int waiting = SLIP_WAITING;
      if (atomic_compare_exchange_strong(&s->slip->state, &waiting, SLIP_ABANDONED)) {
        start_anew(e);
      } else {
        e->orphaned = true;
        if (e->state == EXEC_STARTING) exec_started(e, s->slip->pid);
      }
    }
  }
  // A first process that has not reached execve may still write to the slip; it is lost then.
  if (!e || s->slip->state >= SLIP_STARTED) slip_give(s->slip);
  free_later(s);
}
