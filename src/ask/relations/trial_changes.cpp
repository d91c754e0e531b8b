#include "ask/relations/trial_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "read/operators/op_family.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

// Its last two axes are equally long.
bool is_square(const Dense& x) { return x.shape.size() >= 2 && x.size(1) == x.size(2); }

// With two axes exchanged.
Dense exchanged(const Dense& x, std::size_t a, std::size_t b) {
  std::vector<std::size_t> order(x.shape.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::swap(order[a], order[b]);
  return with_axes(x, order);
}

Dense flipped(const Dense& x, std::size_t axis) {
  const std::size_t stride = strides_of(x.shape)[axis], size = static_cast<std::size_t>(x.shape[axis]);
  Dense result = x;
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    const std::size_t at = i / stride % size;
    result.values[i + (size - 1 - at) * stride - at * stride] = x.values[i];
  }
  return result;
}

}  // namespace

TrialChange* TrialChanges::put(int rank, std::optional<Dense> result, const Dense& like, std::string what) {
  if (!result || result->values.size() != like.values.size()) return nullptr;
  result->shape = like.shape;
  return &found_.emplace_back(TrialChange{.rank = rank, .result = std::move(*result), .what = std::move(what)});
}

std::vector<TrialChange> TrialChanges::of(std::uint32_t op) {
  const DenseInputs inputs = known_.inputs_of(op);
  const Dense* result = known_.recorded(target_.ops[op].outputs[0]);
  found_.clear();
  if (inputs.empty() || result == nullptr) return {};
  leave_out(op, inputs, *result);
  order_otherwise(op, inputs, *result);
  count_otherwise(op, *result);
  const KnownFunction& function = known_.function_of(op, 0);
  if (function.apply) {
    reduce_otherwise(function, *inputs[0], *result);
    bend_otherwise(op, *inputs[0], *result);
    read_otherwise(op, function, inputs, *result);
    read_other_weights(op, function, inputs, *result);
  }
  return std::move(found_);
}

void TrialChanges::leave_out(std::uint32_t op, const DenseInputs& inputs, const Dense& result) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::uint32_t input = target_.ops[op].inputs[i];
    if (!target_.tensors[input].has_fractions() || inputs[i]->shape != result.shape) continue;
    put(0, *inputs[i], result, "it is left out");
  }
}

void TrialChanges::reduce_otherwise(const KnownFunction& function, const Dense& x, const Dense& result) {
  if (function.is_softmax) {
    for (std::size_t axis = 0; axis < x.shape.size(); ++axis) {
      if (axis == function.axes[0] || x.shape[axis] < 2) continue;
      put(1, softmax_over(x, axis, function.is_logarithm), result, fmt::format("it goes over axis {}", axis));
    }
  }
  if (!function.reduces) return;
  constexpr std::pair<Reduced, const char*> kOthers[] = {
      {Reduced::sum, "it adds up"}, {Reduced::mean, "it takes the mean"}, {Reduced::largest, "it takes the largest"}};
  for (const auto& [how, what] : kOthers) {
    if (how != *function.reduces) put(1, reduced_over(x, function.axes, how), result, what);
  }
  for (std::size_t axis = 0; axis < x.shape.size() && function.axes.size() == 1; ++axis) {
    if (axis != function.axes[0])
      put(1, reduced_over(x, {axis}, *function.reduces), result, fmt::format("it goes over axis {}", axis));
  }
}

void TrialChanges::bend_otherwise(std::uint32_t op, const Dense& x, const Dense& result) {
  const OpKind kind = target_.op(op).kind;
  const bool bends = kind == OpKind::transcendental || kind == OpKind::exact || kind == OpKind::elementwise;
  if (target_.ops[op].inputs.size() != 1 || !bends) return;
  for (const auto& [name, function] : bending_functions()) {
    put(2, Dense{x.shape, mapped(x.values, function)}, result, fmt::format("it computes {}", name));
  }
}

// The inputs exchanged, or one of them transposed or turned round.
void TrialChanges::read_otherwise(std::uint32_t op, const KnownFunction& function, const DenseInputs& inputs,
                                  const Dense& result) {
  if (inputs.size() == 2) put(3, function.apply({inputs[1], inputs[0]}), result, "it reads its inputs exchanged");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_square(*inputs[i])) continue;
    const Dense other = turned(*inputs[i]);
    DenseInputs read = inputs;
    read[i] = &other;
    TrialChange* change = put(4, function.apply(read), result, fmt::format("it reads input.{} transposed", i));
    if (change != nullptr) change->turned = target_.ops[op].inputs[i];
  }
  if (is_square(result)) put(4, turned(result), result, "it gives its result transposed");
}

