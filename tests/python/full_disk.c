// A disk that is full or fails, for a process that preloads this: no right to mount is needed. What Sonde calls is covered.
// C's streams are not: they call the kernel without a name that could be taken.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { kMostDescriptors = 4096 };

static char at[PATH_MAX];
static long long bytes_left = LLONG_MAX, writes_left = LLONG_MAX;
static int late;
static char lost[kMostDescriptors];  // by descriptor: the error that close() has to return
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(&name))real(#name))
static void* real(const char* name) { return dlsym(RTLD_NEXT, name); }

// From now on the disk below `directory` takes so many bytes, then ENOSPC; what is removed or cut off gives its bytes back.
// Or so many writes, then each is EIO. Negative: no limit. `when_closed`: either error comes when the file is closed, as on some
// network file systems; the bytes are lost.
void spoil_disk(const char* directory, long long bytes, long long writes, int when_closed) {
  bytes_left = bytes < 0 ? LLONG_MAX : bytes;
  writes_left = writes < 0 ? LLONG_MAX : writes;
  late = when_closed;
  if (realpath(directory, at) == NULL) snprintf(at, sizeof at, "%s", directory);
}

static int is_on_disk(int fd) {
  if (at[0] == '\0') return 0;
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = '\0';
  const size_t prefix = strlen(at);
  return strncmp(path, at, prefix) == 0 && path[prefix] == '/';
}

// How many of `wanted` bytes fit; -1 and errno: none.
static ssize_t fitting(size_t wanted) {
  ssize_t fits = -1;
  pthread_mutex_lock(&lock);
  if (writes_left <= 0) {
    errno = EIO;
  } else if (bytes_left <= 0 && wanted > 0) {
    errno = ENOSPC;
  } else {
    fits = (long long)wanted < bytes_left ? (ssize_t)wanted : (ssize_t)bytes_left;
    if (bytes_left != LLONG_MAX) bytes_left -= fits;
    if (writes_left != LLONG_MAX) --writes_left;
  }
  pthread_mutex_unlock(&lock);
  return fits;
}

static void give_back(long long bytes) {
  pthread_mutex_lock(&lock);
  if (bytes_left != LLONG_MAX) bytes_left += bytes;
  pthread_mutex_unlock(&lock);
}

// The result for the caller instead of `fits`, when the disk reports errors late.
static ssize_t answered(int fd, ssize_t fits, size_t wanted) {
  if (!late || fits == (ssize_t)wanted || fd >= kMostDescriptors) return fits;
  lost[fd] = (char)(fits < 0 ? errno : ENOSPC);
  return (ssize_t)wanted;
}

ssize_t write(int fd, const void* data, size_t bytes) {
  if (!is_on_disk(fd)) return REAL(write)(fd, data, bytes);
  ssize_t fits = fitting(bytes);
  if (fits > 0 && fits != (ssize_t)bytes && (fcntl(fd, F_GETFL) & O_DIRECT) != 0) fits -= fits % 4096;
  if (fits > 0 && REAL(write)(fd, data, (size_t)fits) != fits) {
    give_back(fits);  // as O_DIRECT is refused by file systems without it
    return -1;
  }
  return answered(fd, fits, bytes);
}

static size_t bytes_of(const struct iovec* parts, int count) {
  size_t bytes = 0;
  for (int i = 0; i < count; ++i) bytes += parts[i].iov_len;
  return bytes;
}

// `fits` bytes of the parts, one by one.
static void write_parts(int fd, const struct iovec* parts, ssize_t fits) {
  for (; fits > 0; ++parts) {
    const size_t some = parts->iov_len < (size_t)fits ? parts->iov_len : (size_t)fits;
    if (some > 0 && REAL(write)(fd, parts->iov_base, some) != (ssize_t)some) abort();
    fits -= (ssize_t)some;
  }
}

ssize_t writev(int fd, const struct iovec* parts, int count) {
  if (!is_on_disk(fd)) return REAL(writev)(fd, parts, count);
  const size_t bytes = bytes_of(parts, count);
  ssize_t fits = fitting(bytes);
  if (fits > 0 && fits != (ssize_t)bytes && (fcntl(fd, F_GETFL) & O_DIRECT) != 0) fits -= fits % 4096;
  write_parts(fd, parts, fits);
  return answered(fd, fits, bytes);
}

// Refuses calls that the engine does not use today, since they would bypass the limits: so a test fails.
static int refused(int fd) {
  if (!is_on_disk(fd)) return 0;
  errno = ENOSYS;
  return 1;
}

ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  return refused(fd) ? -1 : REAL(pwrite)(fd, data, bytes, offset);
}
ssize_t pwritev(int fd, const struct iovec* parts, int count, off_t offset) {
  return refused(fd) ? -1 : REAL(pwritev)(fd, parts, count, offset);
}
int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  return refused(fd) ? -1 : REAL(fallocate)(fd, mode, offset, bytes);
}
int posix_fallocate(int fd, off_t offset, off_t bytes) {
  return refused(fd) ? ENOSYS : REAL(posix_fallocate)(fd, offset, bytes);
}
ssize_t copy_file_range(int in, off_t* in_offset, int out, off_t* out_offset, size_t bytes, unsigned flags) {
  return refused(out) ? -1 : REAL(copy_file_range)(in, in_offset, out, out_offset, bytes, flags);
}
ssize_t sendfile(int out, int in, off_t* offset, size_t bytes) {
  return refused(out) ? -1 : REAL(sendfile)(out, in, offset, bytes);
}

int ftruncate(int fd, off_t bytes) {
  struct stat before;
  if (!is_on_disk(fd) || fstat(fd, &before) != 0) return REAL(ftruncate)(fd, bytes);
  if (fitting(0) < 0) return -1;
  const int result = REAL(ftruncate)(fd, bytes);
  if (result == 0 && bytes < before.st_size) give_back(before.st_size - bytes);
  return result;
}
int ftruncate64(int fd, off_t bytes) { return ftruncate(fd, bytes); }

int unlinkat(int directory, const char* name, int flags) {
  struct stat before;
  const int counts =
      directory >= 0 && is_on_disk(directory) && fstatat(directory, name, &before, AT_SYMLINK_NOFOLLOW) == 0;
  const int result = REAL(unlinkat)(directory, name, flags);
  if (result == 0 && counts && S_ISREG(before.st_mode) && before.st_nlink == 1) give_back(before.st_size);
  return result;
}

// The error of `fd`, or of another descriptor of its file.
static int take_error(int fd) {
  struct stat own, other;
  if (!late || fd < 0 || fd >= kMostDescriptors || fstat(fd, &own) != 0) return 0;
  for (int i = 0; i < kMostDescriptors; ++i) {
    if (lost[i] == 0 || fstat(i, &other) != 0 || own.st_dev != other.st_dev || own.st_ino != other.st_ino) continue;
    const int error_number = lost[i];
    lost[i] = 0;
    return error_number;
  }
  return 0;
}

int close(int fd) {
  const int error_number = take_error(fd);
  const int result = REAL(close)(fd);
  if (error_number == 0) return result;
  errno = error_number;
  return -1;
}
