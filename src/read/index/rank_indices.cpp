#include "read/index/rank_indices.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "ground/base/reorder.h"
#include "read/index/index_file.h"
#include "read/index/index_reader.h"
#include "read/index/tree_snapshot.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

// Fails like Index::open.
Result<Database> open_right_index(const JournalPlace& place, const fs::path& file) {
  Result<Database> database = Database::open_sealed(file);
  if (!database) return database;
  if (Status right = check_index(*database, file, place.metadata); !right) return right.error();
  const Result<std::vector<SourceState>> sources = read_sources(*database);
  if (!sources) return sources.error();
  if (const std::string changed = changed_source(place.directory, *sources); !changed.empty()) {
    return Error{ErrorCode::busy, "'" + file.string() + "' is out of date: " + changed};
  }
  return database;
}

// The ranks of an index of one rank are one.
Result<Catalog> read_one_rank(Database& database, const fs::path& file, const CatalogQuery& query) {
  Result<Catalog> catalog = read_index(database, query);
  if (catalog && catalog->ranks.size() != 1) {
    return Error{ErrorCode::corrupt, "'" + file.string() + "' is not the index of one rank"};
  }
  return catalog;
}

// The texts that ops of several catalogs refer to.
struct Owners {
  std::vector<std::unique_ptr<TextPool>> texts;
  std::vector<std::shared_ptr<const void>> others;
};

// Of the ops with one name only the first stays, with the sums over all ranks.
void keep_first_of_names(Catalog& catalog) {
  std::unordered_map<std::string_view, CatalogOp*> first;
  for (CatalogRank& rank : catalog.ranks) {
    for (CatalogStep& step : rank.steps) {
      for (CatalogOp& op : step.ops) {
        const auto [at, is_new] = first.try_emplace(op.op_name, &op);
        if (is_new || !op.sum || !at->second->sum) continue;
        at->second->sum->times += op.sum->times;
        at->second->sum->recorded += op.sum->recorded;
        op.sum.reset();
      }
    }
  }
  for (CatalogRank& rank : catalog.ranks) {
    for (CatalogStep& step : rank.steps) std::erase_if(step.ops, [](const CatalogOp& op) { return !op.sum; });
  }
}

}  // namespace

Result<RankIndices> RankIndices::open(const fs::path& dump) {
  std::error_code error;
  RankIndices indices;
  indices.dump_ = dump;
  const fs::path root = fs::canonical(dump, error);
  if (error || !fs::is_directory(rank_indices_of(root), error)) {
    return Error{ErrorCode::not_found, "the ranks of '" + dump.string() + "' have no indices"};
  }
  RankPlaces places = rank_places(root);
  if (places.journals.empty()) {
    return Error{ErrorCode::not_found, "'" + dump.string() + "' cannot be read rank by rank"};
  }
  indices.frames_.problems = std::move(places.problems);
  for (const JournalPlace& place : places.journals) {
    indices.parts_.push_back({place, rank_index_file_of(root, place.metadata)});
    if (Status added = indices.add_frame(indices.parts_.back()); !added) return added.error();
  }
  indices.put_in_order(root);
  return indices;
}

Result<RankIndices> RankIndices::open_rank(const fs::path& root, const JournalPlace& place) {
  RankIndices indices;
  indices.dump_ = place.directory;
  indices.frames_.path = place.directory;
  indices.parts_.push_back({place, rank_index_file_of(root, place.metadata)});
  if (Status added = indices.add_frame(indices.parts_.back()); !added) return added.error();
  return indices;
}

Status RankIndices::add_frame(const Part& part) {
  Result<Database> database = open_right_index(part.place, part.file);
  if (!database) return database.error();
  CatalogQuery query;
  query.with_ops = false;
  Result<Catalog> frame = read_one_rank(*database, part.file, query);
  if (!frame) return frame.error();
  for (CatalogStep& step : frame->ranks[0].steps) step.directory = frames_.texts->keep(step.directory);
  std::ranges::move(frame->problems, std::back_inserter(frames_.problems));
  frames_.ranks.push_back(std::move(frame->ranks[0]));
  return {};
}

// As open_catalog: ranks by number.
void RankIndices::put_in_order(const fs::path& root) {
  frames_.path = dump_;
  name_joined_dumps(root, frames_);
  std::vector<std::size_t> order(parts_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t at) { return frames_.ranks[at].rank; });
  reorder(frames_.ranks, order);
  reorder(parts_, order);
}

Result<Database> RankIndices::open_rank_index(std::size_t rank) const {
  return Database::open_sealed(parts_[rank].file);
}

Result<Catalog> RankIndices::load_rank(std::size_t rank, const CatalogQuery& query) const {
  Result<Database> database = open_rank_index(rank);
  if (!database) return database.error();
  return load_rank(rank, *database, query);
}

Result<Catalog> RankIndices::load_rank(std::size_t rank, Database& database, const CatalogQuery& query) const {
  return read_one_rank(database, parts_[rank].file, query);
}

Result<Catalog> RankIndices::load(const CatalogQuery& query) {
  Catalog catalog = std::move(frames_);
  if (!query.with_ops) return catalog;
  const auto owners = std::make_shared<Owners>();
  for (std::size_t i = 0; i < catalog.ranks.size(); ++i) {
    CatalogRank& rank = catalog.ranks[i];
    if (std::ranges::none_of(rank.steps, [&](const auto& step) { return query.takes(rank.rank, step.id); })) continue;
    Result<Catalog> part = load_rank(i, query);
    if (!part) return part.error();
    std::vector<CatalogStep>& steps = part->ranks[0].steps;
    for (std::size_t step = 0; step < std::min(steps.size(), rank.steps.size()); ++step) {
      rank.steps[step].ops = std::move(steps[step].ops);
    }
    owners->texts.push_back(std::move(part->texts));
    owners->others.push_back(std::move(part->owner));
    if (query.first_step_only) break;
  }
  catalog.owner = owners;
  if (query.first_of_name) keep_first_of_names(catalog);
  return catalog;
}

Result<std::vector<RankToIndex>> ranks_to_index(const fs::path& dump, const std::vector<std::string>& directories) {
  std::error_code error;
  const fs::path root = fs::canonical(dump, error);
  if (error) return Error{ErrorCode::not_found, "cannot open dump '" + dump.string() + "': " + error.message()};
  std::vector<RankToIndex> ranks;
  for (JournalPlace& place : rank_places(root).journals) {
    std::string directory = place.metadata.parent_path().lexically_relative(root).native();
    if (!directories.empty() && std::ranges::find(directories, directory) == directories.end()) continue;
    RankToIndex& rank = ranks.emplace_back();
    rank.directory = std::move(directory);
    rank.place = std::move(place);
    rank.file = rank_index_file_of(root, rank.place.metadata);
    rank.is_right = !rank.file.empty() && open_right_index(rank.place, rank.file);
  }
  return ranks;
}

}  // namespace sonde
