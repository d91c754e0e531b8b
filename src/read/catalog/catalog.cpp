#include "read/catalog/catalog.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <utility>

#include "dump/journal/live_run.h"
#include "dump/layout/side_names.h"
#include "ground/base/parallel.h"
#include "read/catalog/catalog_readers.h"
#include "read/catalog/dump_tree.h"
#include "read/catalog/find_dumps.h"
#include "read/catalog/growing_rank.h"
#include "read/catalog/host_graphs.h"
#include "read/catalog/likely_sources.h"
#include "read/catalog/rank_parts.h"
#include "read/catalog/read_progress.h"
#include "read/catalog/unentered_tensors.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

Error cannot_open(const fs::path& path, ErrorCode code, const std::string& why) {
  return Error{code, "cannot open dump '" + path.string() + "': " + why};
}

void read_trees(const Findings& found, const fs::path& given, const ReadProgress& progress, Catalog& catalog) {
  std::mutex mutex;
  std::uint64_t done = 0;
  const auto step_done = [&] {
    const std::scoped_lock lock(mutex);
    if (progress) progress(++done, found.steps.size());
  };
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
    read_rank_tree(of_rank, found.constants, rank, catalog, step_done);
    catalog.ranks.push_back(std::move(rank));
  }
}

// Processes without a rank get one in the order of their numbers, after those with a rank.
void number_processes(std::vector<MsprobePlace>& places) {
  std::map<fs::path, std::set<std::uint64_t>> processes;
  std::map<fs::path, std::uint32_t> next;
  for (const MsprobePlace& place : places) {
    if (place.process != 0) {
      processes[place.root].insert(place.process);
    } else {
      next[place.root] = std::max(next[place.root], place.rank + 1);
    }
  }
  for (MsprobePlace& place : places) {
    if (place.process == 0) continue;
    const std::set<std::uint64_t>& known = processes[place.root];
    place.rank = next[place.root] + static_cast<std::uint32_t>(std::distance(known.begin(), known.find(place.process)));
  }
}

void read_msprobe(const Findings& found, Catalog& catalog) {
  std::vector<MsprobePlace> places;
  for (const fs::path& directory : found.msprobe) places.push_back(msprobe_place_of(directory));
  number_processes(places);
  std::map<std::pair<fs::path, std::uint32_t>, std::vector<MsprobePlace>> by_rank;
  for (const MsprobePlace& place : places) by_rank[{place.root, place.rank}].push_back(place);
  for (auto& [key, of_rank] : by_rank) {
    std::ranges::stable_sort(of_rank, {}, &MsprobePlace::step);
    CatalogRank rank;
    rank.directory = key.first;
    rank.metadata = key.first / kMetadataDirectory;
    rank.rank = key.second;
    rank.kind = DumpKind::msprobe;
    read_msprobe_rank(of_rank, rank, catalog);
    catalog.ranks.push_back(std::move(rank));
  }
}

void read_loose(const Findings& found, const fs::path& given, Catalog& catalog) {
  std::map<std::uint32_t, std::vector<LoosePlace>> by_rank;
  for (const fs::path& directory : found.loose) {
    const LoosePlace place = loose_place_of(directory, given);
    by_rank[place.rank].push_back(place);
  }
  for (const auto& [number, of_rank] : by_rank) {
    CatalogRank rank;
    rank.directory = given;
    rank.metadata = given / kMetadataDirectory;
    rank.rank = number;
    rank.kind = DumpKind::files;
    read_loose_rank(of_rank, rank, catalog);
    catalog.ranks.push_back(std::move(rank));
  }
}

// `rank_N/summary_RUN`; without such a name it is rank 0.
void read_summaries(const Findings& found, Catalog& catalog) {
  std::map<fs::path, std::vector<fs::path>> by_rank;
  for (const fs::path& directory : found.summaries) by_rank[directory.parent_path()].push_back(directory);
  for (auto& [directory, runs] : by_rank) {
    CatalogRank rank;
    rank.directory = directory;
    rank.metadata = directory / kMetadataDirectory;
    rank.rank = rank_in_name(directory).value_or(0);
    rank.kind = DumpKind::summary;
    std::ranges::stable_sort(runs, {}, [](const fs::path& run) { return run.native().size(); });  // 2 before 10
    read_summary_rank(runs, rank, catalog);
    catalog.ranks.push_back(std::move(rank));
  }
}

// The directories with tensors or tables of one rank, inside `part` of it.
struct RankTree {
  std::vector<StepPlace> steps;
  std::vector<fs::path> constants;
};

RankTree tree_of(const JournalPlace& place, const fs::path& part) {
  Findings found = find_dumps(part, false);
  RankTree tree;
  for (const fs::path& step : found.steps) {
    const StepPlace at = place_of(step, place.directory);
    if (at.metadata == place.metadata) tree.steps.push_back(at);  // in o2 the directory is shared
  }
  tree.constants = std::move(found.constants);
  return tree;
}

