#include "record/capture/forward_gap.h"

#include <utility>

namespace sonde {
namespace {

// Limit in a row, for one root, before the first training step and before any: a reference model may get a few
// batches for one step. More are an evaluation loop.
constexpr std::uint32_t kMostAtFirst = 2, kMostInARow = 4;

std::uint32_t count_in(const std::unordered_map<std::uint64_t, std::uint32_t>& counts, std::uint64_t root) {
  const auto found = counts.find(root);
  return found != counts.end() ? found->second : 0;
}

}  // namespace

// The first forward after the optimizer has stepped.
void ForwardGap::begin() {
  if (std::exchange(ended_, false)) now_.clear();
}

void ForwardGap::count(std::uint64_t root) {
  begin();
  ++now_[root];
}

bool ForwardGap::is_as_often_as_before(std::uint64_t root, bool first) const {
  return count_in(now_, root) <= (first ? kMostAtFirst : count_in(before_, root));
}

void ForwardGap::with_gradients(bool step_begins) {
  begin();
  if (!step_begins) return;
  before_ = now_;
  std::erase_if(before_, [](const auto& item) { return item.second > kMostInARow; });
}

}  // namespace sonde
