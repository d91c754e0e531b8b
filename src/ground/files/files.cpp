#include "ground/files/files.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "ground/files/safe_path.h"

namespace sonde {
namespace {

constexpr std::size_t kMostPerWrite = 1 << 30;  // the kernel takes a little less than 2 GiB at a time
constexpr std::size_t kDirectUnit = 4096;       // enough for every block device in use
constexpr std::uint64_t kLeastFreeBytes = 1 << 20;

std::string reason(int error_number) {
  std::string text = std::generic_category().message(error_number);
  if (!text.empty()) {
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  }
  return text;
}

bool has_parent_step(const std::filesystem::path& path) {
  return std::any_of(path.begin(), path.end(), [](const auto& part) { return part == ".."; });
}

// Bytes up to and with the last newline.
std::uint64_t whole_row_bytes(int fd, std::uint64_t size) {
  std::array<char, 4096> piece{};
  while (size > 0) {
    const std::uint64_t start = size - std::min<std::uint64_t>(size, piece.size());
    const std::size_t got = read_up_to(fd, start, piece.data(), size - start);
    if (got == 0) return size;  // unreadable: leave it alone
    const std::string_view text(piece.data(), got);
    const std::size_t at = text.rfind('\n');
    if (at != std::string_view::npos) return start + at + 1;
    size = start;
  }
  return 0;
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void Fd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Error io_error(std::string_view operation, const std::filesystem::path& path, int error_number) {
  return Error{ErrorCode::io, std::string("cannot ")
                                  .append(operation)
                                  .append(" '")
                                  .append(path.string())
                                  .append("': ")
                                  .append(reason(error_number))};
}

Status make_directories(const std::filesystem::path& path) {
  if (has_parent_step(path)) return io_error("make directory", path, EINVAL);
  if (::mkdir(path.c_str(), kDirectoryMode) == 0) return {};
  std::filesystem::path made;
  for (const auto& part : path) {
    made /= part;
    if (part.empty() || ::mkdir(made.c_str(), kDirectoryMode) == 0) continue;
    const int error_number = errno;
    struct stat status {};
    if (::stat(made.c_str(), &status) != 0) {
      return io_error("make directory", made, error_number == EEXIST ? errno : error_number);
    }
    if (!S_ISDIR(status.st_mode)) return io_error("make directory", made, ENOTDIR);
  }
  return {};
}

Result<Fd> open_directory(const std::filesystem::path& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return io_error("open directory", path, errno);
  return fd;
}

Status check_can_write(const std::filesystem::path& path) {
  if (has_parent_step(path)) return io_error("make directory", path, EINVAL);
  std::filesystem::path nearest = path;
  struct stat status {};
  while (::stat(nearest.c_str(), &status) != 0) {
    if (errno != ENOENT) return io_error("make directory", path, errno);
    if (nearest == nearest.parent_path()) return io_error("make directory", path, ENOENT);
    nearest = nearest.parent_path();
  }
  if (!S_ISDIR(status.st_mode)) return io_error("make directory", nearest, ENOTDIR);
  if (::faccessat(AT_FDCWD, nearest.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    return io_error("write to directory", nearest, errno);
  }
  struct statvfs device {};
  if (::statvfs(nearest.c_str(), &device) == 0 &&
      static_cast<std::uint64_t>(device.f_bavail) * device.f_frsize < kLeastFreeBytes) {
    return io_error("write to directory", nearest, ENOSPC);
  }
  return {};
}

int write_all(int fd, const void* data, std::size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done = ::write(fd, at, std::min(bytes, kMostPerWrite));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return errno;
    if (done == 0) return ENOSPC;
    at += done;
    bytes -= static_cast<std::size_t>(done);
  }
  return 0;
}

int write_at(int fd, std::uint64_t offset, const void* data, std::size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done = ::pwrite(fd, at, std::min(bytes, kMostPerWrite), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return errno;
    if (done == 0) return ENOSPC;
    at += done;
    offset += static_cast<std::uint64_t>(done);
    bytes -= static_cast<std::size_t>(done);
  }
  return 0;
}

std::size_t read_up_to(int fd, std::uint64_t offset, void* out, std::size_t bytes) {
  std::size_t got = 0;
  while (got < bytes) {
    const ssize_t done = ::pread(fd, static_cast<char*>(out) + got, bytes - got, static_cast<off_t>(offset + got));
    if (done < 0 && errno == EINTR) continue;
    if (done == 0) errno = 0;
    if (done <= 0) break;
    got += static_cast<std::size_t>(done);
  }
  return got;
}

bool read_at(int fd, std::uint64_t offset, void* out, std::size_t bytes) {
  return read_up_to(fd, offset, out, bytes) == bytes;
}

std::string text_at(int fd, std::uint64_t offset, std::size_t bytes) {
  std::string text(bytes, '\0');
  text.resize(read_up_to(fd, offset, text.data(), bytes));
  return text;
}

int AsideFile::create(mode_t mode) {
  static std::atomic<std::uint32_t> counter{0};
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::snprintf(name_, sizeof name_, "%u", counter.fetch_add(1));
    fd_ = Fd(::openat(aside_, name_, kFlags, mode));
    if (fd_) return 0;
    if (errno != EEXIST) break;
  }
  const int error_number = errno;
  name_[0] = '\0';
  return error_number;
}

int AsideFile::write(std::string_view head, const void* data, std::size_t bytes) {
  // One call for header and data: most files of a dump are small.
  const iovec parts[2] = {{const_cast<char*>(head.data()), head.size()},
                          {const_cast<void*>(data), std::min(bytes, kMostPerWrite)}};
  ssize_t done = 0;
  do {
    done = ::writev(fd_.get(), parts, 2);
  } while (done < 0 && errno == EINTR);
  if (done < 0) return errno;
  auto written = static_cast<std::size_t>(done);
  if (written < head.size()) {
    const int error_number = write_all(fd_.get(), head.data() + written, head.size() - written);
    if (error_number != 0) return error_number;
    written = head.size();
  }
  const std::size_t from = written - head.size();
  return write_all(fd_.get(), static_cast<const char*>(data) + from, bytes - from);
}

int AsideFile::write_direct(const std::byte* pages, std::size_t bytes) {
  const std::size_t whole = bytes / kDirectUnit * kDirectUnit;
  if (::fcntl(fd_.get(), F_SETFL, O_DIRECT) != 0) return errno;
  const int error_number = write_all(fd_.get(), pages, whole);
  if (::fcntl(fd_.get(), F_SETFL, 0) != 0) return errno;
  if (error_number == EINVAL) ::lseek(fd_.get(), 0, SEEK_SET);  // as if nothing was written
  return error_number != 0 ? error_number : write_all(fd_.get(), pages + whole, bytes - whole);
}

int AsideFile::commit(int directory, const char* name, bool replace) {
  // Some file systems report a full disk only here.
  if (name_[0] == '\0') return EBADF;
  if (fd_ && ::close(fd_.release()) != 0 && errno != EINTR) return errno;
  if (::renameat2(aside_, name_, directory, name, replace ? 0 : RENAME_NOREPLACE) != 0) {
    if (errno != EINVAL || replace) return errno;
    // A file system without RENAME_NOREPLACE: checks first. No other process writes here.
    if (::faccessat(directory, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) return EEXIST;
    if (::renameat(aside_, name_, directory, name) != 0) return errno;
  }
  name_[0] = '\0';
  return 0;
}

AsideFile::~AsideFile() {
  if (name_[0] != '\0') ::unlinkat(aside_, name_, 0);
}

Status write_whole_file(int aside, int directory, const std::filesystem::path& path, std::string_view text,
                        mode_t mode) {
  if (Status free = check_replaceable(directory, path); !free) return free;
  AsideFile file(aside);
  int error_number = file.create(mode);
  if (error_number == 0) error_number = file.write(text, nullptr, 0);
  if (error_number == 0) error_number = file.commit(directory, path.filename().c_str(), true);
  if (error_number != 0) return io_error("write", path, error_number);
  return {};
}

Result<AppendFile> AppendFile::open(int directory, std::filesystem::path path, std::string_view header,
                                    std::optional<std::uint64_t> keep_bytes) {
  Result<Fd> opened = open_own_file(directory, path, Access::append);
  if (!opened) return opened.error();
  AppendFile file;
  file.path_ = std::move(path);
  file.fd_ = std::move(*opened);
  const int fd = file.fd_.get();
  struct stat status {};
  if (::fstat(fd, &status) != 0) return io_error("open", file.path_, errno);
  const auto size = static_cast<std::uint64_t>(status.st_size);
  file.size_ = keep_bytes ? std::min(size, *keep_bytes) : whole_row_bytes(fd, size);
  if (file.size_ != size && ::ftruncate(fd, static_cast<off_t>(file.size_)) != 0) {
    return io_error("repair the end of", file.path_, errno);
  }
  file.header_ = header;
  if (file.size_ == 0) file.rows_ = header;
  return file;
}

Status AppendFile::flush() {
  if (rows_.empty()) return {};
  const int error_number = fd_ ? write_all(fd_.get(), rows_.data(), rows_.size()) : EBADF;
  if (error_number != 0) {
    rows_ = size_ == 0 ? header_ : "";  // a disk that was full may take later rows
    if (fd_ && ::ftruncate(fd_.get(), static_cast<off_t>(size_)) != 0) fd_.reset();
    return io_error("append to", path_, error_number);
  }
  size_ += rows_.size();
  rows_.clear();
  return {};
}

Status AppendFile::close() {
  if (!fd_) return {};
  Status status = flush();
  if (fd_ && ::fchmod(fd_.get(), kFinishedMode) != 0 && status) {
    status = io_error("close", path_, errno);
  }
  // Some file systems report a full disk only here.
  if (fd_ && ::close(fd_.release()) != 0 && errno != EINTR && status) status = io_error("append to", path_, errno);
  return status;
}

AppendFile::~AppendFile() { static_cast<void>(close()); }

}  // namespace sonde
