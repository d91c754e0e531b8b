// Ops whose result depends on rows of an input: softmax, sums, losses.
#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <set>

#include "ask/first_bad/bad_cause.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

using Visit = std::function<void(const Position&, double)>;

// All elements of `input` whose places differ from `fixed` in these dimensions only.
void visit_row(const SlotValues& input, Position fixed, const std::set<std::size_t>& dims, const Visit& visit) {
  for (const std::size_t dim : dims) fixed[dim] = 0;
  for (;;) {
    visit(fixed, input.at(fixed));
    bool more = false;
    for (auto dim = dims.rbegin(); dim != dims.rend() && !more; ++dim) {
      if (++fixed[*dim] < input.shape()[*dim]) {
        more = true;
      } else {
        fixed[*dim] = 0;
      }
    }
    if (!more) return;
  }
}

std::set<std::size_t> dims_of(const OpValues& values, std::size_t rank) {
  std::vector<std::int64_t> given = values.integers("dim");
  if (given.empty()) given = values.integers("axis");
  std::set<std::size_t> dims;
  for (const std::int64_t dim : given) {
    const std::int64_t at = dim < 0 ? dim + static_cast<std::int64_t>(rank) : dim;
    if (at >= 0 && at < static_cast<std::int64_t>(rank)) dims.insert(static_cast<std::size_t>(at));
  }
  if (dims.empty()) {
    for (std::size_t i = 0; i < rank; ++i) dims.insert(i);
  }
  return dims;
}

// "[0,2,:]"
std::string row_text(const Position& place, const std::set<std::size_t>& dims) {
  std::string text = "[";
  for (std::size_t i = 0; i < place.size(); ++i) {
    if (i > 0) text += ",";
    text += dims.contains(i) ? ":" : std::to_string(place[i]);
  }
  return text + "]";
}

struct Row {
  std::uint64_t elements = 0, nans = 0, positive = 0, negative = 0;
  double sum = 0, squares = 0, largest = 0;
};

Row row_of(const SlotValues& input, const Position& place, const std::set<std::size_t>& dims) {
  Row row;
  visit_row(input, place, dims, [&](const Position&, double value) {
    ++row.elements;
    row.nans += std::isnan(value);
    row.positive += std::isinf(value) && value > 0;
    row.negative += std::isinf(value) && value < 0;
    row.sum += value;
    row.squares += value * value;
    if (std::isfinite(value)) row.largest = std::max(row.largest, std::fabs(value));
  });
  return row;
}

bool explain_softmax(const SlotValues& input, const Position& place, const std::set<std::size_t>& dims, Cause& cause) {
  const Row row = row_of(input, place, dims);
  const std::string where = fmt::format("{}{}", slot_name(true, input.tensor().slot), row_text(place, dims));
  if (row.elements > 0 && row.negative == row.elements) {
    cause.divides_by_zero = true;
    cause.why =
        fmt::format("all {} elements of the row {} are -inf: nothing is left to choose from, and 0 is divided by 0",
                    row.elements, where);
  } else if (row.positive > 0) {
    cause.why = fmt::format("the row {} holds {} +inf: infinity is subtracted from itself", where, row.positive);
  } else {
    return false;
  }
  cause.evidence.push_back(fmt::format("{}: {} elements, {} -inf, {} +inf, largest finite {}", where, row.elements,
                                       row.negative, row.positive, number_text(row.largest)));
  return cause.explained = true;
}

bool softmax_cause(OpValues& values, BadKind bad, Cause& cause) {
  const SlotValues* input = values.input_values(0);
  const SlotValues* output = values.output_values();
  if (input == nullptr || output == nullptr || input->shape() != output->shape() || input->shape().empty())
    return false;
  const auto places = output->find(bad == BadKind::nan ? SlotValues::Want::nan : SlotValues::Want::inf, 1);
  if (places.empty()) return false;
  return explain_softmax(*input, places[0], dims_of(values, input->shape().size()), cause);
}

