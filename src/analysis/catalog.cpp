#include "analysis/catalog.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "analysis/catalog_readers.h"
#include "analysis/dump_tree.h"
#include "analysis/host_graphs.h"
#include "store/file_names.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 9;                      // levels below the path that was given
constexpr std::size_t kMostDirectories = 20000;  // looked at without finding anything

Error cannot_open(const fs::path& path, ErrorCode code, const std::string& why) {
  return Error{code, "cannot open dump '" + path.string() + "': " + why};
}

// A rank with a journal.
struct RankPlace {
  fs::path directory, metadata;
};

// What looking through a directory tree brings up.
struct Findings {
  std::vector<RankPlace> ranks;     // with a journal
  std::vector<fs::path> steps;      // with tensor files or a statistic.csv, outside of `ranks`
  std::vector<fs::path> constants;  // directories of that name, of a graph
  std::size_t files = 0, directories = 0;
  std::string first;       // some file that was seen
  std::string unreadable;  // the first directory that refused
};

bool is_of_a_step(const std::string& name) {
  TensorFileName parts;
  OpFileName op;
  return name == "statistic.csv" || name == "mapping.csv" || parse_tensor_file_name(name, parts) ||
         parse_op_file_name(name, op);
}

bool is_beside_steps(const std::string& name) {
  return name.starts_with('.') || name == "graphs" || name == "execution_order" || name == "constants";
}

bool is_step_number(const std::string& name) {
  return name.find_first_not_of("0123456789") == std::string::npos && !is_time(name);
}

void look(const fs::path& directory, int depth, bool trust_journals, Findings& found) {
  bool shared = false;  // o2: what is called by a number is a step of it; the rest is another's
  if (trust_journals) {
    const std::vector<fs::path> journals = journals_of(directory);
    for (const fs::path& metadata : journals) found.ranks.push_back({directory, metadata});
    shared = !journals.empty() && journals.front().parent_path() != directory;
    if (!journals.empty() && !shared) return;
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
      if (!is_beside_steps(name) && !(shared && is_step_number(name))) below.push_back(at->path());
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

void read_trees(const Findings& found, const fs::path& given, Catalog& catalog) {
  std::map<std::pair<fs::path, std::uint32_t>, std::vector<StepPlace>> by_rank;
  for (const fs::path& step : found.steps) {
    const StepPlace place = place_of(step, given);
    by_rank[{place.rank_directory, place.rank}].push_back(place);
  }
  for (const auto& [key, of_rank] : by_rank) {
    CatalogRank rank;
    rank.directory = key.first;
    rank.rank = key.second;
    rank.kind = DumpKind::tree;
    rank.metadata = of_rank.front().metadata;
    read_rank_tree(of_rank, found.constants, rank, catalog);
    catalog.ranks.push_back(std::move(rank));
  }
}

void read_journal_rank(const RankPlace& place, const CatalogFilter& filter, const fs::path& part, Catalog& catalog) {
  CatalogRank rank;
  rank.directory = place.directory;
  rank.metadata = place.metadata;
  const Status read = read_rank_journal(journal_in(place.metadata), filter, rank, catalog);
  // What the directory is called counts: it may be a copy.
  if (std::uint32_t number = 0;
      place.directory.filename().native().starts_with("rank_") && rank_number(place.directory.filename(), number)) {
    rank.rank = number;
  }
  if (read) {
    catalog.ranks.push_back(std::move(rank));
    return;
  }
  catalog.problems.push_back(
      {journal_in(place.metadata), read.error().message + "; file names and tables are used instead"});
  Findings found;
  look(part, 0, false, found);
  read_trees(found, place.directory, catalog);
}

// A directory above several dumps is none: their steps would mix. So it is with several runs, where each has a directory
// that is called after its time; ranks of one run may have begun in different seconds.
Status check_one_dump(const fs::path& path, const Findings& found) {
  std::set<fs::path> dumps, runs;
  std::map<std::string, std::set<fs::path>> runs_of_rank;
  const auto add = [&](const fs::path& directory) {
    const RankOf rank = rank_of(directory);
    dumps.insert(rank.dump);
    if (rank.run.empty()) return;
    runs.insert(rank.run);
    runs_of_rank[rank.rank].insert(rank.run);
  };
  for (const RankPlace& rank : found.ranks) {
    const bool shared = rank.metadata.parent_path() != rank.directory;  // o2, and something else may lie beside it
    if (shared) {
      dumps.insert(rank.metadata.parent_path());
    } else {
      add(rank.directory);
    }
  }
  for (const fs::path& step : found.steps) add(place_of(step, path).rank_directory);
  if (std::ranges::any_of(runs_of_rank, [](const auto& rank) { return rank.second.size() > 1; })) dumps = runs;
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

// Where `path` lies inside ranks with a journal: those, and which part of them it is.
struct Inside {
  std::vector<RankPlace> ranks;  // empty: it does not
  CatalogFilter filter;
};

Inside inside_of(const fs::path& path) {
  Inside inside;
  for (fs::path at = path.parent_path(); at.has_relative_path(); at = at.parent_path()) {
    for (const fs::path& metadata : journals_of(at)) inside.ranks.push_back({at, metadata});
    if (inside.ranks.empty()) continue;
    inside.filter = filter_of(at, path.lexically_relative(at));
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
                         "; expected rank_N/.dump_metadata/sonde/journal, MindSpore's "
                         "rank_N/NET/GRAPH/ITERATION with .npy files or statistic.csv, or CANN's "
                         "TIME/DEVICE/MODEL/ID/STEP with files of ops");
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
  if (const Inside inside = inside_of(real); !inside.ranks.empty()) {
    for (const RankPlace& rank : inside.ranks) read_journal_rank(rank, inside.filter, real, catalog);
  } else {
    Findings found;
    look(real, 0, true, found);
    if (found.ranks.empty() && found.steps.empty()) return not_a_dump(path, found);
    if (Status one = check_one_dump(real, found); !one) return one.error();
    for (const RankPlace& rank : found.ranks) read_journal_rank(rank, {}, rank.directory, catalog);
    read_trees(found, real, catalog);
  }
  std::ranges::stable_sort(catalog.ranks, {}, &CatalogRank::rank);
  for (CatalogRank& rank : catalog.ranks) add_host_graphs(rank, catalog);
  return catalog;
}

const CatalogOp* find_op(const CatalogStep& step, std::string_view full_name) {
  const auto found = std::ranges::find(step.ops, full_name, &CatalogOp::full_name);
  return found == step.ops.end() ? nullptr : &*found;
}

}  // namespace sonde
