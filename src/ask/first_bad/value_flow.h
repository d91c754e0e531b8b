// ValueFlow: the origins and effects of the NaN and infinities of a step, along its data flow.
//
// An output that holds NaN or infinity *has* that kind. A kind has a root, where the op's inputs do not explain it, and
// an end. It matters if a path leads from it to a gradient, a parameter, the loss, or to no reader; it is absorbed if
// every op that reads it gives finite results. The exact rules: docs/first-bad.md.
#pragma once

#include <optional>
#include <vector>

#include "ask/first_bad/flow_ends.h"
#include "ask/first_bad/flow_graph.h"
#include "ask/first_bad/flow_origins.h"
#include "ask/first_bad/flow_roots.h"
#include "ask/first_bad/flow_training.h"
#include "ask/first_bad/loss_places.h"

namespace sonde {

class ValueFlow {
 public:
  struct Options {
    bool inputs_before = true;    // inputs are in the state before their operator
    bool only_overflows = false;  // the dump holds only ops that overflowed: missing ones were finite
    const LossPlaces* losses = nullptr;
  };
  // Step `step` of the rank; the step after it shows which ops read its final state.
  ValueFlow(const CatalogRank& rank, std::size_t step, HealthReader& health, Options options);
  ValueFlow(const ValueFlow&) = delete;
  ValueFlow& operator=(const ValueFlow&) = delete;

  const FlowGraph& graph() const { return graph_; }
  const std::vector<FlowOp>& ops() const { return graph_.ops(); }
  const FlowRoots& roots() const { return roots_; }
  bool scaler_skipped() const { return training_.scaler_skipped; }
  // Made before backward begins, and not by the scale of the loss.
  bool born_before_scale(const Root& root) const;
  std::optional<double> loss_scale() const;  // of this step; empty: unknown

 private:
  FlowGraph graph_;
  FlowTraining training_;
  FlowOrigins origins_;
  FlowEnds ends_;
  FlowRoots roots_;
};

}  // namespace sonde
