// HostSteps: steps of a host that counts them itself for each of its graphs, as MindSpore does.
//
// A step begins with the first operator reported for it. It ends where the host says that all steps end or where an
// operator of a later step runs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/config/plan.h"
#include "record/capture/per_graph.h"
#include "record/capture/step_clock.h"

namespace sonde {

class HostSteps {
 public:
  explicit HostSteps(StepSet chosen) : chosen_(std::move(chosen)) {}

  // True if the host's step `step` is to be recorded.
  bool wants(std::uint64_t step);
  // An operator of this step runs: returns the steps that ended and began.
  std::vector<StepChange> at(StepId step);
  std::vector<StepChange> end();
  // From the first call on, this alone decides what is chosen.
  void set_recording(bool on);
  // The first and the last step that wants() was asked about.
  std::uint64_t first_seen() const { return first_seen_; }
  std::uint64_t last_seen() const { return last_seen_; }
  bool seen() const { return seen_; }

 private:
  StepSet chosen_;
  bool switched_ = false, on_ = true;
  bool seen_ = false;
  std::uint64_t first_seen_ = 0, last_seen_ = 0;
  PerGraph<std::optional<std::uint64_t>> open_;  // step of the open step
};

}  // namespace sonde
