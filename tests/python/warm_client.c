// warm_client PYTHON ADDRESS ARGUMENTS: what `PYTHON ARGUMENTS` does, in a fork of the interpreter of warm_server.py, which
// waits at ADDRESS. It passes arguments, directory, environment and output on, and ends as the program does.
#define _GNU_SOURCE
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kMostBytes = 1 << 20, kMostArguments = 4096 };

static char message[kMostBytes];
static size_t used;

static void fail(const char* what) {
  perror(what);
  _exit(125);
}

static void put(const char* field) {
  const size_t size = strlen(field) + 1;
  if (used + size > sizeof message) {
    fprintf(stderr, "warm_client: arguments and environment of more than %d bytes\n", kMostBytes);
    _exit(125);
  }
  memcpy(message + used, field, size);
  used += size;
}

static int connected(const char* name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  const size_t length = strlen(name);
  if (length >= sizeof address.sun_path) fail("warm_client: the address");
  memcpy(address.sun_path + 1, name, length);  // after a zero: a name of Linux alone, without a file
  const int server = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
  if (server < 0 || connect(server, (struct sockaddr*)&address, size) != 0) fail("warm_client: the interpreter of the tests");
  return server;
}

static void send_message(int server) {
  const int descriptors[] = {0, 1, 2};
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof descriptors)];
  } control = {0};
  struct iovec text = {message, used};
  struct msghdr all = {.msg_iov = &text, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  struct cmsghdr* rights = CMSG_FIRSTHDR(&all);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof descriptors);
  memcpy(CMSG_DATA(rights), descriptors, sizeof descriptors);
  if (sendmsg(server, &all, 0) < 0) fail("warm_client: sendmsg");
}

int main(int count, char** arguments) {
  if (count < 3 || count > kMostArguments) return 125;
  char number[16], directory[4096], answer[100] = "";
  snprintf(number, sizeof number, "%d", count - 3);
  put(number);
  for (char** argument = arguments + 3; *argument != NULL; ++argument) put(*argument);
  if (getcwd(directory, sizeof directory) == NULL) fail("warm_client: getcwd");
  put(directory);
  for (char** variable = environ; *variable != NULL; ++variable) put(*variable);
  const int server = connected(arguments[2]);
  send_message(server);
  if (recv(server, answer, sizeof answer - 1, 0) <= 0) fail("warm_client: the interpreter of the tests has ended");
  if (strcmp(answer, "python") == 0) {  // an option or a variable that only a real interpreter obeys
    arguments[2] = arguments[1];
    execv(arguments[1], arguments + 2);
    fail(arguments[1]);
  }
  const int status = atoi(answer);
  if (!WIFSIGNALED(status)) _exit(WEXITSTATUS(status));
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  signal(WTERMSIG(status), SIG_DFL);
  kill(getpid(), WTERMSIG(status));
  return 125;
}
