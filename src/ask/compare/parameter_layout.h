// ParameterLayout: parameters of one run that hold the values of the other's in another layout: transposed, with rows
// or columns in another order, stacked, cut. Their gradients and updates correspond element by element, too.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ask/compare/compare_side.h"
#include "read/measure/tensor_difference.h"

namespace sonde {

class ParameterLayout {
 public:
  using Named = std::map<std::string_view, const CatalogTensor*>;
  // An error of the tensors of a group: of each tensor of the side that has more; by statistics of the whole group.
  struct Distance {
    double rms_error = 0, rms = 0;
    DType dtype = DType::undefined;  // the coarser type
  };

  // Of the parameters that both read before an optimizer updates them. Both must have exactly the same values, so this is
  // for the first step.
  ParameterLayout(const CompareSide& target, const CompareSide& golden, Differences& differences);

  bool empty() const { return groups_.empty(); }
  bool holds(std::string_view name) const { return names_.contains(name); }
  bool holds_or_its_parameter(std::string_view name) const;  // also of `fc.weight.grad`
  // "0.weight and 2 more"
  std::string names_text() const;

  // For each group the distances of what belongs to its parameters: `of` gives it by name, null if there is none. False
  // if the two sides do not have the same, or it cannot be read. A group of which neither has anything is left out.
  using Of = std::function<const CatalogTensor*(const std::string& name)>;
  bool distances(const CatalogRank& target_rank, const Of& target, const CatalogRank& golden_rank, const Of& golden,
                 std::vector<Distance>& found) const;

 private:
  struct Group {
    std::vector<std::string> target, golden;  // names, in the order in which they were read
    std::vector<std::uint32_t> order;         // of the golden elements, for each of the target's; empty: statistics
  };
  struct Pool;
  using Tensors = std::vector<const CatalogTensor*>;

  static void add_distances(const Group& group, const Tensors& left, const Tensors& right,
                            const std::vector<double>& mine, const std::vector<double>& theirs, DType dtype,
                            std::vector<Distance>& found);
  bool relate(const Pool& target, const Pool& golden);
  void relate_by_statistics(const Pool& target, const Pool& golden);
  void keep(Group group);

  std::vector<Group> groups_;
  std::set<std::string, std::less<>> names_;
};

// Parameters by name, as a step reads them first, before its optimizer.
ParameterLayout::Named parameters_read_by(const CompareSide& side);

}  // namespace sonde
