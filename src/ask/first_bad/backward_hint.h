// Sentences about a finding: the advice in the backward of an operator that makes NaN of 0, and who made what is unknown.
#pragma once

#include <string>

#include "ask/first_bad/flow_graph.h"

namespace sonde {

// A sentence on NaN that `op`, which is of backward, makes. `of_zero`: it is 0 times infinity or 0 divided by 0. Empty: there
// is nothing to say.
std::string backward_hint(const FlowGraph& graph, const FlowOp& op, bool of_zero);

// ", as from div-op0 (train.py:7)": the ops that computed what the op reads, where nothing is known of it. Empty: none did.
std::string unseen_makers_text(const FlowGraph& graph, const FlowOp& op);

}  // namespace sonde
