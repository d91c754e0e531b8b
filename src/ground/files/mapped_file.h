// MappedFile: read access to the bytes of a file, in place if nobody else can change the file meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "sonde/result.h"

namespace sonde {

// "cannot read '{path}': {why}"
Error cannot_read(const std::filesystem::path& path, ErrorCode code, const std::string& why);

// All of a regular file of at most `most_bytes`. Never waits: a pipe, a socket or a device is refused.
Result<std::string> read_whole_file(const std::filesystem::path& path,
                                    std::uint64_t most_bytes = std::uint64_t{1} << 32);

class MappedFile {
 public:
  MappedFile() = default;
  // A regular file with at least one byte. A file of this user's or root's is mapped; a small one, and one that
  // somebody else could truncate meanwhile (which kills a process that has it mapped), is read into memory. All files
  // read in this way at one time take at most half of the machine's memory. `path` may also be that of a tensor in a
  // pack (packed_path.h).
  static Result<MappedFile> open(const std::filesystem::path& path);
  // From now on files of up to so many bytes are read into memory instead: a program that shall survive a file that
  // becomes shorter while it is used.
  static void read_up_to_bytes(std::size_t bytes);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::byte* data() const { return static_cast<const std::byte*>(mapping_) + before_; }
  std::size_t bytes() const { return bytes_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data()), bytes_}; }
  bool is_copy() const { return is_copy_; }

 private:
  void* mapping_ = nullptr;
  std::size_t before_ = 0;  // bytes of the mapping before the first: a mapping begins at a page
  std::size_t bytes_ = 0;
  bool is_copy_ = false;
};

}  // namespace sonde
