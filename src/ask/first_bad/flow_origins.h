// FlowOrigins: where the NaN and infinities of each value of a FlowGraph begin.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ask/first_bad/flow_graph.h"
#include "ask/first_bad/flow_kinds.h"

namespace sonde {

struct FlowOrigin {
  std::uint8_t flags[2] = {};                                // by BadKind: RootKinds as bits
  std::optional<RootKind> root[2];                           // set if it begins here
  const CatalogTensor* overwritten[2] = {nullptr, nullptr};  // the input for which its maker recorded other values
  bool leaked = false;  // a placed or external infinity that some op multiplies like any number
};

class FlowOrigins {
 public:
  // `inputs_before`: inputs are in the state before their operator.
  FlowOrigins(const FlowGraph& graph, bool inputs_before);

  const FlowOrigin& of(std::uint32_t value) const { return origins_[value]; }
  std::uint8_t flags(std::uint32_t value, BadKind kind) const { return origins_[value].flags[at(kind)]; }

 private:
  void find(std::uint32_t value, BadKind kind);
  bool places_in_gradient(const FlowOp& op) const;
  bool is_computed(std::uint32_t value) const;
  bool multiplies_by_infinity(const FlowOp& op, std::uint32_t slot) const;
  void find_leak(const FlowOp& op, std::uint32_t slot);
  std::optional<std::uint32_t> leak_of(const FlowOp& op, const FlowInput& input) const;

  const FlowGraph& graph_;
  bool inputs_before_;
  std::vector<FlowOrigin> origins_;  // by value
};

}  // namespace sonde
