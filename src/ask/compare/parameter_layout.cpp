#include "ask/compare/parameter_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "ask/compare/tolerance.h"
#include "ground/base/shape.h"
#include "ground/model/gradient_name.h"
#include "read/measure/slot_values.h"
#include "read/operators/op_nature.h"
#include "sonde/dtype.h"

namespace sonde {
namespace {

constexpr std::uint64_t kMostElements = 1 << 25;  // of a group: it is sorted
constexpr double kOtherOrder = 1e-3;              // relative error of gradients
constexpr double kSummation = 1e-9;               // by which sums of squares of the same elements may differ

std::uint64_t elements_of(const CatalogTensor& tensor) {
  return tensor.has_shape ? static_cast<std::uint64_t>(element_count(tensor.shape)) : 0;
}

std::string_view name_of_kind(std::string_view name) { return name.substr(name.rfind('.') + 1); }

struct Sums {
  double squares = 0, max = -INFINITY, min = INFINITY;
  std::uint64_t count = 0;
};

// Empty if a tensor has no statistics, or has NaN or infinity.
std::optional<Sums> sums_of(const std::vector<const CatalogTensor*>& tensors) {
  Sums sums;
  for (const CatalogTensor* tensor : tensors) {
    const auto& known = tensor->statistics;
    if (!known || !known->l2norm || !known->max || !known->min || !std::isfinite(*known->l2norm)) return std::nullopt;
    sums.squares += *known->l2norm * *known->l2norm;
    sums.max = std::max(sums.max, *known->max);
    sums.min = std::min(sums.min, *known->min);
    sums.count += elements_of(*tensor);
  }
  return sums;
}

bool is_same(const Sums& a, const Sums& b) {
  return a.count == b.count && a.max == b.max && a.min == b.min &&
         std::abs(a.squares - b.squares) <= kSummation * b.squares;
}

// The same elements have the same sum of squares, up to its rounding. This is cheaper than to sort them.
bool may_be_permuted(const TensorDifference& apart) {
  if (apart.by != ComparedBy::values) return true;
  const PairSums& sums = apart.sums;
  return std::abs(sums.squares - sums.golden_squares) <= kSummation * sums.golden_squares;
}

// The elements of all, one tensor after the other; empty if one cannot be read.
std::vector<double> values_of(const CatalogRank& rank, const std::vector<const CatalogTensor*>& tensors) {
  std::vector<double> all;
  for (const CatalogTensor* tensor : tensors) {
    const std::optional<SlotValues> slot = SlotValues::open(rank, *tensor);
    if (!slot) return {};
    const std::vector<double> values = slot->values();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

std::vector<std::uint32_t> order_of(const std::vector<double>& values, const std::vector<double>& gradients) {
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  const bool both = gradients.size() == values.size();
  std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
    if (values[a] != values[b]) return values[a] < values[b];
    if (both && gradients[a] != gradients[b]) return gradients[a] < gradients[b];
    return a < b;
  });
  return order;
}

// Gradients as the optimizer reads them: equal elements (biases that begin as zeros) differ in them.
ParameterLayout::Named gradients_read_by(const CompareSide& side) {
  ParameterLayout::Named gradients;
  for (const CompareOp& op : side.ops) {
    if (phase_of(*op.op) != Phase::optimizer) continue;
    for (const CompareInput& input : op.inputs) {
      if (input.is_read && is_gradient_name(input.name) && input.tensor->recorded()) {
        gradients[input.name] = input.tensor;
      }
    }
  }
  return gradients;
}

}  // namespace

ParameterLayout::Named parameters_read_by(const CompareSide& side) {
  ParameterLayout::Named parameters;
  for (const CompareOp& op : side.ops) {
    if (phase_of(*op.op) == Phase::optimizer) continue;
    for (const CompareInput& input : op.inputs) {
      const bool is_parameter = input.from == kNoOp && input.is_read && input.tensor->parameter.is_parameter();
      if (is_parameter && is_floating(input.tensor->dtype) && input.tensor->recorded()) {
        parameters.try_emplace(input.name, input.tensor);
      }
    }
  }
  return parameters;
}

// Parameters of one side, with their gradients where they are known.
struct ParameterLayout::Pool {
  const CatalogRank* rank = nullptr;
  std::vector<std::string_view> names;
  std::vector<const CatalogTensor*> tensors;
  std::vector<const CatalogTensor*> gradients;  // all, or none
  std::uint64_t count = 0;