// Constants come before the first op of their step. If a run ended in between, the journal's entries of the step show
// their owner.
void add_steps_of_constants(const JournalPlace& place, const CatalogRank& journal, RankTree& tree) {
  for (const fs::path& constants : tree.constants) {
    const fs::path graph = constants.parent_path();
    const auto is_in_graph = [&](const StepPlace& step) { return step.directory.parent_path() == graph; };
    if (std::ranges::any_of(tree.steps, is_in_graph)) continue;
    StepPlace at = place_of(graph / "0", place.directory);
    if (at.metadata != place.metadata) continue;
    const auto begun = std::ranges::find(journal.steps, at.step.graph, [](const auto& step) { return step.id.graph; });
    if (begun != journal.steps.end()) at.step = begun->id;
    at.directory = constants;
    tree.steps.push_back(std::move(at));
  }
}

// False if there is nothing to read.
bool read_tree_instead(const RankTree& tree, const CatalogRank& like, Catalog& catalog) {
  if (tree.steps.empty()) return false;
  CatalogRank rank;
  rank.directory = like.directory;
  rank.metadata = like.metadata;
  rank.rank = tree.steps.front().rank;
  rank.kind = DumpKind::tree;
  Catalog read;
  std::swap(read.texts, catalog.texts);
  read_rank_tree(tree.steps, tree.constants, rank, read);
  std::swap(read.texts, catalog.texts);
  if (std::ranges::all_of(rank.steps, [](const CatalogStep& step) { return step.ops.empty(); })) return false;
  for (CatalogProblem& problem : read.problems) {
    problem.is_lost = problem.is_lost && problem.kind != ProblemKind::torn;
    catalog.problems.push_back(std::move(problem));
  }
  catalog.ranks.push_back(std::move(rank));
  return true;
}

// Adds what the journal lacks. A torn last row is not a loss: each row is in the journal before it is in a table.
void add_unentered(const RankTree& tree, const StepFilter& filter, const JournalPlace& place,
                   const JournalRemains& remains, CatalogRank& rank, Catalog& catalog) {
  Catalog read;
  CatalogRank found;
  found.directory = rank.directory;
  found.metadata = rank.metadata;
  std::swap(read.texts, catalog.texts);  // one pool: tensors move from one to the other
  read_rank_tree(tree.steps, tree.constants, found, read);
  std::swap(read.texts, catalog.texts);
  for (CatalogProblem& problem : read.problems) {
    if (problem.kind != ProblemKind::torn) catalog.problems.push_back(std::move(problem));
  }
  const Unentered added = add_unentered_tensors(std::move(found), filter, remains, rank, *catalog.texts);
  if (added.files + added.rows == 0) return;
  std::string what = added.files > 0 ? std::to_string(added.files) + " tensors in complete files" : std::string();
  if (added.rows > 0) {
    what += (what.empty() ? "" : " and ") + std::to_string(added.rows) + " rows of tables";
  }
  // Rows come after their entry: if an entry is missing, the journal was truncated later.
  const bool has_failed =
      std::ranges::any_of(rank.runs, [](const CatalogRun& run) { return !failure_of(run).empty(); });
  const bool is_lost = remains.is_damaged || (added.rows > 0 && !has_failed);
  catalog.problems.push_back({journal_in(place.metadata),
                              what + " are not entered here, since " +
                                  (is_lost ? "entries are lost" : "the run was killed or its disk was full") +
                                  "; they are shown by their names" +
                                  (added.ops > 0 ? ". Their sources are not known" : ""),
                              is_lost, ProblemKind::unentered});
}

void read_journal_rank(const JournalPlace& place, const StepFilter& filter, const fs::path& part, Catalog& catalog) {
  CatalogRank rank;
  rank.directory = place.directory;
  rank.metadata = place.metadata;
  JournalRemains remains;
  const Status read = read_rank_journal(journal_in(place.metadata), filter, rank, remains, catalog);
  rank.rank = rank_in_name(place.directory).value_or(rank.rank);
  if (!read) {
    const fs::path journal = journal_in(place.metadata);
    const std::size_t at = catalog.problems.size();
    catalog.problems.push_back({journal, read.error().message + "; file names and tables are used instead"});
    if (read_tree_instead(tree_of(place, part), rank, catalog)) return;
    if (rank.has_journal) {  // it is readable but empty
      catalog.problems[at] = {journal, "it is empty: the run ended before its first entry", false,
                              ProblemKind::cut_off};
    }
    catalog.ranks.push_back(std::move(rank));
    return;
  }
  if (remains.is_incomplete && !is_recording(own_directory_in(place.metadata))) {
    RankTree tree = tree_of(place, part);
    add_steps_of_constants(place, rank, tree);
    if (remains.runs.empty() && read_tree_instead(tree, rank, catalog)) {
      catalog.problems.push_back({journal_in(place.metadata),
                                  "it does not contain a run; file names and tables are used instead",
                                  remains.is_damaged});
      return;
    }
    add_unentered(tree, filter, place, remains, rank, catalog);
  }
  catalog.ranks.push_back(std::move(rank));
}

