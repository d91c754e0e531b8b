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
bool takes_memory(const CatalogOp& op);
bool takes_memory(const ComparedOp& op);
// Ops of the step that make the data that this op leaves are known: there are some, and no worker made it in its own
// process. `last`: kNoOp if another step or nobody made it.
bool shows_how_it_is_made(const CompareSide& side, std::uint32_t last);
// It moves elements as they are: another op decides what the data of the next step is. `other_is_shown`: how the other
// run makes its data; else an op that arranges elements there may only be out of sight.
bool only_passes_data_on(const ComparedOp& op, bool other_is_shown);

// The op of a step that ran as this number; kNoOp: none.
std::uint32_t op_with(const CompareSide& side, std::uint64_t sequence);

}  // namespace sonde
