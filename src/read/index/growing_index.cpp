#include "read/index/growing_index.h"

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "read/catalog/growing_rank.h"
#include "read/index/index_writer.h"

namespace sonde {

struct GrowingIndex::State {
  std::filesystem::path dump;
  GrowingTables tables;
  std::vector<GrowingRank> ranks;
  std::vector<std::filesystem::path> places;  // of their metadata
  std::uint64_t read_bytes = 0;               // of all journals
};

namespace {

std::vector<std::filesystem::path> places_of(const Catalog& journals) {
  std::vector<std::filesystem::path> places;
  for (const CatalogRank& rank : journals.ranks) places.push_back(rank.metadata);
  return places;
}

Error as_a_whole(const std::filesystem::path& dump) {
  return Error{ErrorCode::unsupported, "'" + dump.string() + "' must be read as a whole"};
}

}  // namespace

GrowingIndex::GrowingIndex(std::unique_ptr<State> state) : state_(std::move(state)) {}
GrowingIndex::GrowingIndex(GrowingIndex&&) noexcept = default;
GrowingIndex& GrowingIndex::operator=(GrowingIndex&&) noexcept = default;
GrowingIndex::~GrowingIndex() = default;

Result<GrowingIndex> GrowingIndex::open(const std::filesystem::path& dump, const ReadProgress& progress) {
  const Catalog journals = journals_of_dump(dump);
  if (journals.ranks.empty() || !journals.problems.empty()) return as_a_whole(dump);
  std::error_code error;
  Result<GrowingTables> tables = GrowingTables::create(std::filesystem::canonical(dump, error));
  if (!tables) return tables.error();
  GrowingIndex index(std::make_unique<State>(State{dump, std::move(*tables), {}, places_of(journals)}));
  for (const CatalogRank& rank : journals.ranks) index.state_->ranks.emplace_back(rank);
  Result<bool> read = index.grow(progress);
  if (!read) return read.error();
  if (!*read) return as_a_whole(dump);  // nothing is there
  return index;
}

Result<bool> GrowingIndex::grow(const ReadProgress& progress) {
  State& state = *state_;
  if (places_of(journals_of_dump(state.dump)) != state.places) return as_a_whole(state.dump);  // one more rank
  Status written;
  std::uint64_t read_bytes = 0;
  for (std::size_t i = 0; i < state.ranks.size(); ++i) {
    const auto take = [&](const CatalogRank& over) {
      if (written) written = state.tables.add(over, i);
      const GrowingRank& rank = state.ranks[i];
      if (progress) progress((read_bytes + rank.offset()) >> 20U, (read_bytes + rank.size()) >> 20U);
    };
    if (!state.ranks[i].read(take)) return as_a_whole(state.dump);
    read_bytes += state.ranks[i].offset();
  }
  if (!written) return written.error();
  if (read_bytes == state.read_bytes) return false;
  state.read_bytes = read_bytes;
  Catalog rest;
  for (GrowingRank& rank : state.ranks) {
    rest.ranks.push_back(rank.frame());
    rank.add_open(rest.ranks.back(), *rest.texts);
  }
  if (Status set = state.tables.set_rest(rest); !set) return set.error();
  return true;
}

bool GrowingIndex::has_finished() const { return std::ranges::all_of(state_->ranks, &GrowingRank::has_finished); }
std::uint64_t GrowingIndex::ops_over() const { return state_->tables.ops_over(); }
Database& GrowingIndex::database() { return state_->tables.database(); }

}  // namespace sonde
