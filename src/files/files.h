// Files of a dump: directories 0700, whole-or-absent files (written aside, then renamed), append-only files.
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
inline constexpr mode_t kFinishedMode = 0400;  // every file that nobody writes any more
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

// Makes what is missing of `path`; what exists keeps its mode. Refuses `..`. Follows links: for paths that the user names.
// Directories of a dump being recorded: safe_path.h.
Status make_directories(const std::filesystem::path& path);
Result<Fd> open_directory(const std::filesystem::path& path);
// Fails when `path` could not be made or written to, or its device is full. Leaves nothing behind.
Status check_can_write(const std::filesystem::path& path);

// Writes all of `bytes`, whatever the kernel takes at a time. 0 or an errno.
int write_all(int fd, const void* data, std::size_t bytes);

// A file being written aside, under a name of no meaning, in the directory `aside`; gone again unless committed.
class AsideFile {
 public:
  explicit AsideFile(int aside) : aside_(aside) {}
  AsideFile(const AsideFile&) = delete;
  AsideFile& operator=(const AsideFile&) = delete;
  ~AsideFile();

  // Each returns 0 or an errno.
  int create();  // mode 0400 from the start
  int write(std::string_view head, const void* data, std::size_t bytes);
  // Past the page cache, as the first thing in the file, `pages` at the beginning of a page. EINVAL, with nothing
  // written, where the file system has no direct writes.
  int write_direct(const std::byte* pages, std::size_t bytes);
  // Moves it to `name` in `directory`. EEXIST when `replace` is false and there is one: try another name.
  int commit(int directory, const char* name, bool replace);

 private:
  int aside_;
  Fd fd_;
  char name_[24] = {};
};

// A whole small file with the name of `path` in the open `directory`; one of this user's that is there is replaced.
Status write_whole_file(int aside, int directory, const std::filesystem::path& path, std::string_view text);

// An append-only file: 0600 while open, 0400 once closed. Rows collect in `rows()`; flush() gives
// them to the kernel in one append, all or none.
class AppendFile {
 public:
  // Opens or makes the file with the name of `path` in the open `directory` (see open_own_file). What a killed run left
  // behind the last whole row is cut off: after the last newline, or after `keep_bytes` where the caller knows. `header`
  // goes into an empty file.
  static Result<AppendFile> open(int directory, std::filesystem::path path, std::string_view header,
                                 std::optional<std::uint64_t> keep_bytes = std::nullopt);
  AppendFile(AppendFile&&) noexcept = default;
  AppendFile& operator=(AppendFile&&) noexcept = default;
  ~AppendFile();  // close(), without the news

  std::string& rows() { return rows_; }
  Status flush();  // after a failure the file is as it was before
  Status close();

 private:
  AppendFile() = default;
  std::filesystem::path path_;
  Fd fd_;
  std::uint64_t size_ = 0;
  std::string rows_;
};

}  // namespace sonde
