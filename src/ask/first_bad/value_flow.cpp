#include "ask/first_bad/value_flow.h"

#include <algorithm>

#include "ask/first_bad/flow_edges.h"
#include "ask/first_bad/flow_facts.h"

namespace sonde {

ValueFlow::ValueFlow(const CatalogRank& rank, std::size_t step, HealthReader& health, Options options)
    : graph_(flow_graph_of(rank, step, health, options.only_overflows)),
      training_(training_of(graph_, rank, step)),
      origins_(graph_, options.inputs_before),
      ends_(graph_, origins_, training_, options.losses),
      roots_(graph_, training_, origins_, ends_) {}

bool ValueFlow::born_before_scale(const Root& root) const {
  const auto is_backward = [&](std::uint32_t op) { return graph_.ops()[op].phase == Phase::backward; };
  if (is_backward(root.op) || graph_.ops()[root.op].phase == Phase::optimizer) return false;
  if (root.kind != RootKind::created && root.kind != RootKind::converted) return false;
  if (root.lost) return true;  // a zero in its place goes on, and nothing that is not finite reaches the backward pass
  return std::ranges::any_of(root.path, is_backward) && !ends_.is_scaled_loss(graph_.values()[root.value]);
}

// The check of the gradients multiplies them by its inverse, which is its last input.
std::optional<double> ValueFlow::loss_scale() const {
  for (const FlowOp& op : graph_.ops()) {
    if (!op.nature.checks_gradients || op.inputs.empty()) continue;
    const CatalogTensor& inverse = *op.inputs.back().tensor;
    const KnownStatistics* known = is_scalar(&inverse) ? graph_.health().statistics(inverse) : nullptr;
    if (known != nullptr && known->max && *known->max > 0) return 1 / *known->max;
  }
  return std::nullopt;
}

}  // namespace sonde
