// Compares a sharded run with a run on one process, or with another sharding of the same network.
#pragma once

#include "ask/compare/compare.h"

namespace sonde {

// Two runs of one network whose ranks share the work in different ways: another number of ranks, or other parts of the
// parameters. Not if both are pipelines.
bool are_two_shardings(const Catalog& target, const Catalog& golden);

// As compare_dumps(). A target of several ranks that share the work, and a golden run on one process, or the other way
// round, and two shardings are compared by tensors that are joined of what the ranks have.
Result<DumpComparison> compare_runs(const Catalog& target, const Catalog& golden, const CompareOptions& options);

}  // namespace sonde
