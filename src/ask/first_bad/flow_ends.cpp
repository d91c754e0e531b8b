// The effects of the NaN and infinities of a ValueFlow: the ends of each value, readers before makers.
#include <algorithm>
#include <set>

#include "ask/first_bad/flow_facts.h"
#include "ask/first_bad/value_flow.h"

namespace sonde {

// Readers come after makers, so the last value's end is known first. Values of ops found through their readers only,
// and those from outside, are in any order: they go by the op that makes them.
void ValueFlow::find_ends() {
  const auto find = [&](Value& value) {
    for (const BadKind kind : kKinds) {
      value.ends[at(kind)] = end_of(value, kind, false);
      value.pure[at(kind)] = end_of(value, kind, true);
    }
  };
  for (std::size_t op = ops_.size(); op-- > 0;) {
    for (const std::uint32_t value : ops_[op].outputs) find(values_[value]);
  }
  for (Value& value : values_) {
    if (value.op == kOutside) find(value);
  }
}

End ValueFlow::end_of(const Value& value, BadKind kind, bool pure) {
  const Health health = health_of_value(static_cast<std::uint32_t>(&value - values_.data()));
  if (health.known && !has(health, kind)) return End::absorbed;
  Reading reading;
  reading.worst = own_end(value);
  for (const Reader& reader : value.readers) {
    const Op& op = ops_[reader.op];
    if (op.inputs[reader.input].is_read) {
      look_at_reader(value, reader, kind, pure, reading);
    } else {
      reading.is_read = reading.is_read || op.nature.overwrites || op.nature.most_inputs != ~0U;
    }
  }
  if (reading.is_read) return reading.worst;
  return std::max(reading.worst, end_unread(value, kind, reading.is_asked));
}

// `x != x` tests for NaN.
bool ValueFlow::is_self_compared(const Value& value, const Op& op, std::uint32_t index) const {
  return std::ranges::count_if(value.readers, [&](const Reader& other) { return other.op == index; }) > 1 &&
         op.outputs.size() == 1 && !may_be_floating(values_[op.outputs[0]].tensor);
}

// Whether the op's decision affects the model, a gradient or the loss, and not only numbers of the program.
bool ValueFlow::steers(const Op& op) const {
  std::vector<std::uint32_t> open(op.outputs);
  std::set<std::uint32_t> seen;
  while (!open.empty() && seen.size() < 256) {
    const std::uint32_t index = open.back();
    open.pop_back();
    if (!seen.insert(index).second) continue;
    if (is_loss(values_[index])) return true;
    for (const Reader& reader : values_[index].readers) {
      const Op& next = ops_[reader.op];
      if (next.nature.gives_number || !next.inputs[reader.input].is_read) continue;
      if (next.phase != Phase::outside) return true;
      open.insert(open.end(), next.outputs.begin(), next.outputs.end());
    }
  }
  return false;
}

void ValueFlow::look_at_reader(const Value& value, const Reader& reader, BadKind kind, bool pure, Reading& reading) {
  const Op& op = ops_[reader.op];
  const Health& seen = health_.of(*op.inputs[reader.input].tensor);
  const bool replaces = op.nature.tests_finite && !op.outputs.empty() && may_be_floating(values_[op.outputs[0]].tensor);
  if ((op.nature.tests_finite && !replaces) || is_self_compared(value, op, reader.op)) {
    reading.is_asked = true;
    return;
  }
  if (op.nature.gives_number) return;
  End end = End::absorbed;
  if (seen.known && !has(seen, kind)) {
    // Written over meanwhile.
  } else if (replaces) {
    // The op that replaces it handles it.
  } else if (op.outputs.empty()) {
    // A view of unwritten memory has no result of its own; its readers are checked separately.
    end = options_.only_overflows || op.nature.only_moves ? End::absorbed : End::unknown;
  } else {
    end = end_of_outputs(op, op.inputs[reader.input], value.flags[at(kind)], kind, pure);
    if (op.nature.checks_gradients) end = std::max(end, scaler_skipped_ ? End::scaler : End::matters);
  }
  reading.is_read = reading.is_read || end != End::unread;  // a comparison without effect
  reading.worst = std::max(reading.worst, end);
}

End ValueFlow::end_of_outputs(const Op& op, const Input& input, std::uint8_t flags, BadKind kind, bool pure) {
  End worst = End::absorbed;
  bool is_bad = false, is_floating = false;
  for (const std::uint32_t output : op.outputs) {
    if (!feeds(op, input, values_[output].slot)) continue;
    is_floating = is_floating || may_be_floating(values_[output].tensor);
    worst = std::max(worst, end_of_output(op, output, flags, kind, pure, is_bad));
  }
  // Comparisons, arg-maxima and casts to integers hide NaN without masking it.
  if (!is_bad && kind == BadKind::nan && !is_floating) return steers(op) ? End::decides : End::unread;
  return worst;
}

// Whether `kind`, read by the op, is in the output as `next`. NaN made from computed infinities is not caused by masks
// beside them.
bool ValueFlow::passes(std::uint8_t flags, BadKind kind, const Op& op, std::uint32_t index, BadKind next) {
  const Value& output = values_[index];
  if (!has(health_of_value(index), next)) return false;
  if (kind == BadKind::nan && op.nature.skips_nan && (output.flags[at(next)] & bit(RootKind::converted)) != 0)
    return false;
  const bool is_mask = kind == BadKind::inf && flags != 0 && (flags & ~kHarmless) == 0;
  if (next == kind)
    return !is_mask || (output.flags[at(next)] & ~kHarmless) == 0 ||
           sign_is_new(op, inputs_of(op, output.slot), health_of_value(index));
  if (has(inputs_of(op, output.slot), next)) return false;
  return !is_mask || (output.flags[at(next)] & bit(RootKind::converted)) != 0;
}

End ValueFlow::end_of_output(const Op& op, std::uint32_t index, std::uint8_t flags, BadKind kind, bool pure,
                             bool& is_bad) {
  const Value& output = values_[index];
  const Health health = health_of_value(index);
  if (!health.known) {
    // Internal results of an op that were not recorded give no information.
    if (!may_be_floating(output.tensor) || (output.tensor == nullptr && output.readers.empty())) return End::absorbed;
    is_bad = true;
    return std::min(End::unknown, output.ends[at(kind)]);
  }
  End worst = End::absorbed;
  for (const BadKind next : kKinds) {
    if (!passes(flags, kind, op, index, next)) continue;
    is_bad = true;
    const bool other_sign = kind == BadKind::inf && sign_is_new(op, inputs_of(op, output.slot), health);
    if (pure && (next != kind || other_sign)) continue;
    worst = std::max(worst, pure ? output.pure[at(next)] : output.ends[at(next)]);
  }
  return worst;
}

bool ValueFlow::is_loss(const Value& value) const {
  if (value.op == kOutside || !is_scalar(value.tensor)) return false;
  bool is_read = false, has_backward = false;
  for (const Reader& reader : value.readers) {
    const Op& op = ops_[reader.op];
    const Input& input = op.inputs[reader.input];
    if (bare_type(op.op->op_type) == "oneslike") return true;  // where backward begins
    if (input.is_unsaid) {
      has_backward = has_backward || op.is_reversed;
    } else {
      is_read = is_read || input.is_read;
    }
  }
  const std::string type = bare_type(ops_[value.op].op->op_type);
  if (is_read) return false;
  return has_backward || (type.find("loss") != std::string::npos || type.find("entropy") != std::string::npos);
}

// The loss times the scale: too large on purpose.
bool ValueFlow::is_scaled_loss(const Value& value) {
  const Op& op = ops_[value.op];
  return scaler_skipped_ && bare_type(op.op->op_type) == "mul" && !inputs_of(op, 0).bad();
}

bool ValueFlow::born_before_scale(const Root& root) {
  const auto is_backward = [&](std::uint32_t op) { return ops_[op].phase == Phase::backward; };
  if (is_backward(root.op) || ops_[root.op].phase == Phase::optimizer) return false;
  if (root.kind != RootKind::created && root.kind != RootKind::converted) return false;
  return std::ranges::any_of(root.path, is_backward) && !is_scaled_loss(values_[root.value]);
}

// The check of the gradients multiplies them by its inverse, which is its last input.
std::optional<double> ValueFlow::loss_scale() {
  for (const Op& op : ops_) {
    if (!op.nature.checks_gradients || op.inputs.empty()) continue;
    const CatalogTensor& inverse = *op.inputs.back().tensor;
    const KnownStatistics* known = is_scalar(&inverse) ? health_.statistics(inverse) : nullptr;
    if (known != nullptr && known->max && *known->max > 0) return 1 / *known->max;
  }
  return std::nullopt;
}

// Backward begins at this line in another step, or for another part of the batch: the program left it out for this one.
bool ValueFlow::is_loss_elsewhere(const Value& value) const {
  if (options_.losses == nullptr || value.op == kOutside || !is_scalar(value.tensor)) return false;
  const CatalogOp& op = *ops_[value.op].op;
  return op.line != 0 && options_.losses->contains({op.source_file, op.line, op.op_type});
}

// A parameter or buffer that an op writes in place, also through a view of it.
bool ValueFlow::is_state(const Value& value) const {
  if (value.tensor != nullptr && !is_data(*value.tensor)) return true;
  if (!ops_[value.op].nature.in_place) return false;
  std::optional<std::uint32_t> before = older(static_cast<std::uint32_t>(&value - values_.data()));
  for (std::size_t depth = 0; before && depth < kLongestPath; ++depth) {
    if (values_[*before].op == kOutside) return !is_data(*values_[*before].tensor);
    before = older(*before);
  }
  return false;
}

// Whether a gradient is among the values that it is computed from, a few operators back.
bool ValueFlow::comes_from_backward(std::uint32_t value) const {
  std::vector<std::uint32_t> open = {value};
  std::set<std::uint32_t> seen;
  while (!open.empty() && seen.size() < 256) {
    const std::uint32_t index = open.back();
    open.pop_back();
    if (!seen.insert(index).second || values_[index].op == kOutside) continue;
    const Op& op = ops_[values_[index].op];
    if (op.phase == Phase::backward) return true;
    for (const Input& input : op.inputs) open.push_back(input.value);
  }
  return false;
}

// A program without an optimizer writes into a tensor what it has computed from gradients. It is a parameter if more than
// such writes read it, before there was a gradient.
bool ValueFlow::is_updated_parameter(const Value& value) const {
  const Op& op = ops_[value.op];
  if (!op.nature.in_place || op.phase != Phase::outside || !trains_) return false;
  const std::optional<std::uint32_t> target = older(static_cast<std::uint32_t>(&value - values_.data()));
  if (!target) return false;
  std::uint32_t base = *target;
  for (std::size_t depth = 0; depth < kLongestPath; ++depth) {
    const std::optional<std::uint32_t> before = older(base);
    if (!before) break;
    base = *before;
  }
  const auto gradient = std::ranges::find(ops_, Phase::backward, &Op::phase);
  if (gradient == ops_.end()) return false;
  const bool is_read = std::ranges::any_of(values_[base].readers, [&](const Reader& reader) {
    return reader.op < index_of(*gradient) && !ops_[reader.op].nature.in_place && !ops_[reader.op].nature.shape_only;
  });
  if (!is_read) return false;
  return std::ranges::any_of(
      op.inputs, [&](const Input& input) { return input.value != *target && comes_from_backward(input.value); });
}

End ValueFlow::own_end(const Value& value) {
  if (value.op == kOutside) return End::absorbed;
  const Op& op = ops_[value.op];
  if (is_loss(value)) return is_scaled_loss(value) ? End::scaler : End::matters;
  if (!op.is_next && is_loss_elsewhere(value)) return scaler_skipped_ ? End::scaler : End::matters;
  // Also where its readers absorb it: an infinite second moment of Adam stops its parameter for good.
  if (op.phase == Phase::optimizer && is_state(value)) return End::matters;
  if (is_updated_parameter(value) || op.nature.gives_tangent) return End::matters;
  return End::absorbed;
}

// Autograd computed it, and asks for its shape alone: the second derivative of a relu.
bool ValueFlow::is_dropped(const Value& value) const {
  return !value.readers.empty() && std::ranges::all_of(value.readers, [&](const Reader& reader) {
    return ops_[reader.op].nature.shape_only && ops_[reader.op].phase == Phase::backward;
  });
}

// `is_asked`: whether it is finite. If no training continues, the answer ended it.
End ValueFlow::end_unread(const Value& value, BadKind kind, bool is_asked) {
  if (value.op == kOutside || value.tensor == nullptr) return End::absorbed;
  const Op& op = ops_[value.op];
  if (op.phase == Phase::backward && is_dropped(value)) return End::absorbed;
  if (op.phase == Phase::backward && optimizer_reads_finite_) return End::unread;
  if (op.phase == Phase::backward) return scaler_skipped_ ? End::scaler : End::matters;
  if (op.phase == Phase::optimizer) return End::matters;
  if (op.nature.checks_gradients) return scaler_skipped_ ? End::scaler : End::matters;
  if (op.nature.uninitialised) return End::absorbed;
  if (is_asked && !trains_ && !is_evaluation_) return End::matters;
  if (is_state(value)) return End::matters;
  if (options_.only_overflows && kind == BadKind::inf && !is_scalar(value.tensor)) return End::absorbed;
  return End::unread;
}

}  // namespace sonde
