// The operator of an earlier step that wrote what a step reads from before it: a state of the optimizer, a buffer, a
// cache, a batch.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "read/catalog/catalog.h"

namespace sonde {

struct EarlierWriter {
  std::size_t step = 0;           // index into the rank's steps
  const CatalogOp* op = nullptr;  // never null; of the step that was given for the index
};

// A step of the rank with its ops, by its index; null: it cannot be read.
using StepWithOps = std::function<const CatalogStep*(std::size_t)>;

// Of a tensor with a name (a parameter, a buffer, a state) the last operator that wrote it in place; of another one the
// operator that the journal names, also in a run without gradients in the middle of the step. `step`: the index of the step that reads `input`. Empty: no recorded one did.
std::optional<EarlierWriter> writer_before(const CatalogRank& rank, std::size_t step, const CatalogTensor& input,
                                           const StepWithOps& step_at);

// Whether it can have been written in an earlier step: no constant, no result of an operator of this step.
bool comes_from_before(const CatalogTensor& input);

// The way back through earlier steps from `input`: who wrote it, then as long as a tensor that is not finite was read, who
// made that. In the order of the run; empty: no recorded operator wrote it.
std::vector<EarlierWriter> way_before(const CatalogRank& rank, std::size_t step, const CatalogTensor& input,
                                      const StepWithOps& step_at);

// Why nobody is known, and what to record: "no recorded operator wrote X before step 3; step 2 is not in the dump:
// record again with --iteration 2-3".
std::string no_writer_text(const CatalogRank& rank, std::size_t step, const CatalogTensor& input);

}  // namespace sonde