  explicit Pool(const CatalogRank* of) : rank(of) {}
  void add(std::string_view name, const CatalogTensor* tensor, const Named& all_gradients) {
    names.push_back(name);
    tensors.push_back(tensor);
    count += elements_of(*tensor);
    const auto gradient = all_gradients.find(gradient_name(name));
    if (gradient != all_gradients.end()) gradients.push_back(gradient->second);
  }
  std::vector<double> known_gradients() const {
    return gradients.size() == tensors.size() ? values_of(*rank, gradients) : std::vector<double>();
  }
  std::vector<std::string> own_names() const { return {names.begin(), names.end()}; }
};

void ParameterLayout::keep(Group group) {
  names_.insert(group.target.begin(), group.target.end());
  names_.insert(group.golden.begin(), group.golden.end());
  groups_.push_back(std::move(group));
}

// True if both pools hold the same values.
bool ParameterLayout::relate(const Pool& target, const Pool& golden) {
  if (target.count != golden.count || target.count == 0 || target.count > kMostElements) return false;
  const std::vector<double> mine = values_of(*target.rank, target.tensors);
  const std::vector<double> theirs = values_of(*golden.rank, golden.tensors);
  if (mine.size() != target.count || theirs.size() != mine.size()) return false;
  const std::vector<std::uint32_t> left = order_of(mine, target.known_gradients());
  const std::vector<std::uint32_t> right = order_of(theirs, golden.known_gradients());
  Group group{target.own_names(), golden.own_names(), std::vector<std::uint32_t>(mine.size())};
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (mine[left[i]] != theirs[right[i]]) return false;  // also NaN
    group.order[left[i]] = right[i];
  }
  keep(std::move(group));
  return true;
}

// A tensor of one side is a run of tensors of the other that have one name in their modules: the weights of experts.
void ParameterLayout::relate_by_statistics(const Pool& target, const Pool& golden) {
  const bool swap = target.names.size() > golden.names.size();
  const Pool& fewer = swap ? golden : target;
  const Pool& more = swap ? target : golden;
  std::vector<bool> taken(more.names.size(), false);
  const auto run_from = [&](std::size_t first, std::uint64_t count) {
    std::vector<std::size_t> run;
    for (std::size_t i = first; i < more.names.size() && count > 0; ++i) {
      if (taken[i] || name_of_kind(more.names[i]) != name_of_kind(more.names[first])) continue;
      if (elements_of(*more.tensors[i]) > count) return std::vector<std::size_t>();
      count -= elements_of(*more.tensors[i]);
      run.push_back(i);
    }
    return count == 0 ? run : std::vector<std::size_t>();
  };
  for (std::size_t one = 0; one < fewer.names.size(); ++one) {
    const std::optional<Sums> sums = sums_of({fewer.tensors[one]});
    for (std::size_t first = 0; sums && first < more.names.size(); ++first) {
      if (taken[first]) continue;
      const std::vector<std::size_t> run = run_from(first, sums->count);
      std::vector<const CatalogTensor*> tensors;
      Group group;
      for (const std::size_t i : run) {
        tensors.push_back(more.tensors[i]);
        (swap ? group.target : group.golden).emplace_back(more.names[i]);
      }
      const std::optional<Sums> together = run.empty() ? std::nullopt : sums_of(tensors);
      if (!together || !is_same(*together, *sums)) continue;
      for (const std::size_t i : run) taken[i] = true;
      (swap ? group.golden : group.target).emplace_back(fewer.names[one]);
      keep(std::move(group));
      break;
    }
  }
}

ParameterLayout::ParameterLayout(const CompareSide& target, const CompareSide& golden, Differences& differences) {
  const Named mine = parameters_read_by(target), theirs = parameters_read_by(golden);
  const Named my_gradients = gradients_read_by(target), their_gradients = gradients_read_by(golden);
  Pool left(target.rank), right(golden.rank);
  bool by_values = true;
  // Equal elements (biases that begin as zeros) do not show their order; their gradients do.
  const auto has_gradients_in_another_order = [&](std::string_view name) {
    const auto left_one = my_gradients.find(gradient_name(name));
    const auto right_one = their_gradients.find(gradient_name(name));
    if (left_one == my_gradients.end() || right_one == their_gradients.end()) return false;
    const TensorDifference& apart = differences.of({target.rank, left_one->second}, {golden.rank, right_one->second});
    return apart.by == ComparedBy::values && apart.relative() > kOtherOrder;
  };
  for (const auto& [name, tensor] : mine) {
    const auto other = theirs.find(name);
    if (other != theirs.end()) {
      const TensorDifference& apart = differences.of({target.rank, tensor}, {golden.rank, other->second});
      const bool is_turned = !apart.axes.empty() || apart.shape != apart.golden_shape;
      if (apart.equal && !is_turned && !has_gradients_in_another_order(name)) continue;
      if (apart.by == ComparedBy::statistics && apart.comparable()) continue;  // statistics do not show the order
      Pool one(target.rank), counterpart(golden.rank);
      one.add(name, tensor, my_gradients);
      counterpart.add(name, other->second, their_gradients);
      if (may_be_permuted(apart) && relate(one, counterpart)) continue;
    }
    left.add(name, tensor, my_gradients);
    by_values = by_values && !tensor->file.empty();
  }
  for (const auto& [name, tensor] : theirs) {
    if (holds(name)) continue;
    const auto other = mine.find(name);
    if (other != mine.end() && std::ranges::find(left.names, name) == left.names.end()) continue;  // the same
    right.add(name, tensor, their_gradients);
    by_values = by_values && !tensor->file.empty();
  }
  if (left.names.empty() || right.names.empty()) return;
  if (by_values) {
    relate(left, right);
  } else {
    relate_by_statistics(left, right);
  }
}

