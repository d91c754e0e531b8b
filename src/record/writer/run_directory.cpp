#include "record/writer/run_directory.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <initializer_list>

#include "dump/journal/live_run.h"
#include "dump/layout/side_names.h"
#include "dump/run_files/private_text.h"
#include "ground/base/json.h"
#include "ground/files/safe_path.h"
#include "plan/config/environment.h"
#include "record/writer/side_files.h"

namespace sonde {
namespace {

constexpr const char* kOwnerFile = "owner";
constexpr const char* kAsideDirectory = "partial";

// The owner file has two lines: the process, and its line of descent, `launch:process:process…`, where the environment
// has one: the name of the launch, and the processes that record, or could, each started by the one before.
struct Owner {
  long process = 0;
  std::string launch, descent;  // descent: `:process:process:`
};

std::string descent_of_environment() { return variable_of_environment("SONDE_LAUNCH"); }

Owner owner_of(std::string_view process, std::string_view line) {
  Owner owner;
  owner.process = std::strtol(std::string(process).c_str(), nullptr, 10);
  line = line.substr(0, line.find('\n'));
  const std::size_t colon = std::min(line.find(':'), line.size());
  owner.launch = line.substr(0, colon);
  owner.descent = std::string(line.substr(colon)) + ":";
  return owner;
}

Owner read_owner(int file) {
  constexpr std::size_t kMostBytes = 4096;
  const std::string text = text_at(file, 0, kMostBytes);
  const std::size_t line = std::min(text.find('\n'), text.size());
  return owner_of(text.substr(0, line), std::string_view(text).substr(std::min(line + 1, text.size())));
}

// Ranks of a group, and those that a launcher has numbered, may start again: each time is a run of the same rank. The rank
// of another process says nothing.
bool has_rank_of_its_own(const RunInfo& run) {
  return run.world_size > 1 || !variable_of_environment("RANK").empty() || !variable_of_environment("RANK_ID").empty();
}

bool is_of_another_process(const Owner& before, const RunInfo& run) {
  const Owner own = owner_of("", descent_of_environment());
  return !own.launch.empty() && before.launch == own.launch && before.process != ::getpid() &&
         !has_rank_of_its_own(run);
}

Error owned_elsewhere(const Layout& layout, int owner) {
  const long pid = read_owner(owner).process;
  const std::string who = pid > 0 ? "process " + std::to_string(pid) : "another process";
  return Error{ErrorCode::busy, "cannot record to '" + layout.rank_directory().string() + "': " + who +
                                    " is recording there; wait for it, or choose another path"};
}

Result<Fd> take_ownership(const Layout& layout, const RunInfo& run, int own_directory) {
  const std::filesystem::path path = layout.own_directory() / kOwnerFile;
  Result<Fd> file = open_own_file(own_directory, path, Access::append);
  if (!file) return file.error();
  if (is_locked_elsewhere(file->get())) return owned_elsewhere(layout, file->get());
  if (is_of_another_process(read_owner(file->get()), run)) {
    return Error{ErrorCode::busy,
                 "another process of this run has recorded to '" + layout.rank_directory().string() + "'"};
  }
  std::string text = std::to_string(::getpid()) + "\n";
  if (const std::string descent = descent_of_environment(); !descent.empty()) text += descent + "\n";
  int error_number = ::ftruncate(file->get(), 0) == 0 ? 0 : errno;
  if (error_number == 0) error_number = write_all(file->get(), text.data(), text.size());
  if (error_number != 0) return io_error("write", path, error_number);
  return file;
}

// Asks ext4 to spread the directories inside `directory` over the disk by their names. Files are made in their
// directory's part, and ext4 steps one by one over numbers of files removed there in the last minutes: where a large
// dump was just deleted, each new file would cost 0.5 ms instead of 0.03. Elsewhere it does nothing.
void spread_directories(int directory) {
  int flags = 0;
  if (::ioctl(directory, FS_IOC_GETFLAGS, &flags) != 0) return;
  flags |= FS_TOPDIR_FL;
  static_cast<void>(::ioctl(directory, FS_IOC_SETFLAGS, &flags));
}

// `partial/{pid}`: another name, and so another part of the disk, in each run.
Status make_aside(const Layout& layout, int own_directory, RunDirectory& directory) {
  Result<Fd> all = open_below(own_directory, layout.own_directory(), kAsideDirectory, Missing::make);
  if (!all) return all.error();
  remove_numbered(all->get(), 2);
  spread_directories(all->get());
  const std::string own_name = std::to_string(::getpid());
  const std::filesystem::path path = layout.own_directory() / kAsideDirectory;
  if (Result<Fd> own = open_below(all->get(), path, own_name, Missing::make); !own) return own.error();
  directory.all_aside = std::move(*all);
  directory.aside = path / own_name;
  return {};
}

bool is_there(int directory, const std::string& name) {
  return ::faccessat(directory, name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

// The name of this run's copy of the configuration, relative to the metadata directory.
std::string config_file_name(int metadata) {
  std::string name = "data_dump.json";
  for (int run = 2; is_there(metadata, name); ++run) name = "sonde/run_" + std::to_string(run) + ".json";
  return name;
}

Status write_metadata(const Plan& plan, const Layout& layout, RunDirectory& directory) {
  const Result<Fd> aside = open_in_dump(layout.root(), directory.aside, Missing::leave);
  if (!aside) return aside.error();
  const std::filesystem::path path = layout.metadata_directory();
  const Result<Fd> metadata = open_in_dump(layout.root(), path, Missing::leave);
  if (!metadata) return metadata.error();
  for (const char* name : {"data_dump.json", "config.json"}) {
    if (Status ours = check_replaceable(metadata->get(), path / name); !ours) return ours;
  }
  if (const std::string text = config_copy(plan); !text.empty()) {
    directory.config_file = config_file_name(metadata->get());
    const std::filesystem::path file = path / directory.config_file;
    const Result<Fd> place = open_in_dump(layout.root(), file.parent_path(), Missing::leave);
    if (!place) return place.error();
    if (Status status = write_whole_file(aside->get(), place->get(), file, text); !status) return status;
  }
  if (is_there(metadata->get(), "config.json")) return {};
  const std::string release(info(plan.sonde.version).name);
  const Json config = {{"device_target", "CPU"}, {"ms_version", release + ".0"}};
  return write_whole_file(aside->get(), metadata->get(), path / "config.json", text_of_json(config));
}

// Checks that an existing path can be written to, or that a missing one can be made.
Status check_place(const Layout& layout, const std::filesystem::path& directory,
                   std::initializer_list<std::filesystem::path> files) {
  const Result<Fd> place = open_in_dump(layout.root(), directory, Missing::leave);
  if (!place) return place.error().code == ErrorCode::not_found ? Status() : place.error();
  for (const std::filesystem::path& file : files) {
    if (file.empty()) continue;
    if (Status ours = check_replaceable(place->get(), file); !ours) return ours;
  }
  return {};
}

}  // namespace

Status check_tree(const Layout& layout) {
  const std::filesystem::path own = layout.own_directory(), metadata = layout.metadata_directory();
  Status status = check_place(layout, layout.root(), {layout.acl_config()});
  if (status) status = check_place(layout, layout.rank_directory(), {});
  if (status) status = check_place(layout, metadata, {metadata / "data_dump.json", metadata / "config.json"});
  if (status) status = check_place(layout, own, {own / kOwnerFile, layout.journal_file()});
  if (status) status = check_place(layout, own / kAsideDirectory, {});
  if (status) status = check_place(layout, layout.execution_order_directory(), {});
  if (status) status = check_place(layout, layout.graphs_directory(), {});
  const std::filesystem::path old_copy = layout.old_config_copy();
  if (status && !old_copy.empty()) status = check_place(layout, old_copy.parent_path(), {old_copy});
  return status;
}

Status check_not_owned(const Layout& layout) {
  const Result<Fd> own = open_in_dump(layout.root(), layout.own_directory(), Missing::leave);
  if (!own) return {};  // missing, or not ours: check_tree() reports which
  const Result<Fd> owner = open_own_file(own->get(), layout.own_directory() / kOwnerFile, Access::read);
  if (owner && is_locked_elsewhere(owner->get())) return owned_elsewhere(layout, owner->get());
  return {};
}

bool is_recorded_by_children(const std::filesystem::path& root) {
  const Owner own = owner_of("", descent_of_environment());
  if (own.launch.empty()) return false;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(root, none)) {
    const Fd file(::open((own_directory_in(entry.path() / kMetadataDirectory) / kOwnerFile).c_str(),
                         O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file) continue;
    const Owner owner = read_owner(file.get());
    const bool is_below = owner.descent.find(":" + std::to_string(::getpid()) + ":") != std::string::npos;
    if (is_below && owner.launch == own.launch && owner.process != ::getpid()) return true;
  }
  return false;
}

Result<RunDirectory> open_run_directory(const Plan& plan, const RunInfo& run, const Layout& layout) {
  RunDirectory directory;
  const Result<Fd> own = open_in_dump(layout.root(), layout.own_directory(), Missing::make);
  if (!own) return own.error();
  Result<Fd> owner = take_ownership(layout, run, own->get());
  if (!owner) return owner.error();
  directory.owner = std::move(*owner);
  if (Status made = make_aside(layout, own->get(), directory); !made) return made.error();
  if (Status written = write_metadata(plan, layout, directory); !written) return written.error();
  if (Status written = write_side_files(plan, layout, directory.aside); !written) return written.error();
  return directory;
}

void close_run_directory(RunDirectory& directory) {
  if (directory.all_aside) {
    ::unlinkat(directory.all_aside.get(), directory.aside.filename().c_str(), AT_REMOVEDIR);
    directory.all_aside.reset();
  }
  if (directory.owner) ::fchmod(directory.owner.get(), kFinishedMode);
  directory.owner.reset();
}

}  // namespace sonde
