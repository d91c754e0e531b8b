// Two runs of one network that cut their batches in another way: which operator of the forward pass of a part departs from
// the golden pass over the whole.
#pragma once

#include "ask/compare/compare.h"

namespace sonde {

// Where gradients differ and the batches are cut in another way, names an operator of the forward pass in place of the
// one that reads the gradients, if values show one.
void name_in_parts_of_batch(const Catalog& target, const Catalog& golden, const CompareOptions& options,
                            DumpComparison& comparison);

}  // namespace sonde