// query, key, value, mask: the mask is added before the softmax over its last dimension.
bool attention_cause(OpValues& values, BadKind bad, Cause& cause) {
  const SlotValues* mask = values.input(3) != nullptr ? values.input_values(3) : nullptr;
  const SlotValues* output = values.output_values();
  if (mask == nullptr || output == nullptr || mask->shape().empty()) return false;
  const auto places = output->find(bad == BadKind::nan ? SlotValues::Want::nan : SlotValues::Want::inf, 1);
  if (places.empty()) return false;
  const Position place = mask->broadcast(places[0]);
  return explain_softmax(*mask, place, {place.size() - 1}, cause);
}

bool sum_cause(OpValues& values, BadKind bad, Cause& cause) {
  const SlotValues* input = values.input_values(0);
  const SlotValues* output = values.output_values();
  if (input == nullptr || output == nullptr || input->elements() == 0) return false;
  const auto places = output->find(bad == BadKind::nan ? SlotValues::Want::nan : SlotValues::Want::inf, 1);
  if (places.empty()) return false;
  const std::set<std::size_t> dims = dims_of(values, input->shape().size());
  Position place(input->shape().size(), 0);
  const bool kept = places[0].size() == place.size();
  for (std::size_t i = 0, from = 0; i < place.size(); ++i) {
    if (kept) {
      place[i] = dims.contains(i) ? 0 : places[0][i];
    } else if (!dims.contains(i) && from < places[0].size()) {
      place[i] = places[0][from++];
    }
  }
  const Row row = row_of(*input, place, dims);
  const OpWork work = values.work();
  const bool spread = work == OpWork::spread;
  if (spread && row.elements == 1 && bad == BadKind::nan) {
    cause.why = fmt::format("{} of one element divides by 0", values.op().op_type);
    return cause.explained = true;
  }
  if (row.positive > 0 && row.negative > 0) {
    cause.why = fmt::format("{} +inf and {} -inf are added", row.positive, row.negative);
    return cause.explained = true;
  }
  const double count = static_cast<double>(row.elements);
  const bool of_squares = work == OpWork::norm || work == OpWork::norm_of_power || spread;
  const double value = of_squares             ? (spread ? row.squares / count : std::sqrt(row.squares))
                       : work == OpWork::mean ? row.sum / count
                                              : row.sum;
  cause.evidence.push_back(fmt::format("{}{}: {} elements, largest {}, sum {}, sum of squares {}", slot_name(true, 0),
                                       row_text(place, dims), row.elements, number_text(row.largest),
                                       number_text(row.sum), number_text(row.squares)));
  cause.why = fmt::format("{} of {} elements, the largest {}, is {}", values.op().op_type, row.elements,
                          number_text(row.largest), number_text(value));
  if (std::isfinite(value) && overflows(values.output_type(), value)) {
    explain_overflow(values.output_type(), value, cause);
  } else if (of_squares && overflows(values.output_type(), row.squares)) {
    cause.why += fmt::format(", and the sum of squares on the way {}", number_text(row.squares));
    explain_overflow(values.output_type(), row.squares, cause);
  } else if (std::isfinite(value) && overflows(values.output_type(), row.sum)) {
    cause.why += fmt::format(", and the sum on the way {}", number_text(row.sum));
    explain_overflow(values.output_type(), row.sum, cause);
  } else if (std::isfinite(value)) {
    cause.impossible = true;
  }
  return true;
}

// The direction of a weight is it divided by its norm, along all dimensions but one.
bool weight_norm_cause(OpValues& values, BadKind bad, Cause& cause) {
  const SlotValues* input = values.input_values(0);
  const SlotValues* output = values.output_values();
  if (bad != BadKind::nan) return false;
  if (input == nullptr || output == nullptr) {
    const auto known = values.input(0) != nullptr ? values.statistics(*values.input(0)) : std::nullopt;
    if (!known || known->max != 0 || known->min != 0) return false;
    cause.why = "input.0 is 0, and so is its norm: 0 is divided by 0";
    cause.divides_by_zero = true;
    return cause.explained = true;
  }
  const auto places = output->find(SlotValues::Want::nan, 1);
  if (places.empty() || places[0].size() != input->shape().size()) return false;
  const std::size_t rank = input->shape().size();
  std::set<std::size_t> dims;
  const auto kept = static_cast<std::int64_t>(values.number("dim").value_or(0));
  for (std::size_t i = 0; i < rank; ++i) {
    if (static_cast<std::int64_t>(i) != (kept < 0 ? kept + static_cast<std::int64_t>(rank) : kept)) dims.insert(i);
  }
  const Row row = row_of(*input, places[0], dims);
  if (row.squares != 0) return false;
  cause.why = fmt::format("the norm of {}{} is 0: 0 is divided by 0", slot_name(true, 0), row_text(places[0], dims));
  cause.divides_by_zero = true;
  return cause.explained = true;
}

