// Compares a sharded run with a run on one process.
#pragma once

#include "ask/compare/compare.h"

namespace sonde {

// As compare_dumps(). A target of several ranks that share the work, and a golden run on one process, or the other way
// round, are compared by tensors that are joined of what the ranks have.
Result<DumpComparison> compare_runs(const Catalog& target, const Catalog& golden, const CompareOptions& options);

}  // namespace sonde
