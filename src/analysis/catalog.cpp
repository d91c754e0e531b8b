#include "analysis/catalog.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "analysis/catalog_readers.h"
#include "store/layout.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 9;                      // levels below the path that was given
constexpr std::size_t kMostDirectories = 20000;  // looked at without finding anything

fs::path journal_of(const fs::path& rank) { return rank / ".dump_metadata" / "sonde" / "journal"; }

bool has_file(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

Error cannot_open(const fs::path& path, ErrorCode code, const std::string& why) {
  return Error{code, "cannot open dump '" + path.string() + "': " + why};
}

// The number of `rank_3`; false for other names.
bool rank_number(const fs::path& directory, std::uint32_t& rank) {
  const std::string name = directory.filename();
  if (!name.starts_with("rank_")) return false;
  const auto [end, error] = std::from_chars(name.data() + 5, name.data() + name.size(), rank);
  return error == std::errc() && end == name.data() + name.size();
}

// What looking through a directory tree brings up.
struct Findings {
  std::vector<fs::path> ranks;      // directories with a journal
  std::vector<fs::path> steps;      // with tensor files or a statistic.csv, outside of `ranks`
  std::vector<fs::path> constants;  // directories of that name, of a graph
  std::size_t files = 0, directories = 0;
  std::string first;       // some file that was seen
  std::string unreadable;  // the first directory that refused
};

bool is_of_a_step(const std::string& name) {
  TensorFileName parts;
  return name == "statistic.csv" || name == "mapping.csv" ||
         (name.ends_with(".npy") && parse_tensor_file_name(name, parts));
}

bool is_beside_steps(const std::string& name) {
  return name.starts_with('.') || name == "graphs" || name == "execution_order" || name == "constants";
}

void look(const fs::path& directory, int depth, bool trust_journals, Findings& found) {
  if (trust_journals && has_file(journal_of(directory))) {
    found.ranks.push_back(directory);
    return;
  }
  if (found.directories >= kMostDirectories && found.ranks.empty() && found.steps.empty()) return;
  ++found.directories;
  std::error_code error;
  std::vector<fs::path> below;
  bool is_step = false;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    std::error_code ignored;
    if (at->is_directory(ignored)) {
      if (at->is_symlink(ignored)) continue;
      if (name == "constants") found.constants.push_back(at->path());
      if (!is_beside_steps(name)) below.push_back(at->path());
      continue;
    }
    ++found.files;
    if (found.first.empty()) found.first = name;
    is_step = is_step || is_of_a_step(name);
  }
  if (error && found.unreadable.empty()) {
    found.unreadable = "'" + directory.string() + "': " + error.message();
  }
  if (is_step) found.steps.push_back(directory);
  std::ranges::sort(below);
  for (const fs::path& child : below) {
    if (depth < kDeepest) look(child, depth + 1, trust_journals, found);
  }
}

// The rank's directory that a step's directory belongs to: the nearest `rank_N` above it, else the path that was given.
fs::path rank_of(const fs::path& step, const fs::path& given) {
  std::uint32_t number = 0;
  for (fs::path at = step; at.has_relative_path(); at = at.parent_path()) {
    if (rank_number(at, number)) return at;
  }
  return given;
}

void read_trees(const Findings& found, const fs::path& given, Catalog& catalog) {
  std::map<fs::path, std::vector<fs::path>> by_rank;
  for (const fs::path& step : found.steps) by_rank[rank_of(step, given)].push_back(step);
  for (const auto& [directory, of_rank] : by_rank) {
    CatalogRank rank;
    rank.directory = directory;
    if (!rank_number(directory, rank.rank)) rank.rank = 0;
    read_rank_tree(of_rank, found.constants, rank, catalog);
    catalog.ranks.push_back(std::move(rank));
  }
}

void read_journal_rank(const fs::path& directory, const CatalogFilter& filter, const fs::path& part, Catalog& catalog) {
  CatalogRank rank;
  rank.directory = directory;
  if (!rank_number(directory, rank.rank)) rank.rank = 0;
  const Status read = read_rank_journal(journal_of(directory), filter, rank, catalog);
  if (read) {
    catalog.ranks.push_back(std::move(rank));
    return;
  }
  catalog.problems.push_back(
      {journal_of(directory), read.error().message + "; file names and tables are used instead"});
  Findings found;
  look(part, 0, false, found);
  read_trees(found, directory, catalog);
}

// A directory above several dumps is none: their steps would mix.
Status check_one_dump(const fs::path& path, const Findings& found) {
  std::set<fs::path> dumps;
  std::uint32_t number = 0;
  const auto add = [&](const fs::path& rank) { dumps.insert(rank_number(rank, number) ? rank.parent_path() : rank); };
  for (const fs::path& rank : found.ranks) add(rank);
  for (const fs::path& step : found.steps) add(rank_of(step, path));
  if (dumps.size() < 2) return {};
  std::string names;
  std::size_t shown = 0;
  for (const fs::path& dump : dumps) {
    if (++shown > 3) break;
    names += (shown > 1 ? ", '" : "'") + dump.string() + "'";
  }
  return cannot_open(path, ErrorCode::invalid_argument,
                     "it holds " + std::to_string(dumps.size()) + " dumps; choose one, such as " + names);
}

