#include "read/catalog/dump_tree.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <string_view>

#include "dump/formats/atb_file.h"
#include "dump/formats/container.h"
#include "dump/formats/file_names.h"
#include "dump/formats/tensor_file.h"
#include "dump/layout/side_names.h"
#include "ground/base/parse_number.h"
#include "ground/files/brought_files.h"
#include "ground/files/files.h"
#include "ground/files/packed_path.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

bool is_number(std::string_view text) {
  std::uint64_t ignored = 0;
  return parse_number(text, ignored);
}

// The number after `prefix` in a name without other parts.
template <typename Number>
bool number_after(std::string_view name, std::string_view prefix, Number& out) {
  return name.starts_with(prefix) && parse_number(name.substr(prefix.size()), out);
}

bool is_inside(const fs::path& path, const fs::path& directory) {
  const fs::path relative = path.lexically_relative(directory);
  return !relative.empty() && *relative.begin() != "..";
}

}  // namespace

std::vector<fs::path> journals_of(const fs::path& directory) {
  std::vector<fs::path> found;
  std::error_code ignored;
  const fs::path metadata = directory / kMetadataDirectory;
  if (fs::exists(journal_in(metadata), ignored)) found.push_back(metadata);
  for (const fs::directory_entry& entry : fs::directory_iterator(metadata, ignored)) {
    const std::string name = entry.path().filename();
    std::uint32_t device = 0;
    if (device_number(name, device) && fs::exists(journal_in(entry.path()), ignored)) {
      found.push_back(entry.path());
    }
  }
  std::ranges::sort(found);
  return found;
}

namespace {

constexpr std::size_t kPeekBytes = 16;

// The first bytes of a regular file; empty for everything else.
std::string peek(const fs::path& path, std::uint64_t& bytes) {
  if (!bring_file(path)) return {};
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  bytes = static_cast<std::uint64_t>(status.st_size);
  return text_at(fd.get(), 0, kPeekBytes);
}

// The number of `step3`, `step_3`, `step-3`, `iteration_3`, `iter_3`.
bool step_number(const std::string& name, std::uint64_t& step) {
  for (const std::string_view prefix : {"step", "step_", "step-", "iteration_", "iter_"}) {
    if (number_after(name, prefix, step)) return true;
  }
  return false;
}

bool any_rank_number(const std::string& name, std::uint32_t& rank) {
  return rank_number(name, rank) || number_after(name, "rank", rank) || number_after(name, "rank-", rank);
}

}  // namespace

bool is_atb_file(const fs::path& path) {
  std::uint64_t bytes = 0;
  return is_atb(peek(path, bytes));
}

bool is_container_file(const fs::path& path) {
  std::uint64_t bytes = 0;
  const std::string start = peek(path, bytes);
  return container_head_bytes(start.substr(0, 12), bytes) && read_container(path);
}

bool is_of_a_step(const fs::path& path, const std::string& name) {
  if (name == "statistic.csv" || name == "mapping.csv" || is_pack_name(name)) return true;
  TensorFileName parts;
  if (parse_tensor_file_name(name, parts)) return true;
  OpFileName op;
  if (parse_op_file_name(name, op)) return true;
  const bool may_be = is_number(name) || (!name.ends_with(".csv") && parse_op_file_name(name, op, true));
  return may_be && is_container_file(path);
}

Status check_link(const fs::path& link, const fs::path& root) {
  std::error_code error;
  const fs::path target = fs::canonical(link, error);
  if (error) return Error{ErrorCode::io, "a symbolic link that leads nowhere: " + error.message()};
  if (is_inside(target, root)) return {};
  return Error{ErrorCode::invalid_argument,
               "a symbolic link that leaves the dump, to '" + target.string() + "'; it is not read"};
}

bool MsprobePlace::has(const char* name) const {
  std::error_code ignored;
  return fs::exists(directory / name, ignored);
}

MsprobePlace msprobe_place_of(const fs::path& directory) {
  MsprobePlace place;
  place.directory = directory;
  fs::path at = directory;
  bool has_rank = false, has_step = false;
  for (; at.has_relative_path(); at = at.parent_path()) {
    const std::string name = at.filename();
    if (!has_rank && !has_step && (any_rank_number(name, place.rank) || number_after(name, "proc", place.process))) {
      has_rank = true;
    } else if (!has_step && step_number(name, place.step)) {
      has_step = true;
    } else {
      break;
    }
  }
  place.root = at.empty() ? directory : at;
  return place;
}

LoosePlace loose_place_of(const fs::path& directory, const fs::path& given) {
  LoosePlace place;
  place.directory = directory;
  for (const std::string& part : names_in(directory.lexically_relative(given))) {
    if (any_rank_number(part, place.rank) || step_number(part, place.step) || part == "dump_tensor_data") continue;
    place.prefix += part + "/";
  }
  // Opened below `rank3` or `step2`.
  bool has_rank = false, has_step = false;
  for (fs::path at = given; at.has_relative_path() && !(has_rank && has_step); at = at.parent_path()) {
    std::uint32_t rank = 0;
    std::uint64_t step = 0;
    if (!has_rank && any_rank_number(at.filename(), rank)) {
      has_rank = true;
      if (place.rank == 0) place.rank = rank;
    } else if (!has_step && step_number(at.filename(), step)) {
      has_step = true;
      if (place.step == 0) place.step = step;
    } else {
      break;
    }
  }
  return place;
}

}  // namespace sonde
