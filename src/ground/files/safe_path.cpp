#include "ground/files/safe_path.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <deque>
#include <string>
#include <vector>

#include "ground/files/directory.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as the kernel
constexpr mode_t kPermissions = 07777;

// File systems that may show one owner and one mode for all files, whatever was set.
constexpr std::array kShowsOwnersOfItsOwn = {
    0x4d44L /* FAT */,     0x2011bab0L /* exFAT */, 0x7366746eL /* NTFS */, 0xff534d42L /* CIFS */,
    0xfe534d42L /* SMB */, 0x65735546L /* FUSE */,  0x01021997L /* 9P */,   0x6969L /* NFS, where root is squashed */,
};

std::string_view kind_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFLNK:
      return "a symbolic link";
    case S_IFDIR:
      return "a directory";
    case S_IFIFO:
      return "a pipe";
    case S_IFSOCK:
      return "a socket";
    case S_IFCHR:
    case S_IFBLK:
      return "a device";
    default:
      return "a file";
  }
}

Error refuse(const fs::path& path, const std::string& why) {
  return Error{ErrorCode::io, fmt::format("cannot record to '{}': {}", path.string(), why)};
}

Error wrong_kind(const fs::path& path, std::string_view expected, const struct stat& found) {
  return refuse(path, fmt::format("expected {}, found {} of user {}; remove it, or choose another path", expected,
                                  kind_of(found.st_mode), found.st_uid));
}

Error of_another(const fs::path& path, const struct stat& status) {
  return refuse(path, fmt::format("the {} belongs to user {}, and this process is user {}; choose a path that is not "
                                  "there yet, or one of your own",
                                  S_ISDIR(status.st_mode) ? "directory" : "file", status.st_uid, ::geteuid()));
}

// Tests the owner and mode that this file system shows for our own files. Only used for file systems that
// may not show the truth.
bool shows_as_ours(int directory, const struct stat& status) {
  struct statfs device {};
  if (::fstatfs(directory, &device) != 0) return false;
  if (std::ranges::find(kShowsOwnersOfItsOwn, static_cast<long>(device.f_type)) == kShowsOwnersOfItsOwn.end())
    return false;
  const std::string name = fmt::format(".sonde-{}", ::getpid());
  const Fd probe(::openat(directory, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kOpenMode));
  struct stat own {};
  const bool known = probe && ::fstat(probe.get(), &own) == 0;
  if (probe) ::unlinkat(directory, name.c_str(), 0);
  const bool keeps_modes = (own.st_mode & 0777) == kOpenMode;
  return known && own.st_uid == status.st_uid && (!keeps_modes || (status.st_mode & 022) == 0);
}

// A user's private group, as assumed by umask 002, does not count as others.
bool others_may_write(const struct stat& status) {
  return (status.st_mode & S_IWOTH) != 0 || ((status.st_mode & S_IWGRP) != 0 && status.st_gid != ::getegid());
}

Status check_directory(int directory, const fs::path& path, bool is_dump_path) {
  struct stat status {};
  if (::fstat(directory, &status) != 0) return io_error("look at", path, errno);
  const bool ours = status.st_uid == ::geteuid() || (is_dump_path && status.st_uid == 0);
  const bool safe = !others_may_write(status) || (is_dump_path && (status.st_mode & S_ISVTX) != 0);
  if ((ours && safe) || shows_as_ours(directory, status)) return {};
  if (!ours) return of_another(path, status);
  return refuse(path, fmt::format("others may write to this directory (mode {:04o}); try chmod go-w on it, or choose "
                                  "another path",
                                  status.st_mode & kPermissions));
}

// Walks through directories, name by name, each opened in the one before.
class Way {
 public:
  Way(int from, fs::path from_path, Missing missing) : at_(from), path_(std::move(from_path)), missing_(missing) {}

  int at() const { return at_; }
  const fs::path& path() const { return path_; }

  // Enters the directory `name`. If a link is in its place and the caller accepts links, `link` gets its target.
  Status enter(const std::string& name, std::string* link) {
    const fs::path next = path_ / name;
    Fd fd = open(name);
    if (!fd && errno == ENOENT) {
      if (missing_ == Missing::leave) return Error{ErrorCode::not_found, io_error("open", next, ENOENT).message};
      if (::mkdirat(at_, name.c_str(), kDirectoryMode) != 0 && errno != EEXIST) {
        return io_error("make directory", next, errno);
      }
      fd = open(name);
    }
    if (!fd && errno == ENOTDIR) return not_a_directory(name, next, link);
    if (!fd) return io_error("open directory", next, errno);
    fd_ = std::move(fd);
    at_ = fd_.get();
    path_ = next;
    return {};
  }

  Status restart() {
    Fd root(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root) return io_error("open directory", "/", errno);
    fd_ = std::move(root);
    at_ = fd_.get();
    path_ = "/";
    return {};
  }