// Of finite matrices it has no finite value where one is singular, or its determinant negative.
bool determinant_cause(BadKind bad, Cause& cause) {
  cause.pole = bad == BadKind::inf;
  cause.why = cause.pole ? "the matrix is singular: log of a determinant that is 0"
                         : "the determinant is negative: log of a negative number";
  return cause.explained = true;
}

// Classes that a mask forbids, or that do not exist, are requested.
bool entropy_cause(OpValues& values, BadKind bad, Cause& cause) {
  const SlotValues* input = values.input_values(0);
  const SlotValues* target = values.input(1) != nullptr ? values.input_values(1) : nullptr;
  if (input == nullptr || target == nullptr || is_floating(target->tensor().dtype)) return false;
  const SlotValues* weight = values.input(2) != nullptr ? values.input_values(2) : nullptr;  // of the classes
  if (weight != nullptr && weight->shape().size() != 1) weight = nullptr;
  const double ignored = values.number("ignore_index").value_or(-100);
  Position place(target->shape().size(), 0);
  std::uint64_t used = 0, count = 0, weighted = 0;
  std::optional<Position> forbidden;
  std::set<std::size_t> all;
  for (std::size_t i = 0; i < place.size(); ++i) all.insert(i);
  visit_row(*target, place, all, [&](const Position& at, double value) {
    ++count;
    if (value == ignored) return;
    ++used;
    const bool is_class = weight != nullptr && value >= 0 && value < static_cast<double>(weight->elements());
    if (!is_class || weight->at({static_cast<std::int64_t>(value)}) != 0) ++weighted;
    if (forbidden || input->shape().size() != at.size() + 1 || !(value >= 0 && value < 0x1p63)) return;
    Position logit = at;
    logit.insert(at.empty() ? logit.begin() : logit.begin() + 1, static_cast<std::int64_t>(value));
    if (std::isinf(input->at(logit))) forbidden = logit;
  });
  if (used == 0 && bad == BadKind::nan) {
    cause.divides_by_zero = true;
    cause.why = fmt::format("all {} targets are {}, the ignored value: the mean of no elements is 0 divided by 0",
                            count, number_text(ignored));
  } else if (weighted == 0 && bad == BadKind::nan) {
    cause.divides_by_zero = true;
    cause.why = fmt::format("the classes of all {} targets have weight 0: the mean over them is 0 divided by 0", used);
  } else if (forbidden) {
    cause.why = fmt::format("the target asks for input.0{} = {}: a class that is masked out", position_text(*forbidden),
                            number_text(input->at(*forbidden)));
  } else {
    return false;
  }
  return cause.explained = true;
}

}  // namespace

bool row_cause(OpValues& values, BadKind bad, Cause& cause) {
  const std::string& type = values.type();
  const OpWork work = values.work();
  if (is_gradient(type)) return false;
  if (is_softmax(type) || work == OpWork::log_of_sum) return softmax_cause(values, bad, cause);
  if (work == OpWork::attention) return attention_cause(values, bad, cause);
  if (is_cross_entropy(type)) return entropy_cause(values, bad, cause);
  if (is_log_of_determinant(type) && !values.reads_bad()) return determinant_cause(bad, cause);
  if (is_weight_norm(type)) return weight_norm_cause(values, bad, cause);
  using enum OpWork;
  const bool adds_up = work == sum || work == mean || work == spread || work == norm || work == norm_of_power;
  return adds_up && sum_cause(values, bad, cause);
}

}  // namespace sonde
