#include "record/capture/host_steps.h"

#include <algorithm>
#include <utility>

namespace sonde {

bool HostSteps::wants(std::uint64_t step) {
  first_seen_ = seen_ ? std::min(first_seen_, step) : step;
  last_seen_ = seen_ ? std::max(last_seen_, step) : step;
  seen_ = true;
  return switched_ ? on_ : chosen_.contains(step);
}

std::vector<StepChange> HostSteps::at(StepId step) {
  std::vector<StepChange> changes;
  std::optional<std::uint64_t>& open = open_[step.graph];
  if (open == step.number) return changes;
  if (open) changes.push_back({false, false, {step.graph, *open}});
  changes.push_back({true, false, step});
  open = step.number;
  return changes;
}

std::vector<StepChange> HostSteps::end() {
  std::vector<StepChange> changes;
  for (std::uint32_t graph = 0; graph < open_.size(); ++graph) {
    if (const auto open = std::exchange(open_[graph], std::nullopt)) {
      changes.push_back({false, false, {graph, *open}});
    }
  }
  return changes;
}

void HostSteps::set_recording(bool on) {
  switched_ = true;
  on_ = on;
}

}  // namespace sonde
