#include "ground/files/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <memory>

namespace sonde {
namespace {

namespace fs = std::filesystem;

struct Close {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

fs::file_type type_of(mode_t mode) {
  if (S_ISREG(mode)) return fs::file_type::regular;
  if (S_ISDIR(mode)) return fs::file_type::directory;
  return S_ISLNK(mode) ? fs::file_type::symlink : fs::file_type::unknown;
}

// Some file systems do not say it in the directory.
fs::file_type type_of(DIR* directory, const dirent& entry) {
  if (entry.d_type != DT_UNKNOWN) return type_of(DTTOIF(entry.d_type));
  struct stat status {};
  const bool is_known = ::fstatat(::dirfd(directory), entry.d_name, &status, AT_SYMLINK_NOFOLLOW) == 0;
  return is_known ? type_of(status.st_mode) : fs::file_type::unknown;
}

}  // namespace

std::error_code for_each_entry(const fs::path& directory,
                               const std::function<void(std::string_view, fs::file_type)>& take) {
  return for_each_entry(Fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), take);
}

std::error_code for_each_entry(Fd directory, const std::function<void(std::string_view, fs::file_type)>& take) {
  const std::unique_ptr<DIR, Close> open(directory ? ::fdopendir(directory.get()) : nullptr);
  if (!open) return {errno, std::generic_category()};
  static_cast<void>(directory.release());
  while (true) {
    errno = 0;
    const dirent* const entry = ::readdir(open.get());
    if (entry == nullptr) return {errno, std::generic_category()};
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") take(name, type_of(open.get(), *entry));
  }
}

}  // namespace sonde
