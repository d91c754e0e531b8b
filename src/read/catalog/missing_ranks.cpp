#include "read/catalog/missing_ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <system_error>

#include "dump/layout/trees.h"

namespace sonde {
namespace {

// run/rank_3, and directories inside it.
bool is_inside_rank(const std::filesystem::path& dump, std::uint32_t rank) {
  std::error_code failed;
  return std::ranges::any_of(std::filesystem::absolute(dump, failed), [rank](const std::filesystem::path& name) {
    std::uint32_t number = 0;
    return rank_number(name.native(), number) && number == rank;
  });
}

// "rank 3", "ranks 0, 4-6": the numbers from each first to before its end.
class RankRanges {
 public:
  void add(std::uint64_t first, std::uint64_t end) {
    if (first >= end) return;
    if (!ranges_.empty() && ranges_.back().second == first) {
      ranges_.back().second = end;
    } else {
      ranges_.emplace_back(first, end);
    }
    count_ += end - first;
  }
  bool empty() const { return ranges_.empty(); }
  std::string text() const {
    std::vector<std::string> parts;
    for (const auto& [first, end] : ranges_) {
      parts.push_back(end - first == 1 ? fmt::format("{}", first) : fmt::format("{}-{}", first, end - 1));
    }
    return fmt::format("rank{} {}", count_ == 1 ? "" : "s", fmt::join(parts, ", "));
  }

 private:
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges_;
  std::uint64_t count_ = 0;
};

// By what lies between two ranks: the name of a directory may have any number.
std::string missing_note(const std::set<std::uint32_t>& there, std::uint64_t world_size) {
  RankRanges missing;
  std::uint64_t next = 0;
  for (const std::uint32_t rank : there) {
    missing.add(next, rank);
    next = std::uint64_t{rank} + 1;
  }
  missing.add(next, world_size);
  if (missing.empty()) return "";
  return fmt::format("the dump lacks {}: what was computed there is not known", missing.text());
}

std::string versions_note(std::vector<RankOrigin> ranks) {
  std::erase_if(ranks, [](const RankOrigin& one) { return one.sonde_version.empty(); });
  std::ranges::stable_sort(ranks, {}, &RankOrigin::rank);
  std::map<std::string, RankRanges> of_version;
  for (const RankOrigin& one : ranks) of_version[one.sonde_version].add(one.rank, std::uint64_t{one.rank} + 1);
  if (of_version.size() < 2) return "";
  std::vector<std::string> parts;
  for (const auto& [version, numbers] : of_version) parts.push_back(fmt::format("{} {}", version, numbers.text()));
  return fmt::format("different versions of Sonde recorded the ranks: {}; they may name and record operators otherwise",
                     fmt::join(parts, ", "));
}

}  // namespace

std::vector<std::string> rank_notes(const std::filesystem::path& dump, const std::vector<RankOrigin>& ranks) {
  std::set<std::uint32_t> there;
  std::uint64_t world_size = 0;
  for (const RankOrigin& one : ranks) {
    there.insert(one.rank);
    world_size = std::max(world_size, one.world_size);
  }
  if (there.empty() || (there.size() == 1 && is_inside_rank(dump, *there.begin()))) return {};
  std::vector<std::string> notes = {missing_note(there, world_size), versions_note(ranks)};
  std::erase(notes, "");
  return notes;
}

std::vector<std::string> rank_notes(const Catalog& catalog) {
  std::vector<RankOrigin> ranks;
  for (const CatalogRank& rank : catalog.ranks) {
    if (!rank.dump.empty()) return {};
    RankOrigin& one = ranks.emplace_back();
    one.rank = rank.rank;
    if (rank.runs.empty()) continue;
    one.sonde_version = rank.runs.back().sonde_version;
    one.world_size = rank.runs.back().world_size;
  }
  return rank_notes(catalog.path, ranks);
}

}  // namespace sonde
