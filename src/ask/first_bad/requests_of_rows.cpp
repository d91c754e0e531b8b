#include "ask/first_bad/requests_of_rows.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "ground/base/ranges_text.h"
#include "ground/base/text.h"

namespace sonde {
namespace {

constexpr std::size_t kPlacesLookedAt = 100000;

}  // namespace

// Of a batch of tokens, or of one result for each request.
std::vector<std::string> requests_evidence(const CatalogRank& rank, const CatalogStep& step,
                                           const CatalogTensor& tensor, SlotValues::Want bad_wanted) {
  std::vector<std::string> lines;
  const std::vector<StepRequest>& requests = step.requests;
  if (requests.empty() || tensor.shape.empty()) return lines;
  const auto size = static_cast<std::uint64_t>(tensor.shape[0]);
  const bool has_rows = size == requests.back().row + requests.back().rows;
  if (!has_rows && size != requests.size()) return lines;
  const std::optional<SlotValues> values = SlotValues::open(rank, tensor);
  if (!values) return lines;
  const std::vector<Position> bad = values->find(bad_wanted, kPlacesLookedAt);
  std::map<std::uint64_t, std::set<std::uint64_t>> found;  // by the number of the request: positions
  for (const Position& place : bad) {
    const auto row = static_cast<std::uint64_t>(place[0]);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const StepRequest& one = requests[i];
      if (!has_rows && i == row) found[i].insert(one.position + one.rows - 1);
      if (has_rows && row >= one.row && row < one.row + one.rows) found[i].insert(one.position + row - one.row);
    }
  }
  for (const auto& [number, positions] : found) {
    lines.push_back(fmt::format("in rows of request {}: position {}", requests[number].request,
                                ranges_text({positions.begin(), positions.end()})));
  }
  if (!found.empty() && found.size() < requests.size() && bad.size() < kPlacesLookedAt) {
    lines.push_back(fmt::format("not in those of the other {} of {}", requests.size() - found.size(),
                                count_text(requests.size(), "request")));
  }
  return lines;
}

}  // namespace sonde
