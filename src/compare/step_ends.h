// The ends of a step: gradients as its optimizer reads them, updated parameters, losses; without an optimizer, results
// that no op reads. Two programs that leave the same compute the same, however their ops differ in between.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compare/compare_side.h"
#include "measure/tensor_difference.h"

namespace sonde {

// Agreement up to the rounding of many ops, in multiples of the spacing of the type.
inline constexpr double kEndRounding = 64;

class StepEnds {
 public:
  StepEnds(const CompareSide& target, const CompareSide& golden, Differences& differences);

  // False if a part is unknown, or only one of the two leaves it.
  bool results_and_gradients_agree();
  // Also the size of each update. False if it is lost in the rounding of the parameter.
  bool updates_agree();

 private:
  bool agrees(const CatalogTensor& target, const CatalogTensor& golden, double smallest);
  bool gradients_agree();
  bool losses_agree();
  bool results_agree(bool of_forward);
  bool last_results_agree();
  bool all_agree(const std::vector<const CatalogTensor*>& target, const std::vector<const CatalogTensor*>& golden,
                 bool all);

  const CompareSide& target_;
  const CompareSide& golden_;
  Differences& differences_;
};

}  // namespace sonde