// Where `path` lies inside a rank with a journal: that rank, and {net_name}/{graph}/{iteration} as far as it says.
struct Inside {
  fs::path rank;  // empty: it does not
  CatalogFilter filter;
};

template <typename Number>
void take_number(const fs::path& name, std::optional<Number>& out) {
  const std::string& text = name.native();
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) out = value;
}

Inside inside_of(const fs::path& path) {
  Inside inside;
  for (fs::path at = path.parent_path(); at.has_relative_path(); at = at.parent_path()) {
    if (!has_file(journal_of(at))) continue;
    const fs::path below = path.lexically_relative(at);
    const std::vector<fs::path> parts(below.begin(), below.end());
    inside.rank = at;
    if (parts.size() > 1) take_number(parts[1], inside.filter.graph);
    if (parts.size() > 2) take_number(parts[2], inside.filter.iteration);
    return inside;
  }
  return inside;
}

Error not_a_dump(const fs::path& path, const Findings& found) {
  if (!found.unreadable.empty()) {
    return cannot_open(path, ErrorCode::io, "cannot look into " + found.unreadable);
  }
  std::string what =
      "found " + std::to_string(found.files) + " files in " + std::to_string(found.directories) + " directories";
  if (!found.first.empty()) what += " (such as '" + found.first + "')";
  return cannot_open(path, ErrorCode::corrupt,
                     what +
                         "; expected rank_N/.dump_metadata/sonde/journal, or MindSpore's "
                         "rank_N/NET/GRAPH/ITERATION with .npy files or statistic.csv");
}

Status check_directory(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return cannot_open(path, ErrorCode::not_found, "no such directory");
  }
  if (error) return cannot_open(path, ErrorCode::io, error.message());
  if (status.type() != fs::file_type::directory) {
    return cannot_open(path, ErrorCode::corrupt, "it is a file; expected the directory of a dump");
  }
  return {};
}

}  // namespace

bool KnownStatistics::all_finite() const {
  for (const auto& bad : {nan_count, positive_inf_count, negative_inf_count}) {
    if (bad.value_or(0) > 0) return false;
  }
  if (nan_count && positive_inf_count && negative_inf_count) return true;
  // l2norm proves nothing: the squares of large finite numbers leave the range of a double.
  const auto is_finite = [](const std::optional<double>& value) { return !value || std::isfinite(*value); };
  return is_finite(max) && is_finite(min) && is_finite(avg);
}

KnownStatistics known(const Statistics& statistics) {
  KnownStatistics out;
  if (statistics.count > 0) {  // no element, no value
    out.max = value_of(statistics, Category::max);
    out.min = value_of(statistics, Category::min);
    out.avg = value_of(statistics, Category::avg);
    out.l2norm = value_of(statistics, Category::l2norm);
  }
  out.count = statistics.count;
  out.nan_count = statistics.nan_count;
  out.positive_inf_count = statistics.positive_inf_count;
  out.negative_inf_count = statistics.negative_inf_count;
  out.positive_count = statistics.positive_count;
  out.negative_count = statistics.negative_count;
  out.zero_count = statistics.zero_count;
  return out;
}

std::string_view TextPool::keep(std::string_view text) {
  if (text.empty()) return {};
  const auto found = known_.find(text);
  if (found != known_.end()) return *found;
  return *known_.insert(texts_.emplace_back(text)).first;
}

Result<Catalog> open_catalog(const fs::path& path) {
  if (Status status = check_directory(path); !status) return status.error();
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error) return cannot_open(path, ErrorCode::io, error.message());
  Catalog catalog;
  catalog.path = path;
  if (const Inside inside = inside_of(real); !inside.rank.empty()) {
    read_journal_rank(inside.rank, inside.filter, real, catalog);
  } else {
    Findings found;
    look(real, 0, true, found);
    if (found.ranks.empty() && found.steps.empty()) return not_a_dump(path, found);
    if (Status one = check_one_dump(real, found); !one) return one.error();
    for (const fs::path& rank : found.ranks) read_journal_rank(rank, {}, rank, catalog);
    read_trees(found, real, catalog);
  }
  std::ranges::stable_sort(catalog.ranks, {}, &CatalogRank::rank);
  return catalog;
}

const CatalogOp* find_op(const CatalogStep& step, std::string_view full_name) {
  const auto found = std::ranges::find(step.ops, full_name, &CatalogOp::full_name);
  return found == step.ops.end() ? nullptr : &*found;
}

}  // namespace sonde
