#include "ask/first_bad/flow_training.h"

#include <algorithm>

#include "ground/model/gradient_name.h"

namespace sonde {
namespace {

// The check ran, and no operator of an optimizer after it.
bool scaler_skipped(const FlowGraph& graph) {
  bool checked = false, stepped = false;
  for (const FlowOp& op : graph.ops()) {
    if (op.is_next) break;
    checked = checked || op.nature.checks_gradients;
    stepped = stepped || (checked && op.phase == Phase::optimizer);
  }
  return checked && !stepped;
}

bool optimizer_reads_finite(const FlowGraph& graph) {
  std::size_t read = 0;
  for (const FlowOp& op : graph.ops()) {
    if (op.is_next || op.phase != Phase::optimizer) continue;
    for (const FlowInput& input : op.inputs) {
      const FlowOp* made_by = graph.maker(input);
      const bool is_gradient =
          is_gradient_name(input.tensor->parameter) || (made_by != nullptr && made_by->phase == Phase::backward);
      if (!is_gradient || !input.is_read) continue;
      const Health health = graph.health_of(input);
      if (!health.known || health.bad()) return false;
      ++read;
    }
  }
  return read > 0;
}

}  // namespace

FlowTraining training_of(const FlowGraph& graph, const CatalogRank& rank, std::size_t step) {
  FlowTraining training;
  for (const FlowOp& op : graph.ops()) {
    if (op.is_next) break;
    training.trains = training.trains || op.phase == Phase::backward || op.phase == Phase::optimizer;
    training.has_modules = training.has_modules || op.phase == Phase::forward;
  }
  training.is_evaluation = rank.steps[step].id.graph != 0;
  const bool is_beside_training =
      training.is_evaluation &&
      std::ranges::any_of(rank.steps, [](const CatalogStep& other) { return other.id.graph == 0; });
  training.nothing_trains = !training.trains && !is_beside_training;
  training.scaler_skipped = scaler_skipped(graph);
  training.optimizer_reads_finite = optimizer_reads_finite(graph);
  return training;
}

}  // namespace sonde
