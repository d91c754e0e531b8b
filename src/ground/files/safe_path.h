// Safe opening, making, following and removing of files while recording: docs/format.md, "What is written where".
//
// Everything below a dump's path is reached through descriptors of directories that belong to this user and that nobody
// else may write to, so nothing in them can lead out of the dump.
#pragma once

#include <sys/types.h>

#include <filesystem>

#include "ground/files/files.h"
#include "sonde/result.h"

namespace sonde {

enum class Missing { make, leave };  // leave: `not_found` if nothing exists

// The directory `path`, named by a plan. Symbolic links on the way are followed if they belong to root or to this
// user. It must belong to one of them, and others may not write to it unless it is sticky.
Result<Fd> open_dump_path(const std::filesystem::path& path, Missing missing);

// `relative` below the open directory `base`, called `base_path` in messages: no links, no directories of others.
// If `base` has been removed it fails, instead of making a second dump beside the lost one.
Result<Fd> open_below(int base, const std::filesystem::path& base_path, const std::filesystem::path& relative,
                      Missing missing);

// `path`, which must be the dump's path `root` or lie below it.
Result<Fd> open_in_dump(const std::filesystem::path& root, const std::filesystem::path& path, Missing missing);

enum class Access { read, append };  // append: also reads, and makes the file if it is missing

// The file with the name of `path` in the open `directory`: a regular file of this user, with no second name if it is
// opened for append. Never waits, truncates or follows. A finished file gets kOpenMode back for append.
Result<Fd> open_own_file(int directory, const std::filesystem::path& path, Access access);

// Checks a file before it is replaced: fails if the name exists and is not a regular file of this user.
Status check_replaceable(int directory, const std::filesystem::path& path);

// A file that the user names, or in a directory the user names, to be written from its beginning or at its end.
// Another user's file is not emptied and another user's link not followed; never waits. Devices and pipes, such as
// /dev/stdout, are written to directly.
enum class OutputMode { rewrite, append };
Result<Fd> open_output(const std::filesystem::path& path, OutputMode how, mode_t mode = 0666);

// `sonde verify --complete` makes its files in a directory of this name, below one whose name is a number.
inline constexpr const char* kMadeAgain = "tree";

// Whether only root and this user can exchange a part of `path`, an absolute one: all are directories of theirs, which
// others may not write to unless they are sticky. Links do not count as such.
bool only_ours_to_exchange(const std::filesystem::path& path);

// Removes the regular files in `directory` whose names are decimal numbers, and, with a second level, those in
// directories with such names, their kMadeAgain with its contents, and these.
void remove_numbered(int directory, int levels);

}  // namespace sonde
