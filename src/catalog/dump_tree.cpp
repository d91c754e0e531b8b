#include "catalog/dump_tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/parse_number.h"
#include "files/files.h"
#include "formats/atb_file.h"
#include "formats/container.h"
#include "formats/file_names.h"
#include "formats/tensor_file.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

bool is_number(std::string_view text) {
  std::uint64_t ignored = 0;
  return parse_number(text, ignored);
}

// The number after `prefix` in a name that is nothing else.
template <typename Number>
bool number_after(std::string_view name, std::string_view prefix, Number& out) {
  return name.starts_with(prefix) && parse_number(name.substr(prefix.size()), out);
}

std::vector<std::string> parts_of(const fs::path& path) {
  std::vector<std::string> parts;
  for (const fs::path& part : path) {
    if (!part.empty() && part != ".") parts.push_back(part);
  }
  return parts;
}

bool is_inside(const fs::path& path, const fs::path& directory) {
  const fs::path relative = path.lexically_relative(directory);
  return !relative.empty() && *relative.begin() != "..";
}

// 1.2: iteration_3, or graph_1/iteration_3.
bool old_step(const std::vector<std::string>& parts, CatalogFilter& filter) {
  std::uint64_t iteration = 0;
  std::uint32_t graph = 0;
  const bool with_graph = parts.size() > 1 && number_after(parts[0], "graph_", graph);
  if (!number_after(parts[with_graph ? 1 : 0], "iteration_", iteration)) return false;
  filter.graph = with_graph ? graph : 0;
  filter.iteration = iteration;
  return true;
}

// {model_name}/{model_id}/{step}, as far as it goes. TorchAir counts graphs from 1.
CatalogFilter model_step(const std::vector<std::string>& parts) {
  CatalogFilter filter;
  std::uint32_t graph = 0;
  std::uint64_t iteration = 0;
  if (parts.size() > 1 && parse_number(parts[1], graph)) {
    const bool counts_from_one = graph > 0 && parts[0] == "graph_" + parts[1];
    filter.graph = counts_from_one ? graph - 1 : graph;
  }
  if (parts.size() > 2 && parse_number(parts[2], iteration)) filter.iteration = iteration;
  return filter;
}

}  // namespace

std::vector<fs::path> journals_of(const fs::path& directory) {
  std::vector<fs::path> found;
  std::error_code ignored;
  const fs::path metadata = directory / ".dump_metadata";
  if (fs::exists(journal_in(metadata), ignored)) found.push_back(metadata);
  for (const fs::directory_entry& entry : fs::directory_iterator(metadata, ignored)) {
    const std::string name = entry.path().filename();
    std::uint32_t device = 0;
    if (number_after(name, "device_", device) && fs::exists(journal_in(entry.path()), ignored)) {
      found.push_back(entry.path());
    }
  }
  std::ranges::sort(found);
  return found;
}

bool rank_number(const std::string& name, std::uint32_t& rank) {
  if (number_after(name, "rank_", rank) || number_after(name, "device_", rank)) return true;
  constexpr std::string_view kGlobal = "_global_rank";
  const std::size_t at = name.rfind(kGlobal);
  return name.starts_with("worldsize") && at != std::string::npos &&
         parse_number(std::string_view(name).substr(at + kGlobal.size()), rank);
}

bool is_time(const std::string& name) {
  return name.size() == 14 && is_number(name) && (name.starts_with("19") || name.starts_with("20"));
}

RankOf rank_of(const fs::path& directory) {
  RankOf out;
  std::uint32_t number = 0;
  const fs::path parent = directory.parent_path();
  if (is_time(parent.filename())) {
    out.run = parent;
    out.dump = parent.parent_path();
    out.rank = directory.filename();
    if (rank_number(out.dump.filename(), number) && out.dump.filename().native().starts_with("worldsize")) {
      out.rank = (out.dump.filename() / out.rank).native();
      out.dump = out.dump.parent_path();
    }
  } else if (rank_number(directory.filename(), number)) {
    out.dump = parent;
    out.rank = directory.filename();
  } else {
    out.dump = directory;
  }
  return out;
}

