// ParameterNames: the names of what each side reads from outside the step, and states that an optimizer keeps for a
// parameter: `exp_avg.fc.weight`, `step.fc.weight`.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "ask/compare/compare_side.h"

namespace sonde {

class ParameterNames {
 public:
  // Of sides whose ops are matched: the target's parameters have the golden names then.
  ParameterNames(const CompareSide& target, const CompareSide& golden);

  bool in_target(std::string_view name) const { return target_.contains(name); }
  bool in_golden(std::string_view name) const { return golden_.contains(name); }
  std::string_view of_state(std::string_view state) const;  // `fc.weight`; empty: not a state
  std::string state_text(std::string_view state) const;     // "state exp_avg of fc.weight"; empty: not a state

 private:
  std::set<std::string_view> target_, golden_;
};

}  // namespace sonde