// An operator that moves elements may put them anywhere: two axes that are equally long exchanged, an axis turned round,
// or the axes of its input in another order.
void TrialChanges::order_otherwise(std::uint32_t op, const DenseInputs& inputs, const Dense& result) {
  constexpr std::size_t kMostAxes = 6;
  if (!moves_or_casts(target_.op(op).kind) || result.shape.size() > kMostAxes) return;
  std::size_t read = 0;
  for (const Dense* input : inputs) read += input->values.size();
  if (read != result.values.size()) return;  // it chooses or repeats
  if (!target_.tensors[target_.ops[op].outputs[0]].has_fractions()) return;
  for (std::size_t a = 0; a < result.shape.size(); ++a) {
    if (result.shape[a] < 2) continue;
    for (std::size_t b = a + 1; b < result.shape.size(); ++b) {
      const bool is_last = b + 1 == result.shape.size() && a + 2 == result.shape.size();
      if (result.shape[a] != result.shape[b] || is_last) continue;
      put(5, exchanged(result, a, b), result, fmt::format("it gives axes {} and {} exchanged", a, b));
    }
    put(6, flipped(result, a), result, fmt::format("it gives axis {} turned round", a));
  }
  if (inputs.size() != 1 || inputs[0]->values.size() != result.values.size() || inputs[0]->shape == result.shape)
    return;
  const std::vector<std::int64_t>& shape = inputs[0]->shape;
  for (std::size_t a = 0; a < shape.size() && shape.size() <= kMostAxes; ++a) {
    for (std::size_t b = a + 1; b < shape.size(); ++b) {
      if (shape[a] > 1 && shape[b] > 1)
        put(7, exchanged(*inputs[0], a, b), result, fmt::format("it reads axes {} and {} exchanged", a, b));
    }
  }
}

// Positions and numbers of rows that begin elsewhere.
void TrialChanges::count_otherwise(std::uint32_t op, const Dense& result) {
  const PoolTensor& own = target_.tensors[target_.ops[op].outputs[0]];
  if (own.has_fractions() || own.print.count < 2 || moves_or_casts(target_.op(op).kind)) return;
  for (const int more : {-2, -1, 1, 2}) {
    Dense other = result;
    for (double& value : other.values) value += more;
    put(8, std::move(other), result, fmt::format("it gives {} {}", std::abs(more), more > 0 ? "more" : "less"));
  }
}

// The places of inputs that are weights.
std::vector<std::size_t> TrialChanges::weights_of(std::uint32_t op) const {
  std::vector<std::size_t> places;
  const std::vector<std::uint32_t>& inputs = target_.ops[op].inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool is_known = target_.tensors[inputs[i]].op == kNoOp && judgement_.is_weight[inputs[i]] != 0;
    if (is_known && judgement_.relations[inputs[i]]) places.push_back(i);
  }
  return places;
}

// All weights of another golden operator of this kind, which have the same shapes.
void TrialChanges::read_other_weights(std::uint32_t op, const KnownFunction& function, const DenseInputs& inputs,
                                      const Dense& result) {
  const std::vector<std::size_t> places = weights_of(op);
  constexpr std::size_t kMost = 48;
  std::size_t tried = 0;
  for (std::uint32_t other = 0; other < golden_.ops.size() && !places.empty() && tried < kMost; ++other) {
    if (!golden_.is_of_forward(other) || !OpFamilies::same(*target_.op(op).family, *golden_.op(other).family)) continue;
    std::vector<std::uint32_t> theirs = golden_.ops[other].inputs;
    std::erase_if(theirs, [&](std::uint32_t input) { return !golden_.tensors[input].is_weight(); });
    if (theirs.size() != places.size()) continue;
    DenseInputs read = inputs;
    bool is_other = false, fits = true;
    for (std::size_t i = 0; i < places.size() && fits; ++i) {
      const Dense* weight = golden_known_.recorded(theirs[i]);
      fits = weight != nullptr && weight->shape == inputs[places[i]]->shape;
      is_other = is_other || (fits && !is_nearly(*weight, *inputs[places[i]]));
      read[places[i]] = weight;
    }
    if (!fits || !is_other) continue;
    ++tried;
    const std::uint32_t own = target_.ops[op].inputs[places.front()];
    TrialChange* change =
        put(9, function.apply(read), result, fmt::format("it is golden {}", golden_.name_of(theirs.front())));
    if (change != nullptr) change->weight = own;
  }
}

}  // namespace sonde
