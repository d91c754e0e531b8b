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
  std::uint64_t code = 0;  // the text of its line, by note_code(); 0: unknown
  bool of_lists = false;   // _foreach_…: no single tensor flows through it
};

// By op of the side. What it reads from outside has its names and numbers (common_names.h).
std::vector<OpFeatures> features_of(const CompareSide& side);

// Fills in `code`, from the copies of the sources in the dump.
void note_code(const CompareSide& side, std::vector<OpFeatures>& features);

// Null: it has none.
inline const CatalogTensor* main_output(const CompareOp& op) {
  return op.outputs.empty() ? nullptr : op.outputs.front();
}

}  // namespace sonde
