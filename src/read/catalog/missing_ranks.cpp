#include "read/catalog/missing_ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <system_error>
#include <vector>

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

}  // namespace

std::string missing_ranks_note(const std::filesystem::path& dump, const std::set<std::uint32_t>& there) {
  if (there.size() == 1 && is_inside_rank(dump, *there.begin())) return "";
  // By what lies between two ranks: the name of a directory may have any number.
  std::vector<std::string> missing;
  std::uint64_t next = 0, count = 0;
  for (const std::uint32_t rank : there) {
    if (rank > next)
      missing.push_back(rank - next == 1 ? fmt::format("{}", next) : fmt::format("{}-{}", next, rank - 1));
    count += rank - next;
    next = std::uint64_t{rank} + 1;
  }
  if (missing.empty()) return "";
  return fmt::format("the dump lacks rank{} {}: what was computed there is not known", count == 1 ? "" : "s",
                     fmt::join(missing, ", "));
}

std::string missing_ranks_note(const Catalog& catalog) {
  std::set<std::uint32_t> there;
  for (const CatalogRank& rank : catalog.ranks) {
    if (!rank.dump.empty()) return "";
    there.insert(rank.rank);
  }
  return missing_ranks_note(catalog.path, there);
}

}  // namespace sonde
