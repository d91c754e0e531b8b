#include "read/catalog/dump_part.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "ground/base/ranges_text.h"
#include "read/catalog/select.h"

namespace sonde {
namespace {

template <typename Numbers>
std::string list_of(const Numbers& numbers) {
  return ranges_text({numbers.begin(), numbers.end()});
}

std::string text_of_requests(const std::set<std::string>& requests) {
  if (requests.empty()) return "no step says which requests it worked on";
  constexpr std::size_t kMostNamed = 8;
  std::vector<std::string> names(requests.begin(), requests.end());
  const std::size_t more = names.size() - std::min(names.size(), kMostNamed);
  names.resize(names.size() - more);
  return fmt::format("there is {}{}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

}  // namespace

Result<StepSet> parse_steps(const std::string& text) {
  return text.empty() ? StepSet::all() : parse_step_list("steps", text);
}

Status check_part(const Catalog& catalog, const DumpPart& part) {
  // The ranks; the graphs of the chosen ranks; the steps of the chosen graphs.
  std::set<std::uint64_t> ranks, graphs, steps;
  std::set<std::string> requests;
  bool step_exists = false;
  for (const CatalogRank& rank : catalog.ranks) {
    ranks.insert(rank.rank);
    if (!part.takes(rank)) continue;
    for (const CatalogStep& step : rank.steps) {
      graphs.insert(step.id.graph);
      if (part.graph && *part.graph != step.id.graph) continue;
      for (const StepRequest& one : step.requests) requests.insert(one.request);
      if (!part.has_request(step)) continue;
      steps.insert(step.id.number);
      step_exists = step_exists || part.takes(step);
    }
  }
  std::string wrong;
  if (part.rank && !ranks.contains(*part.rank)) {
    wrong = fmt::format("no rank {}; there is {}", *part.rank, list_of(ranks));
  } else if (!part.request.empty() &&
             std::ranges::none_of(requests, [&](const std::string& one) { return is_meant(one, part.request); })) {
    wrong = fmt::format("no step of request '{}'; {}", part.request, text_of_requests(requests));
  } else if (graphs.empty()) {
    return {};
  } else if (part.graph && !graphs.contains(*part.graph)) {
    wrong = fmt::format("no graph {}; there is {}", *part.graph, list_of(graphs));
  } else if (!step_exists) {
    const std::string of = part.graph ? fmt::format(" of graph {}", *part.graph) : "";
    wrong = fmt::format("no step {}{}; there is {}", part.steps.text(), of, list_of(steps));
  }
  if (wrong.empty()) return {};
  return Error{ErrorCode::invalid_argument, fmt::format("{} in '{}'", wrong, catalog.path.string())};
}

}  // namespace sonde