bool ParameterLayout::holds_or_its_parameter(std::string_view name) const { return holds(without_gradient(name)); }

std::string ParameterLayout::names_text() const {
  if (groups_.empty()) return "";
  std::size_t all = 0;
  for (const Group& group : groups_) all += group.target.size();
  return groups_.front().target.front() + (all > 1 ? fmt::format(" and {} more", all - 1) : "");
}

// Of each tensor of the side that has more of them.
void ParameterLayout::add_distances(const Group& group, const Tensors& left, const Tensors& right,
                                    const std::vector<double>& mine, const std::vector<double>& theirs, DType dtype,
                                    std::vector<Distance>& found) {
  const bool by_target = left.size() > right.size();
  std::vector<double> errors(theirs.size()), sizes(theirs.size());
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const std::size_t at = by_target ? i : group.order[i];
    sizes[at] = theirs[group.order[i]];
    errors[at] = mine[i] - sizes[at];
  }
  std::size_t at = 0;
  for (const CatalogTensor* tensor : by_target ? left : right) {
    const std::size_t end = at + elements_of(*tensor);
    double squares = 0, golden_squares = 0;
    for (; at < end; ++at) {
      squares += errors[at] * errors[at];
      golden_squares += sizes[at] * sizes[at];
    }
    const auto count = static_cast<double>(std::max<std::uint64_t>(elements_of(*tensor), 1));
    found.push_back({std::sqrt(squares / count), std::sqrt(golden_squares / count), dtype});
  }
}

bool ParameterLayout::distances(const CatalogRank& target_rank, const Of& target, const CatalogRank& golden_rank,
                                const Of& golden, std::vector<Distance>& found) const {
  const auto all_of = [](const std::vector<std::string>& names, const Of& of) {
    std::vector<const CatalogTensor*> tensors;
    for (const std::string& name : names) {
      if (const CatalogTensor* tensor = of(name); tensor != nullptr) tensors.push_back(tensor);
    }
    return tensors;
  };
  const auto coarser = [](const CatalogTensor& a, const CatalogTensor& b) {
    return epsilon_of(a.dtype) > epsilon_of(b.dtype) ? a.dtype : b.dtype;
  };
  for (const Group& group : groups_) {
    const std::vector<const CatalogTensor*> left = all_of(group.target, target), right = all_of(group.golden, golden);
    if (left.empty() && right.empty()) continue;
    if (left.size() != group.target.size() || right.size() != group.golden.size()) return false;
    const DType dtype = coarser(*left.front(), *right.front());
    if (group.order.empty()) {
      const std::optional<Sums> a = sums_of(left), b = sums_of(right);
      if (!a || !b || a->count != b->count) return false;
      const double count = std::sqrt(static_cast<double>(std::max<std::uint64_t>(b->count, 1)));
      const double norms = std::abs(std::sqrt(a->squares) - std::sqrt(b->squares)) / count;
      const double ends = std::max(std::abs(a->max - b->max), std::abs(a->min - b->min)) / count;
      found.push_back({std::max(norms, ends), std::sqrt(b->squares) / count, dtype});
      continue;
    }
    const std::vector<double> mine = values_of(target_rank, left), theirs = values_of(golden_rank, right);
    if (mine.size() != group.order.size() || theirs.size() != mine.size()) return false;
    add_distances(group, left, right, mine, theirs, dtype, found);
    if (!std::isfinite(found.back().rms_error)) return false;
  }
  return true;
}

}  // namespace sonde
