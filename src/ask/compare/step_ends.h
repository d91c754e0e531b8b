// The ends of a step: gradients as its optimizer reads them, updated parameters, losses, what other ranks get; without an
// optimizer, results that no op reads. Two programs that leave the same compute the same, however their ops differ in between.
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "ask/compare/compare_facts.h"

namespace sonde {

// Agreement up to the rounding of many ops, in multiples of the spacing of the type. What rounding became in parameters
// since the first step counts as spacing, up to kMostApart.
inline constexpr double kEndRounding = 64;
inline constexpr double kMostApart = 1e-4;

class StepEnds {
 public:
  explicit StepEnds(const CompareFacts& facts);

  // False if a part is unknown, or only one of the two leaves it.
  bool results_and_gradients_agree();
  // The gradient that differs most from the golden one, although no parameter differed before and the losses agree: by more
  // than rounding, also of sums that cancel. Null: there is none, or it is not known.
  const CatalogTensor* other_gradient(double least_relative);
  // The first loss that differs, although no parameter differed before: by more than rounding, in types of float32 or finer.
  // Null: there is none, or it is not known.
  const CatalogTensor* other_loss(double least_relative);
  // Also the size of each update. False if it is lost in the rounding of the parameter.
  bool updates_agree();

 private:
  bool agrees(const CatalogTensor& target, const CatalogTensor& golden, double smallest);
  bool gradients_agree();
  bool later_writes_agree();
  double largest_size(const std::map<std::string_view, const CatalogTensor*>& tensors);
  bool gradients_agree_in_their_layouts(double largest);
  bool updates_agree_in_their_layouts();
  std::map<std::string_view, const CatalogTensor*> updated_parameters() const;
  bool is_in_a_layout(std::string_view name) const;
  bool losses_agree();
  bool results_agree(bool of_forward);
  bool last_results_agree();
  bool printed_numbers_agree();
  bool given_to_others_agrees();
  bool choices_agree();
  bool all_agree(const std::vector<const CatalogTensor*>& target, const std::vector<const CatalogTensor*>& golden,
                 bool all);

  const CompareSide& target_;
  const CompareSide& golden_;
  Differences& differences_;
  const ParameterLayout* layout_;  // of parameters that the two keep in different layouts; null: there are none
  // As the optimizers read them, by name.
  const std::map<std::string_view, const CatalogTensor*> gradients_, golden_gradients_;
  const double of_products_;  // the spacing of their type: a finer loss computed from them has no more digits
  const double apart_;        // how far parameters are from the golden ones when the step begins, relatively
};

}  // namespace sonde
