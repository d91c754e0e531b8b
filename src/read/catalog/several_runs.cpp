#include "read/catalog/several_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>
#include <tuple>
#include <vector>

namespace sonde {

bool has_steps_twice(const CatalogRank& rank) {
  if (rank.runs.size() < 2) return false;
  std::map<std::tuple<std::uint32_t, std::uint64_t>, std::set<std::size_t>> runs;
  for (const CatalogStep& step : rank.steps) {
    std::set<std::size_t>& of_step = runs[{step.id.graph, step.id.number}];
    of_step.insert(step.run);
    if (of_step.size() > 1) return true;
  }
  return false;
}

std::string steps_twice_text(const Catalog& catalog) {
  for (const CatalogRank& rank : catalog.ranks) {
    if (!has_steps_twice(rank)) continue;
    std::map<std::size_t, std::size_t> steps;  // of each run
    for (const CatalogStep& step : rank.steps) ++steps[step.run];
    std::vector<std::string> runs;
    for (const auto& [run, count] : steps) {
      const std::string saved = run < rank.runs.size() ? rank.runs[run].saved_data : "";
      runs.push_back(
          fmt::format("run {} ({}{}{} step{})", run, saved, saved.empty() ? "" : ", ", count, count == 1 ? "" : "s"));
    }
    return fmt::format("rank {} of '{}' contains the same steps of {} runs: {}", rank.rank, catalog.path.string(),
                       runs.size(), fmt::join(runs, ", "));
  }
  return "";
}

}  // namespace sonde
