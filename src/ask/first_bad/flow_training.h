// The training or evaluation that a step belongs to, and whether its optimizer ran.
#pragma once

#include "ask/first_bad/flow_graph.h"

namespace sonde {

struct FlowTraining {
  bool trains = false;       // backward or an optimizer ran in this step
  bool has_modules = false;  // an op of this step ran inside a module
  bool is_evaluation = false;
  bool nothing_trains = false;  // neither this step nor the run: what it gives to the program is all that it gives
  bool scaler_skipped = false;  // the loss scaler found infinities and no optimizer ran
  bool optimizer_reads_finite = false;  // an optimizer ran, and all gradients that it read are finite
};
FlowTraining training_of(const FlowGraph& graph, const CatalogRank& rank, std::size_t step);

}  // namespace sonde