CatalogFilter filter_of(const fs::path& rank_directory, const fs::path& inside) {
  const std::vector<std::string> parts = parts_of(inside);
  CatalogFilter filter;
  if (parts.empty() || old_step(parts, filter)) return filter;
  std::uint64_t iteration = 0;
  if (parse_number(parts[0], iteration) && (parts.size() == 1 || is_time(parts[1]))) {  // o0, o2
    filter.iteration = iteration;
    std::uint32_t graph = 0;
    if (parts.size() == 4 && parse_number(parts[3], graph)) filter.graph = graph;
    if (parts.size() > 4) filter.graph = model_step({parts[3], parts[4]}).graph;
    return filter;
  }
  std::uint32_t graph = 0;
  if (parts.size() == 1 && number_after(parts[0], "graph_", graph)) {
    const bool is_torchair = is_time(rank_directory.parent_path().filename()) && graph > 0;
    filter.graph = is_torchair ? graph - 1 : graph;
    return filter;
  }
  return model_step(parts);
}

namespace {

StepId step_of(const CatalogFilter& filter) { return {filter.graph.value_or(0), filter.iteration.value_or(0)}; }

// {graph}/{iteration} at the end; a directory that is called otherwise counts as 0.
StepId last_two(const fs::path& directory) {
  StepId id;
  if (!parse_number(directory.filename().native(), id.iteration)) id.iteration = 0;
  if (!parse_number(directory.parent_path().filename().native(), id.graph)) id.graph = 0;
  return id;
}

// …/{time}/{device}[/{model_name}/{model_id}/{step}]. In o2 the step stands before the time, and {path} holds all.
StepPlace place_in_run(const fs::path& directory, const fs::path& run, const fs::path& given) {
  const std::vector<std::string> below = parts_of(directory.lexically_relative(run));
  StepPlace place;
  const fs::path above = run.parent_path();
  const std::vector<std::string> inside(below.begin() + 1, below.end());
  CatalogFilter filter = model_step(inside);
  if (inside.size() < 3 && !inside.empty()) {  // runs of dynamic shapes have no model levels
    filter.graph = 0;
    std::uint64_t iteration = 0;
    if (parse_number(inside.back(), iteration)) filter.iteration = iteration;
  }
  place.step = step_of(filter);
  place.rank_directory = run / below[0];
  place.metadata = place.rank_directory / ".dump_metadata";
  if (!parse_number(below[0], place.rank)) place.rank = 0;
  std::uint64_t step = 0;
  if (parse_number(above.filename().native(), step) && is_inside(above.parent_path(), given)) {
    place.step.iteration = step;
    place.rank_directory = above.parent_path();
    place.metadata = place.rank_directory / ".dump_metadata" / ("device_" + below[0]);
  }
  rank_number(above.filename(), place.rank);
  number_after(above.filename().native(), "step", place.step.iteration);  // msprobe's dump of kernels
  return place;
}

}  // namespace

StepPlace place_of(const fs::path& directory, const fs::path& given) {
  StepPlace place;
  place.rank_directory = given;
  place.step = last_two(directory);
  std::uint32_t number = 0;
  for (fs::path at = directory; at.has_relative_path(); at = at.parent_path()) {
    const std::string name = at.filename();
    if (is_time(name) && at != directory) {
      place = place_in_run(directory, at, given);
      break;
    }
    if (!rank_number(name, number)) continue;
    place.rank_directory = at;
    place.rank = number;
    CatalogFilter filter;
    const std::vector<std::string> inside = parts_of(directory.lexically_relative(at));
    if (!inside.empty() && old_step(inside, filter)) place.step = step_of(filter);
    break;
  }
  place.directory = directory;
  if (place.metadata.empty()) place.metadata = place.rank_directory / ".dump_metadata";
  return place;
}

namespace {

constexpr std::size_t kPeekBytes = 16;

// What a regular file begins with; empty for everything else.
std::string peek(const fs::path& path, std::uint64_t& bytes) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  bytes = static_cast<std::uint64_t>(status.st_size);
  std::string start(kPeekBytes, '\0');
  const ssize_t got = ::pread(fd.get(), start.data(), start.size(), 0);
  start.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return start;
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
  if (name == "statistic.csv" || name == "mapping.csv") return true;
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
  for (const std::string& part : parts_of(directory.lexically_relative(given))) {
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