  // For reading too, where that is allowed.
  Result<Fd> finish() const {
    Fd fd(::openat(at_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd && errno == EACCES) fd = Fd(::openat(at_, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!fd) return io_error("open directory", path_, errno);
    return fd;
  }

 private:
  // With O_DIRECTORY the kernel also mounts directories on demand.
  Fd open(const std::string& name) const {
    return Fd(::openat(at_, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  }

  Status not_a_directory(const std::string& name, const fs::path& path, std::string* link) const {
    struct stat status {};
    const Fd fd(::openat(at_, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!fd || ::fstat(fd.get(), &status) != 0) return io_error("open directory", path, errno);
    if (!S_ISLNK(status.st_mode)) return wrong_kind(path, "a directory", status);
    if (link == nullptr) {
      return refuse(path,
                    fmt::format("it is a symbolic link of user {}, and none is followed inside a dump; remove it, "
                                "or choose another path",
                                status.st_uid));
    }
    if (status.st_uid != 0 && status.st_uid != ::geteuid()) {
      return refuse(path,
                    fmt::format("it is a symbolic link of user {}, and this process is user {}; name the directory "
                                "itself, or choose another path",
                                status.st_uid, ::geteuid()));
    }
    std::array<char, PATH_MAX> text{};
    const ssize_t length = ::readlinkat(fd.get(), "", text.data(), text.size() - 1);
    if (length <= 0) return io_error("follow", path, length < 0 ? errno : ENOENT);
    link->assign(text.data(), static_cast<std::size_t>(length));
    return {};
  }

  Fd fd_;
  int at_;
  fs::path path_;
  Missing missing_;
};

void put_in_front(std::deque<std::string>& names, const fs::path& path) {
  std::deque<std::string> front;
  for (const fs::path& name : path.relative_path()) {
    if (!name.empty() && name != ".") front.push_back(name.string());
  }
  names.insert(names.begin(), front.begin(), front.end());
}

bool is_number(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

Status check_file(int directory, const fs::path& path, const struct stat& status, bool appends) {
  if (!S_ISREG(status.st_mode)) return wrong_kind(path, "a file", status);
  if (status.st_uid != ::geteuid() && !shows_as_ours(directory, status)) return of_another(path, status);
  if (appends && status.st_nlink != 1) {
    return refuse(path, fmt::format("the file has {} names, and new content would be in all of them; make a copy "
                                    "of it, or choose another path",
                                    status.st_nlink));
  }
  return {};
}

// The reason why `name` could not be opened, from the kind of file that is there.
Error cannot_open(int directory, const fs::path& path, int error_number) {
  struct stat status {};
  if (::fstatat(directory, path.filename().c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(status.st_mode)) {
    return wrong_kind(path, "a file", status);
  }
  return io_error("open", path, error_number);
}

Fd open_entry(int directory, const std::string& name) {
  return Fd(::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

struct Entry {
  std::string name;
  fs::file_type type;
};

// A copy, since entries are removed on the way. Empty if the directory cannot be read.
std::vector<Entry> entries_of(int directory) {
  std::vector<Entry> found;
  for_each_entry(open_entry(directory, "."), [&](std::string_view name, fs::file_type type) {
    found.push_back({std::string(name), type});
  });
  return found;
}

// A link in it is removed and not followed.
void remove_tree(int directory, const std::string& name) {
  const Fd tree = open_entry(directory, name);
  if (!tree) return;
  for (const Entry& entry : entries_of(tree.get())) {
    if (entry.type == fs::file_type::directory) {
      remove_tree(tree.get(), entry.name);
    } else {
      ::unlinkat(tree.get(), entry.name.c_str(), 0);
    }
  }
  ::unlinkat(directory, name.c_str(), AT_REMOVEDIR);
}

}  // namespace

Result<Fd> open_dump_path(const fs::path& path, Missing missing) {
  if (std::ranges::find(path, "..") != path.end()) return io_error("make directory", path, EINVAL);
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  if (error) return io_error("open directory", path, error.value());
  Way way(-1, "/", missing);
  if (Status started = way.restart(); !started) return started.error();
  std::deque<std::string> names;
  put_in_front(names, absolute);
  for (int links = 0; !names.empty();) {
    const std::string name = names.front();
    names.pop_front();
    std::string link;
    if (Status entered = way.enter(name, &link); !entered) return entered.error();
    if (link.empty()) continue;
    if (++links > kMostLinks) return io_error("open directory", path, ELOOP);
    put_in_front(names, link);
    if (link.front() != '/') continue;
    if (Status started = way.restart(); !started) return started.error();
  }
  if (Status checked = check_directory(way.at(), way.path(), true); !checked) return checked.error();
  return way.finish();
}

Result<Fd> open_below(int base, const fs::path& base_path, const fs::path& relative, Missing missing) {
  if (std::ranges::find(relative, "..") != relative.end()) return io_error("make directory", relative, EINVAL);
  Way way(base, base_path, missing);
  for (const fs::path& name : relative) {
    if (name.empty() || name == ".") continue;
    if (Status entered = way.enter(name.string(), nullptr); !entered) return entered.error();
    if (Status checked = check_directory(way.at(), way.path(), false); !checked) return checked.error();
  }
  return way.finish();
}

Result<Fd> open_in_dump(const fs::path& root, const fs::path& path, Missing missing) {
  Result<Fd> base = open_dump_path(root, missing);
  if (!base) return base;
  return open_below(base->get(), root, path.lexically_relative(root), missing);
}

Result<Fd> open_own_file(int directory, const fs::path& path, Access access) {
  const fs::path file = path.filename();
  const char* const name = file.c_str();
  const bool appends = access == Access::append;
  constexpr int kSafely = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  const int flags = (appends ? O_RDWR | O_APPEND | O_CREAT : O_RDONLY) | kSafely;
  Fd fd(::openat(directory, name, flags, kOpenMode));
  bool reopened = false;
  if (!fd && errno == EACCES && appends) {  // finished by an earlier run
    reopened = true;
    fd = Fd(::openat(directory, name, O_RDONLY | kSafely));
  }
  if (!fd && errno == ENOENT) return Error{ErrorCode::not_found, io_error("open", path, ENOENT).message};
  if (!fd) return cannot_open(directory, path, errno);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return io_error("open", path, errno);
  if (Status checked = check_file(directory, path, status, appends); !checked) return checked.error();
  if (!appends) return fd;
  if ((status.st_mode & 0777) != kOpenMode && ::fchmod(fd.get(), kOpenMode) != 0) return io_error("open", path, errno);
  if (!reopened) return fd;
  Fd writable(::openat(directory, name, flags & ~O_CREAT));
  struct stat second {};
  if (!writable || ::fstat(writable.get(), &second) != 0) return cannot_open(directory, path, errno);
  if (second.st_dev != status.st_dev || second.st_ino != status.st_ino) return io_error("open", path, EBUSY);
  return writable;
}

Status check_replaceable(int directory, const fs::path& path) {
  struct stat status {};
  if (::fstatat(directory, path.filename().c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno == ENOENT ? Status() : io_error("write", path, errno);
  }
  return check_file(directory, path, status, false);
}

Result<Fd> open_output(const fs::path& path, OutputMode how, mode_t mode) {
  const auto failed = [&](const std::string& why) {
    return Error{ErrorCode::io, fmt::format("cannot write '{}': {}", path.string(), why)};
  };
  constexpr int kFlags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  const int end = how == OutputMode::append ? O_APPEND : 0;
  Fd fd(::open(path.c_str(), kFlags | end | O_NOFOLLOW, mode));
  struct stat status {};
  if (!fd && errno == ELOOP && ::lstat(path.c_str(), &status) == 0) {
    if (status.st_uid != 0 && status.st_uid != ::geteuid()) {
      return failed(fmt::format("it is a symbolic link of user {}; name the file itself", status.st_uid));
    }
    fd = Fd(::open(path.c_str(), kFlags | end, mode));
  }
  if (!fd && errno == ENXIO) return failed("it is a socket, or a pipe without a reader");
  if (!fd || ::fstat(fd.get(), &status) != 0) return io_error("write", path, errno);
  if (S_ISREG(status.st_mode)) {
    if (status.st_uid != ::geteuid()) {
      return failed(
          fmt::format("the file belongs to user {}, and this process is user {}; remove it, or choose another "
                      "name",
                      status.st_uid, ::geteuid()));
    }
    if (how == OutputMode::rewrite && ::ftruncate(fd.get(), 0) != 0) return io_error("write", path, errno);
  }
  const int flags = ::fcntl(fd.get(), F_GETFL);
  ::fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK);
  return fd;
}

bool only_ours_to_exchange(const fs::path& path) {
  fs::path at;
  return path.is_absolute() && std::ranges::all_of(path, [&](const fs::path& name) {
           at /= name;
           struct stat status {};
           if (::lstat(at.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return false;
           if (status.st_uid != 0 && status.st_uid != ::geteuid()) return false;
           return !others_may_write(status) || (status.st_mode & S_ISVTX) != 0;
         });
}

void remove_numbered(int directory, int levels) {
  for (const Entry& entry : entries_of(directory)) {
    if (!is_number(entry.name)) continue;
    if (entry.type == fs::file_type::regular) ::unlinkat(directory, entry.name.c_str(), 0);
    if (entry.type != fs::file_type::directory || levels < 2) continue;
    if (const Fd below = open_entry(directory, entry.name)) {
      remove_tree(below.get(), kMadeAgain);
      remove_numbered(below.get(), levels - 1);
    }
    ::unlinkat(directory, entry.name.c_str(), AT_REMOVEDIR);
  }
}

}  // namespace sonde
