// CompareFacts: what is known of a step while its ops are compared. StepComparer (compare_step.cpp) updates it; the
// classes and functions that look for findings read it, and write to StepFindings alone.
#pragma once

#include "ask/compare/compare.h"
#include "ask/compare/op_pairs.h"
#include "ask/compare/parameter_names.h"

namespace sonde {

inline constexpr std::size_t kMostPairCandidates = 64;

// The largest relative errors of outputs, of earlier steps and of this one so far.
struct SeenErrors {
  double before = 0, now = 0;
};

struct CompareFacts {
  TensorOf of_target(const CatalogTensor* tensor) const { return {target.rank, tensor}; }
  TensorOf of_golden(const CatalogTensor* tensor) const { return {golden.rank, tensor}; }
  const TensorDifference& difference(const CatalogTensor* of, const CatalogTensor* from_golden) const {
    return differences.of(of_target(of), of_golden(from_golden));
  }

  // Root mean square; of a number its size.
  double rms_of(bool in_golden, const CatalogTensor* tensor) const {
    const TensorOf one = in_golden ? of_golden(tensor) : of_target(tensor);
    return differences.of(one, one).rms;
  }

  const CompareSide& side(bool in_golden) const { return in_golden ? golden : target; }

  const CompareSide& target;
  const CompareSide& golden;
  Differences& differences;
  const OpPairs& pairs;
  const ParameterNames& names;
  const SeenErrors& seen;
  const RankHistory& history;
  const CompareOptions& options;
  bool other_precision = false;  // the two ran in other types: another output type is not a finding
};

}  // namespace sonde
