#include "ask/compare/parameter_names.h"

#include <fmt/format.h>

namespace sonde {
namespace {

std::set<std::string_view> names_read_by(const CompareSide& side) {
  std::set<std::string_view> names;
  for (const CompareOp& op : side.ops) {
    for (const CompareInput& input : op.inputs) {
      if (input.from == kNoOp && !input.name.empty()) names.insert(input.name);
    }
  }
  return names;
}

// `fc.weight` of `exp_avg.fc.weight`, the longest that is a parameter; empty: of none.
std::string_view parameter_of(std::string_view state, const std::set<std::string_view>& parameters) {
  for (std::size_t dot = state.find('.'); dot != std::string_view::npos; dot = state.find('.', dot + 1)) {
    const std::string_view rest = state.substr(dot + 1);
    if (parameters.contains(rest)) return rest;
  }
  return "";
}

}  // namespace

ParameterNames::ParameterNames(const CompareSide& target, const CompareSide& golden)
    : target_(names_read_by(target)), golden_(names_read_by(golden)) {}

std::string_view ParameterNames::of_state(std::string_view state) const {
  const std::string_view golden = parameter_of(state, golden_);
  return golden.empty() ? parameter_of(state, target_) : golden;
}

std::string ParameterNames::state_text(std::string_view state) const {
  const std::string_view parameter = of_state(state);
  if (parameter.empty()) return "";
  return fmt::format("state {} of {}", state.substr(0, state.size() - parameter.size() - 1), parameter);
}

}  // namespace sonde
