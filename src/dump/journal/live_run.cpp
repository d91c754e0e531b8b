#include "dump/journal/live_run.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>

#include "ground/files/files.h"

namespace sonde {

bool is_recording(const std::filesystem::path& own_directory) {
  const Fd owner(::open((own_directory / "owner").c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (!owner || ::fstat(owner.get(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  // Shared, so that several readers do not see each other's lock.
  return ::flock(owner.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

bool is_locked_elsewhere(int owner) { return ::flock(owner, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; }

}  // namespace sonde
