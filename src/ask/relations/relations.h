// Compares two implementations of one network: finds by values how their tensors correspond, and judges those.
//
//   Result<DumpComparison> found = compare_programs(target, golden, options);
#pragma once

#include "ask/compare/compare.h"

namespace sonde {

// compare_runs() for two runs of one program. If few operators have the same name in both, the two are two
// implementations: then DumpComparison::correspondence says how their tensors correspond.
Result<DumpComparison> compare_programs(const Catalog& target, const Catalog& golden, const CompareOptions& options);

}  // namespace sonde
