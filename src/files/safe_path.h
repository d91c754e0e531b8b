// What Sonde opens, makes, follows and removes where it records: docs/format.md, "What is written where".
//
// All below a dump's path is reached through descriptors of directories that belong to this user and that nobody else may
// write to, so nothing that lies there can lead out of the dump.
#pragma once

#include <sys/types.h>

#include <filesystem>

#include "files/files.h"
#include "sonde/result.h"

namespace sonde {

enum class Missing { make, leave };  // leave: `not_found` where there is nothing

// The directory `path`, which a plan names. Symbolic links on the way are followed where they belong to root or to this
// user. It must belong to one of them, and others may not write to it unless it is sticky.
Result<Fd> open_dump_path(const std::filesystem::path& path, Missing missing);

// `relative` below the open directory `base`, which is `base_path` in messages: no links, nobody else's.
// When `base` has been removed it fails, rather than making a second dump beside the lost one.
Result<Fd> open_below(int base, const std::filesystem::path& base_path, const std::filesystem::path& relative,
                      Missing missing);

// `path`, which is the dump's path `root` or lies below it.
Result<Fd> open_in_dump(const std::filesystem::path& root, const std::filesystem::path& path, Missing missing);

enum class Access { read, append };  // append: also reads, and makes the file where it is missing

// The file with the name of `path` in the open `directory`: a regular file of this user, with no second name if it is to
// be appended to. Never waits, truncates or follows. A finished file gets kOpenMode back to be appended to.
Result<Fd> open_own_file(int directory, const std::filesystem::path& path, Access access);

// Fails when there is something under this name that is not a regular file of this user: what is to be replaced.
Status check_replaceable(int directory, const std::filesystem::path& path);

// A file that the user names, or that stands in a directory the user names, to be written from its beginning or at its end.
// Another user's file is not emptied and another user's link not followed; nothing is waited for. Devices and pipes, as
// /dev/stdout, are written to as they are.
enum class OutputMode { rewrite, append };
Result<Fd> open_output(const std::filesystem::path& path, OutputMode how, mode_t mode = 0666);

// What `sonde verify --complete` makes is made in a directory of this name, below one that is a number.
inline constexpr const char* kMadeAgain = "tree";

// Removes the regular files in `directory` whose names are decimal numbers, and, with a second level, those in
// directories with such names, their kMadeAgain with all that is in it, and these.
void remove_numbered(int directory, int levels);

}  // namespace sonde
