// Files of a dump: directories 0700, whole-or-absent files (written under another name, then renamed), append-only
// files.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "sonde/result.h"

namespace sonde {

inline constexpr mode_t kDirectoryMode = 0700;
inline constexpr mode_t kFinishedMode = 0400;  // every file that is complete
inline constexpr mode_t kOpenMode = 0600;      // an append-only file while it is open

// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { reset(); }
  void reset();
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// "cannot {operation} '{path}': {reason}", code io.
Error io_error(std::string_view operation, const std::filesystem::path& path, int error_number);

// Makes the missing directories of `path`; existing ones keep their mode. Refuses `..`. Follows links: for paths that
// the user names.
// Directories of a dump being recorded: safe_path.h.
Status make_directories(const std::filesystem::path& path);
Result<Fd> open_directory(const std::filesystem::path& path);
// Fails if `path` cannot be made or written to, or its device is full. Leaves nothing behind.
Status check_can_write(const std::filesystem::path& path);

// Writes all of `bytes`, in several calls if needed. 0 or an errno.
int write_all(int fd, const void* data, std::size_t bytes);
// The same at `offset`; the position of the file stays.
int write_at(int fd, std::uint64_t offset, const void* data, std::size_t bytes);

// Reads `bytes` at `offset`, in several calls if needed. Returns how many it read: fewer if the file ends there, with errno
// 0, or if it cannot be read, with its errno.
std::size_t read_up_to(int fd, std::uint64_t offset, void* out, std::size_t bytes);
// Whether all of them were read; else see errno.
bool read_at(int fd, std::uint64_t offset, void* out, std::size_t bytes);
// As many of them as can be read.
std::string text_at(int fd, std::uint64_t offset, std::size_t bytes);

// A file written under a temporary name in the directory `aside`; removed unless committed.
class AsideFile {
 public:
  explicit AsideFile(int aside) : aside_(aside) {}
  AsideFile(const AsideFile&) = delete;
  AsideFile& operator=(const AsideFile&) = delete;
  ~AsideFile();

  // Each returns 0 or an errno.
  int create(mode_t mode = kFinishedMode);  // it has the mode from the start
  int write(std::string_view head, const void* data, std::size_t bytes);
  // Bypasses the page cache; must be the first write, `pages` must be page-aligned. EINVAL, with nothing
  // written, if the file system has no direct writes.
  int write_direct(const std::byte* pages, std::size_t bytes);
  // Moves it to `name` in `directory`. EEXIST if `replace` is false and the name exists: try another name.
  int commit(int directory, const char* name, bool replace);

 private:
  int aside_;
  Fd fd_;
  char name_[24] = {};
};

// A whole small file with the name of `path` in the open `directory`; replaces an existing one of this user.
Status write_whole_file(int aside, int directory, const std::filesystem::path& path, std::string_view text,
                        mode_t mode = kFinishedMode);

// An append-only file: 0600 while open, 0400 once closed. Rows collect in `rows()`; flush() passes
// them to the kernel in one append, all or none.
class AppendFile {
 public:
  // Opens or makes the file with the name of `path` in the open `directory` (see open_own_file). Cuts off the partial
  // row left by a killed run: after the last newline, or after `keep_bytes` if the caller knows it. `header` is written
  // into an empty file.
  static Result<AppendFile> open(int directory, std::filesystem::path path, std::string_view header,
                                 std::optional<std::uint64_t> keep_bytes = std::nullopt);
  AppendFile(AppendFile&&) noexcept = default;
  AppendFile& operator=(AppendFile&&) noexcept = default;
  ~AppendFile();  // close(), ignoring errors

  std::string& rows() { return rows_; }
  Status flush();  // after a failure the file is as it was before
  Status close();

 private:
  AppendFile() = default;
  std::filesystem::path path_;
  Fd fd_;
  std::uint64_t size_ = 0;
  std::string header_, rows_;
};

}  // namespace sonde
