// FileSource: brings the files of a dump that is elsewhere, as on object storage, when they are first read.
//
// Such a dump has a mirror: a directory of this user with the names of its files. A file whose bytes are not there yet
// is a placeholder: a sparse file of the right size with the mode kPlaceholderMode, or it is missing. The source puts
// the complete file in its place with a rename, so that a reader sees one or the other.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>

#include "sonde/result.h"

namespace sonde {

inline constexpr mode_t kPlaceholderMode = 0200;

enum class FileNeed : std::uint8_t {
  file,       // all bytes of `path`
  part,       // `bytes` of them from `offset` on, into a file of their own: `.{name}/{offset}-{bytes}` beside it
  directory,  // the names in `path`, and the sizes of its files
  tree,       // the same of all directories below it
};

struct FileRequest {
  FileNeed need = FileNeed::file;
  std::filesystem::path path;
  std::uint64_t offset = 0, bytes = 0;
};

// Called from any thread, several at a time. It succeeds, too, where the source has no such file, which then stays missing.
using FileSource = std::function<Status(const FileRequest&)>;

}  // namespace sonde
