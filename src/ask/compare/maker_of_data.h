// Data that a program prepares between the steps: normalised batches, labels, noise, masks.
#pragma once

#include "ask/compare/compare.h"

namespace sonde {

// The first batch is prepared before the recording begins, the second at the end of the first step. So where the data of a
// step differ, the operator that makes the same data for the next step, and differs from its counterpart or has none,
// comes first.
void name_makers_of_data(DumpComparison& comparison);

// Where the data of a step come from an earlier step of the dump, the operator that made them differ takes the place of
// the one that reads them.
void blame_makers_before(DumpComparison& comparison);

// It takes the memory of a batch that another process made: what is in it is data.
bool takes_memory(const ComparedOp& op);
// It moves elements as they are, or a worker of one side has made them and no op of it shows how: another op decides what
// the data of the next step is.
bool only_passes_data_on(const ComparedOp& op, const ComparedStep& step);

// The op of a step that ran as this number; kNoOp: none.
std::uint32_t op_with(const CompareSide& side, std::uint64_t sequence);

}  // namespace sonde
