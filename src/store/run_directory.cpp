#include "store/run_directory.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <system_error>

#include "store/side_files.h"

namespace sonde {
namespace {

constexpr const char* kOwnerFile = "owner";
constexpr const char* kAsideDirectory = "partial";

Error owned_elsewhere(const Layout& layout, int owner) {
  char text[32] = {};
  const ssize_t got = ::pread(owner, text, sizeof text - 1, 0);
  const long pid = got > 0 ? std::strtol(text, nullptr, 10) : 0;
  const std::string who = pid > 0 ? "process " + std::to_string(pid) : "another process";
  return Error{ErrorCode::busy, "cannot record to '" + layout.rank_directory().string() + "': " + who +
                                    " is recording there; wait for it, or choose another path"};
}

// A file system that cannot lock (some network ones) is used without a lock.
bool is_locked_elsewhere(int fd) { return ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; }

Result<Fd> take_ownership(const Layout& layout) {
  const std::filesystem::path path = layout.own_directory() / kOwnerFile;
  constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW;
  // To lock is to have read access only: the file of a finished run is 0400.
  Fd lock(::open(path.c_str(), O_RDONLY | O_CREAT | kFlags, kOpenMode));
  if (!lock) return io_error("open", path, errno);
  if (is_locked_elsewhere(lock.get())) return owned_elsewhere(layout, lock.get());
  if (::fchmod(lock.get(), kOpenMode) != 0) return io_error("take over", path, errno);
  const Fd out(::open(path.c_str(), O_WRONLY | O_TRUNC | kFlags));
  if (!out) return io_error("open", path, errno);
  const std::string text = std::to_string(::getpid()) + "\n";
  const int error_number = write_all(out.get(), text.data(), text.size());
  if (error_number != 0) return io_error("write", path, error_number);
  return lock;
}

void remove_leftovers(const std::filesystem::path& aside) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(aside, ignored)) {
    std::filesystem::remove_all(entry.path(), ignored);
  }
}

// Tells ext4 to spread the directories inside `directory` over the disk by their names. Files are made in their
// directory's part, and ext4 steps one by one over numbers of files removed there in the last minutes: where a large
// dump was just deleted, each new file would cost 0.5 ms instead of 0.03. Elsewhere it does nothing.
void spread_directories(const std::filesystem::path& directory) {
  const Fd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  int flags = 0;
  if (!fd || ::ioctl(fd.get(), FS_IOC_GETFLAGS, &flags) != 0) return;
  flags |= FS_TOPDIR_FL;
  static_cast<void>(::ioctl(fd.get(), FS_IOC_SETFLAGS, &flags));
}

// `partial/{pid}`: another name, and so another part of the disk, in each run.
Result<std::filesystem::path> make_aside(const Layout& layout) {
  const std::filesystem::path all = layout.own_directory() / kAsideDirectory;
  remove_leftovers(all);
  spread_directories(all);
  std::filesystem::path aside = all / std::to_string(::getpid());
  if (Status made = make_directories(aside); !made) return made.error();
  return aside;
}

// The name of this run's copy of the configuration, relative to the metadata directory.
std::string config_file_name(const Layout& layout) {
  std::error_code ignored;
  const std::filesystem::path metadata = layout.metadata_directory();
  std::string name = "data_dump.json";
  for (int run = 2; std::filesystem::exists(metadata / name, ignored); ++run) {
    name = "sonde/run_" + std::to_string(run) + ".json";
  }
  return name;
}

Status write_metadata(const Plan& plan, const Layout& layout, RunDirectory& directory) {
  Result<Fd> aside = open_directory(directory.aside);
  if (!aside) return aside.error();
  const std::filesystem::path metadata = layout.metadata_directory();
  if (!plan.source_text.empty()) {
    directory.config_file = config_file_name(layout);
    Status status = write_whole_file(aside->get(), metadata / directory.config_file, plan.source_text);
    if (!status) return status;
  }
  std::error_code ignored;
  if (std::filesystem::exists(metadata / "config.json", ignored)) return {};
  const std::string release(info(plan.sonde.version).name);
  const nlohmann::json config = {{"device_target", "CPU"}, {"ms_version", release + ".0"}};
  return write_whole_file(aside->get(), metadata / "config.json", config.dump());
}

}  // namespace

Status check_not_owned(const Layout& layout) {
  const std::filesystem::path path = layout.own_directory() / kOwnerFile;
  const Fd owner(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (owner && is_locked_elsewhere(owner.get())) return owned_elsewhere(layout, owner.get());
  return {};  // not there, or not ours to read: whether it can be written is another check
}

Result<RunDirectory> open_run_directory(const Plan& plan, const Layout& layout) {
  RunDirectory directory;
  if (Status made = make_directories(layout.own_directory() / kAsideDirectory); !made) return made.error();
  Result<Fd> owner = take_ownership(layout);
  if (!owner) return owner.error();
  directory.owner = std::move(*owner);
  Result<std::filesystem::path> aside = make_aside(layout);
  if (!aside) return aside.error();
  directory.aside = std::move(*aside);
  if (Status written = write_metadata(plan, layout, directory); !written) return written.error();
  if (Status written = write_side_files(plan, layout, directory.aside); !written) return written.error();
  return directory;
}

void close_run_directory(RunDirectory& directory) {
  ::rmdir(directory.aside.c_str());
  if (directory.owner) ::fchmod(directory.owner.get(), kFinishedMode);
  directory.owner.reset();
}

}  // namespace sonde
