// Features of an op, as numbers: they are compared when its counterpart is looked for.
#pragma once

#include <cstdint>
#include <vector>

#include "ask/compare/compare_side.h"
#include "sonde/step.h"

namespace sonde {

struct OpFeatures {
  std::uint64_t name = 0, scope = 0, leaf = 0, line = 0, shape = 0, shape_set = 0, parameters = 0, parameter = 0,
                before = 0, after = 0, data = 0;
  Phase phase = Phase::forward;
  bool of_lists = false;  // _foreach_…: no single tensor flows through it
};

// By op of the side. What it reads from outside has its names and numbers (common_names.h).
std::vector<OpFeatures> features_of(const CompareSide& side);

// By op of the side: the text of its line, as a number, from the copies of the sources in the dump; 0: unknown.
std::vector<std::uint64_t> codes_of_lines(const CompareSide& side);

// Null: it has none.
inline const CatalogTensor* main_output(const CompareOp& op) {
  return op.outputs.empty() ? nullptr : op.outputs.front();
}

}  // namespace sonde