// With what the host's own graphs say, so that a rank is the same whoever reads it, and beside which others.
void read_rank(const JournalPlace& place, const StepFilter& filter, const fs::path& part, Catalog& catalog) {
  read_journal_rank(place, filter, part, catalog);
  add_host_graphs(catalog.ranks.back(), catalog);
}

// Sets the dump of each rank, which distinguishes ranks if one path holds several dumps. Several runs are several dumps
// if each has a directory named after its time and a rank occurs in more than one; ranks of one run may have
// started in different seconds.
void name_dumps(const fs::path& given, Catalog& catalog) {
  std::vector<fs::path> dumps, runs;
  std::map<std::pair<fs::path, std::string>, std::set<fs::path>> runs_of_rank;
  for (const CatalogRank& rank : catalog.ranks) {
    const bool is_shared = rank.has_journal && rank.metadata.parent_path() != rank.directory;  // o2
    RankOf of;
    if (is_shared) {
      of.dump = rank.metadata.parent_path();
    } else if (rank.kind == DumpKind::journal || rank.kind == DumpKind::tree || rank.kind == DumpKind::summary) {
      of = rank_of(rank.directory);
    } else {
      of.dump = rank.directory;
    }
    dumps.push_back(of.dump);
    runs.push_back(of.run.empty() ? of.dump : of.run);
    if (!of.run.empty()) runs_of_rank[{of.dump, of.rank}].insert(of.run);
  }
  if (std::ranges::any_of(runs_of_rank, [](const auto& rank) { return rank.second.size() > 1; })) dumps = runs;
  // Also two kinds in one directory are two dumps.
  std::set<std::pair<fs::path, bool>> distinct;
  for (std::size_t i = 0; i < dumps.size(); ++i) {
    distinct.insert({dumps[i], catalog.ranks[i].kind >= DumpKind::msprobe});
  }
  if (distinct.size() < 2) return;
  for (std::size_t i = 0; i < dumps.size(); ++i) catalog.ranks[i].dump = dumps[i].lexically_relative(given).native();
}

// If `path` lies inside ranks with a journal: those ranks, and the part of them.
struct Inside {
  std::vector<JournalPlace> ranks;  // empty: it does not
  StepFilter filter;
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
                         "TIME/DEVICE/MODEL/ID/STEP with files of ops, msprobe's stepN/rankN/dump.json, or tensors "
                         "in .npy or .pt files");
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
  if (non_finite_count() > 0) return false;
  if (counts_non_finite()) return true;
  // l2norm proves nothing: the squares of large finite numbers leave the range of a double.
  const auto is_finite = [](const std::optional<double>& value) { return !value || std::isfinite(*value); };
  return is_finite(max) && is_finite(min) && is_finite(avg);
}

DumpSettings settings_of(const CatalogRank& rank) {
  DumpSettings settings;
  for (const CatalogRun& run : rank.runs) settings.add(run.settings);
  return settings;
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
  for_each_count([](auto& to, std::uint64_t count) { to = count; }, out, statistics);
  return out;
}

std::string_view TextPool::keep(std::string_view text) {
  if (text.empty()) return {};
  const auto found = known_.find(text);
  if (found != known_.end()) return *found;
  return *known_.insert(keep_unique(text)).first;
}

std::string_view TextPool::keep_unique(std::string_view text) {
  if (text.empty()) return {};
  const std::size_t size = text.size() + 1;  // includes a terminating 0, for use as a C string
  if (size > left_) {
    left_ = std::max(size, kBlock);
    free_ = blocks_.emplace_back(std::make_unique_for_overwrite<char[]>(left_)).get();
  }
  char* const place = free_;
  std::ranges::copy(text, place);
  place[text.size()] = '\0';
  free_ += size;
  left_ -= size;
  return {place, text.size()};
}

namespace {

// A problem has its path in a separate field.
void shorten(std::vector<CatalogProblem>& problems) {
  for (CatalogProblem& problem : problems) {
    const std::string start = "cannot read '" + problem.path.string() + "': ";
    if (problem.message.starts_with(start)) problem.message.erase(0, start.size());
  }
}

// A dump.json that is not msprobe's does not make a rank if there are others.
void drop_empty_ranks(Catalog& catalog) {
  const auto is_empty = [](const CatalogRank& rank) {
    return rank.kind == DumpKind::msprobe &&
           std::ranges::all_of(rank.steps, [](const CatalogStep& step) { return step.ops.empty(); });
  };
  if (std::ranges::all_of(catalog.ranks, is_empty)) return;
  std::erase_if(catalog.ranks, is_empty);
}

}  // namespace

