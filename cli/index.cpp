#include "read/index/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "dump.h"
#include "engine.h"
#include "face/report/text.h"
#include "read/index/rank_indices.h"
#include "verbs.h"
#include "waiting.h"

namespace sonde {
namespace {

// The verbs that read the index will give these warnings.
template <typename Made>
void warn_of_dump(Result<Made> made) {
  CatalogQuery query;
  query.with_ops = false;
  const Result<Catalog> catalog = made ? made->load(query) : made.error();
  if (!catalog) return;
  report_problems(*catalog);
  warn_of_ranks(*catalog, std::nullopt);
}

// The ranks with these directories; all of them that have no right index where none is named.
std::optional<std::vector<RankToIndex>> asked_ranks(const IndexCommand& options, int& status) {
  Result<std::vector<RankToIndex>> ranks = ranks_to_index(options.dump, options.dir);
  if (!ranks) {
    status = status_of(ranks.error());
    return std::nullopt;
  }
  if (options.dir.empty()) {
    std::erase_if(*ranks, &RankToIndex::is_right);
    return std::move(*ranks);
  }
  std::vector<RankToIndex> asked;
  for (const std::string& directory : options.dir) {
    const auto found = std::ranges::find(*ranks, directory, &RankToIndex::directory);
    if (found == ranks->end()) {
      print_error(fmt::format("'{}' has no rank in '{}'; `sonde index {} --stale` lists those without an index",
                              options.dump, directory, options.dump));
      status = kBadUsage;
      return std::nullopt;
    }
    asked.push_back(*found);
  }
  return asked;
}

void add(const IndexReport& one, IndexReport& all) {
  all.files += one.files;
  all.tensors += one.tensors;
  all.bytes += one.bytes;
  all.read_seconds += one.read_seconds;
  all.write_seconds += one.write_seconds;
}

int print_ranks(const IndexCommand& options, const IndexReport& report) {
  if (options.json) {
    Answer::get().add(report);
    return kNothingFound;
  }
  if (!options.stale) {
    return print_text(fmt::format("{}\n{} of {} in {}\n", printable(report.file.string()),
                                  count_text(report.ranks.size(), "rank"), printable(options.dump),
                                  bytes_text(report.bytes)))
               ? kNothingFound
               : kUnreadable;
  }
  return print_directories(report.ranks);
}

Result<IndexReport> indexed(const RankToIndex& rank) {
  Result<IndexReport> built = build_rank_index(rank);
  if (!built) return Error{built.error().code, rank.directory + ": " + built.error().message};
  return built;
}

// Ranks by themselves: the part of the work that goes on anywhere, side by side.
int index_by_rank(const IndexCommand& options) {
  int status = kNothingFound;
  std::optional<std::vector<RankToIndex>> ranks = asked_ranks(options, status);
  if (!ranks) return status;
  IndexReport report;
  report.file = options.out;
  for (RankToIndex& rank : *ranks) {
    report.ranks.push_back(rank.directory);
    if (!options.out.empty()) rank.file = std::filesystem::path(options.out) / rank.file.filename();
    report.file = rank.file.parent_path();
    if (options.stale || (options.out.empty() && rank.is_right)) continue;
    const Result<IndexReport> built = indexed(rank);
    if (!built) return status_of(built.error());
    add(*built, report);
  }
  return print_ranks(options, report);
}

// Workers make the indices; those that they left are made here.
int index_by_engine(const IndexCommand& options) {
  int status = kNothingFound;
  const std::optional<std::vector<RankToIndex>> asked = index_ranks(options.dump, options.engine, status);
  if (!asked) return status;
  const std::optional<std::vector<RankToIndex>> left = asked_ranks(options, status);
  if (!left) return status;
  IndexReport report;
  report.file = std::filesystem::path(options.dump);
  for (const RankToIndex& rank : *left) {
    if (const Result<IndexReport> built = indexed(rank); !built) return status_of(built.error());
  }
  for (const RankToIndex& rank : *asked) {
    report.ranks.push_back(rank.directory);
    report.file = rank.file.parent_path();
    std::error_code gone;
    const std::uintmax_t bytes = std::filesystem::file_size(rank.file, gone);
    report.bytes += gone ? 0 : bytes;
  }
  warn_of_dump(RankIndices::open(options.dump));
  return print_ranks(options, report);
}

}  // namespace

int index(const IndexCommand& options) {
  if (!options.engine.empty()) return index_by_engine(options);
  if (options.stale || !options.dir.empty()) return index_by_rank(options);
  std::optional<Waiting> waiting("reading the dump");
  const Result<IndexReport> built =
      build_index(options.dump, options.out, [&](std::string_view name, std::uint64_t done, std::uint64_t all) {
        waiting->now(std::string(name), done, all);
      });
  waiting.reset();
  if (!built) return status_of(built.error());
  warn_of_dump(Index::open(options.dump, options.out));
  if (options.json) {
    Answer::get().add(*built);
    return kNothingFound;
  }
  const std::string text =
      fmt::format("{}\n{} and {} of {} in {}; read in {:.2f} s, written in {:.2f} s\n", printable(built->file.string()),
                  count_text(built->files, "file"), count_text(built->tensors, "tensor"), printable(options.dump),
                  bytes_text(built->bytes), built->read_seconds, built->write_seconds);
  return print_text(text) ? kNothingFound : kUnreadable;
}

}  // namespace sonde