std::optional<std::uint32_t> rank_in_name(const fs::path& directory) {
  const std::string name = directory.filename();
  std::uint32_t number = 0;
  return name.starts_with("rank_") && rank_number(name, number) ? std::optional(number) : std::nullopt;
}

RankPlaces rank_places(const fs::path& real) {
  std::error_code error;
  if (!fs::is_directory(real, error) || !inside_of(real).ranks.empty()) return {};
  Findings found = find_dumps(real, true);
  if (!found.steps.empty() || !found.msprobe.empty() || !found.loose.empty() || !found.summaries.empty()) return {};
  shorten(found.problems);
  return {std::move(found.journals), std::move(found.problems)};
}

Catalog open_rank(const JournalPlace& place) {
  Catalog catalog;
  catalog.path = place.directory;
  read_rank(place, {}, place.directory, catalog);
  shorten(catalog.problems);
  return catalog;
}

void name_joined_dumps(const fs::path& real, Catalog& catalog) { name_dumps(real, catalog); }

Catalog journals_of_dump(const fs::path& path) {
  Catalog catalog;
  catalog.path = path;
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error) return catalog;
  RankPlaces found = rank_places(real);
  catalog.problems = std::move(found.problems);
  for (const JournalPlace& place : found.journals) {
    CatalogRank& rank = catalog.ranks.emplace_back();
    rank.directory = place.directory;
    rank.metadata = place.metadata;
    rank.has_journal = true;
    rank.rank = rank_in_name(place.directory).value_or(0);
  }
  name_dumps(real, catalog);
  std::ranges::stable_sort(catalog.ranks, {}, &CatalogRank::rank);
  return catalog;
}

Result<Catalog> open_catalog(const fs::path& path) { return open_catalog(path, ReadProgress()); }

Result<Catalog> open_catalog(const fs::path& path, const ReadProgress& progress) {
  std::error_code error;
  // msprobe's own tools get the JSON as the path.
  const bool is_record = path.filename() == "dump.json" || path.filename() == "debug.json";
  const fs::path directory =
      is_record && fs::is_regular_file(path, error) ? fs::absolute(path, error).parent_path() : path;
  if (Status status = check_directory(directory); !status) return status.error();
  const fs::path real = fs::canonical(directory, error);
  if (error) return cannot_open(path, ErrorCode::io, error.message());
  Catalog catalog;
  catalog.path = path;
  if (const Inside inside = inside_of(real); !inside.ranks.empty()) {
    for (const JournalPlace& rank : inside.ranks) read_rank(rank, inside.filter, real, catalog);
  } else {
    Findings found = find_dumps(real, true);
    if (found.empty()) return not_a_dump(path, found);
    catalog.problems = std::move(found.problems);
    for (const JournalPlace& rank : found.journals) read_rank(rank, {}, rank.directory, catalog);
    const auto journals = static_cast<std::ptrdiff_t>(catalog.ranks.size());
    read_trees(found, real, progress, catalog);
    read_msprobe(found, catalog);
    read_loose(found, real, catalog);
    read_summaries(found, catalog);
    drop_empty_ranks(catalog);
    for (CatalogRank& rank : std::span(catalog.ranks.begin() + journals, catalog.ranks.end())) {
      add_host_graphs(rank, catalog);
    }
    name_dumps(real, catalog);
  }
  std::ranges::stable_sort(catalog.ranks, {}, &CatalogRank::rank);
  std::vector<CatalogStep*> without_sources;
  for (CatalogRank& rank : catalog.ranks) {
    if (rank.has_journal || rank.has_host_data_flow) continue;
    for (CatalogStep& step : rank.steps) without_sources.push_back(&step);
  }
  Threads().for_each(without_sources.size(), [&](std::size_t i) { add_likely_sources(*without_sources[i]); });
  shorten(catalog.problems);
  return catalog;
}

bool Catalog::has_lost() const { return std::ranges::any_of(problems, &CatalogProblem::is_lost); }

const CatalogOp* find_op(const CatalogStep& step, std::string_view op_name) {
  const auto found = std::ranges::find(step.ops, op_name, &CatalogOp::op_name);
  return found == step.ops.end() ? nullptr : &*found;
}

std::string_view failure_of(const CatalogRun& run) {
  if (!run.error.empty()) return run.error;
  for (const std::string& note : run.notes) {
    if (note.starts_with(kRecordingStopped)) return std::string_view(note).substr(kRecordingStopped.size());
  }
  return "";
}

}  // namespace sonde
