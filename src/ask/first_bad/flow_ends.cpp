#include "ask/first_bad/flow_ends.h"

#include <algorithm>
#include <set>

#include "ask/first_bad/flow_facts.h"
#include "ask/first_bad/loss_places.h"
#include "read/operators/collective_call.h"
#include "read/operators/op_family.h"
#include "read/operators/op_nature.h"
#include "read/operators/op_questions.h"
#include "read/operators/op_work.h"

namespace sonde {

// Readers come after makers, so the last value's end is known first. Values of ops found through their readers only,
// and those from outside, are in any order: they go by the op that makes them.
FlowEnds::FlowEnds(const FlowGraph& graph, const FlowOrigins& origins, const FlowTraining& training,
                   const LossPlaces* losses)
    : graph_(graph),
      origins_(origins),
      training_(training),
      losses_(losses),
      returned_loss_(returned_loss()),
      ends_(graph.values().size()) {
  const auto find = [&](std::uint32_t index) {
    const FlowValue& value = graph.values()[index];
    const Health health = graph.health_of_value(index);
    if (health.known && !health.bad()) return;  // nothing to absorb
    const End own = own_end(value);
    for (const BadKind kind : kBadKinds) {
      if (health.known && !has(health, kind)) continue;
      ends_[index].worst[at(kind)] = end_of(value, own, kind, false);
      ends_[index].pure[at(kind)] = end_of(value, own, kind, true);
    }
  };
  for (std::size_t op = graph.ops().size(); op-- > 0;) std::ranges::for_each(graph.ops()[op].outputs, find);
  for (std::uint32_t index = 0; index < graph.values().size(); ++index) {
    if (graph.values()[index].op == kOutside) find(index);
  }
}

// `own`: whatever its readers do.
End FlowEnds::end_of(const FlowValue& value, End own, BadKind kind, bool pure) const {
  Reading reading;
  reading.worst = own;
  for (const FlowReader& reader : value.readers) {
    const FlowOp& op = graph_.ops()[reader.op];
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
bool FlowEnds::is_self_compared(const FlowValue& value, const FlowOp& op, std::uint32_t index) const {
  return std::ranges::count_if(value.readers, [&](const FlowReader& other) { return other.op == index; }) > 1 &&
         op.outputs.size() == 1 && !may_be_floating(graph_.values()[op.outputs[0]].tensor);
}

// Whether the op's decision affects the model, a gradient or the loss, and not only numbers of the program.
bool FlowEnds::steers(const FlowOp& op) const {
  std::vector<std::uint32_t> open(op.outputs);
  std::set<std::uint32_t> seen;
  while (!open.empty() && seen.size() < 256) {
    const std::uint32_t index = open.back();
    open.pop_back();
    if (!seen.insert(index).second) continue;
    if (is_loss(graph_.values()[index])) return true;
    for (const FlowReader& reader : graph_.values()[index].readers) {
      const FlowOp& next = graph_.ops()[reader.op];
      if (next.nature.gives_number || !next.inputs[reader.input].is_read) continue;
      if (next.phase != Phase::outside) return true;
      open.insert(open.end(), next.outputs.begin(), next.outputs.end());
    }
  }
  return false;
}

void FlowEnds::look_at_reader(const FlowValue& value, const FlowReader& reader, BadKind kind, bool pure,
                              Reading& reading) const {
  const FlowOp& op = graph_.ops()[reader.op];
  const Health& seen = graph_.health().of(*op.inputs[reader.input].tensor);
  const bool replaces =
      op.nature.tests_finite && !op.outputs.empty() && may_be_floating(graph_.values()[op.outputs[0]].tensor);
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
  } else if (collective_way(bare_type(op.op->op_type)) == CollectiveWay::send) {
    // To another rank: the last result of a pipeline's stage, or a gradient of the stage before.
    const bool is_gradient = value.op != kOutside && graph_.ops()[value.op].phase == Phase::backward;
    end = is_gradient && training_.scaler_skipped ? End::scaler : End::matters;
  } else if (op.op->failed) {
    end = End::matters;
  } else if (op.outputs.empty()) {
    // A view of unwritten memory has no result of its own; its readers are checked separately.
    end = graph_.only_overflows() || op.nature.only_moves ? End::absorbed : End::unknown;
  } else {
    end = end_of_outputs(op, op.inputs[reader.input], origins_.flags(graph_.index_of(value), kind), kind, pure);
    if (op.nature.checks_gradients) end = std::max(end, training_.scaler_skipped ? End::scaler : End::matters);
  }
  reading.is_read = reading.is_read || end != End::unread;  // a comparison without effect
  reading.worst = std::max(reading.worst, end);
}

End FlowEnds::end_of_outputs(const FlowOp& op, const FlowInput& input, std::uint8_t flags, BadKind kind,
                             bool pure) const {
  End worst = End::absorbed;
  bool is_bad = false, is_floating = false;
  for (const std::uint32_t output : op.outputs) {
    if (!graph_.feeds(op, input, graph_.values()[output].slot)) continue;
    is_floating = is_floating || may_be_floating(graph_.values()[output].tensor);
    worst = std::max(worst, end_of_output(op, output, flags, kind, pure, is_bad));
  }
  // Comparisons, arg-maxima and casts to integers hide NaN without masking it.
  if (!is_bad && kind == BadKind::nan && !is_floating) return steers(op) ? End::decides : End::unread;
  return worst;
}

// NaN hides an infinity that it meets in a sum.
bool FlowEnds::is_sum(const FlowOp& op) {
  using enum OpWork;
  const OpWork work = work_of(single_type(op.op->op_type));
  return work == add || work == subtract || work == subtract_from || work == sum || work == mean;
}

// Nothing behind it in the forward pass would remove an infinity, as a softmax does or a maximum.
bool FlowEnds::is_only_summed(std::uint32_t from) const {
  constexpr std::size_t kMostFollowed = 256;
  std::vector<std::uint32_t> open = {from};
  std::set<std::uint32_t> seen;
  while (!open.empty()) {
    const std::uint32_t index = open.back();
    open.pop_back();
    if (!seen.insert(index).second) continue;
    if (seen.size() > kMostFollowed) return false;
    for (const FlowReader& reader : graph_.values()[index].readers) {
      const FlowOp& op = graph_.ops()[reader.op];
      const bool is_asked = op.nature.tests_finite || op.nature.gives_number || op.nature.shape_only;
      if (op.phase == Phase::backward || is_asked || !op.inputs[reader.input].is_read) continue;
      const bool is_flipped = op.nature.flips_sign && op.inputs.size() == 1;  // abs, neg, square
      const bool is_scaled = work_of(single_type(op.op->op_type)) == OpWork::multiply;
      const OpKind kind = kind_of(op.op->op_type);
      if (!is_sum(op) && !is_flipped && !is_scaled && kind != OpKind::copy && kind != OpKind::cast) return false;
      open.insert(open.end(), op.outputs.begin(), op.outputs.end());
    }
  }
  return true;
}

// Whether `kind`, read by the op, is in the output as `next`. NaN made from computed infinities is not caused by masks
// beside them. An infinity that meets NaN in a sum would be in the loss without it.
bool FlowEnds::passes(std::uint8_t flags, BadKind kind, const FlowOp& op, std::uint32_t index, BadKind next) const {
  const FlowValue& output = graph_.values()[index];
  if (!has(graph_.health_of_value(index), next)) return false;
  if (kind == BadKind::nan && op.nature.skips_nan && (origins_.flags(index, next) & bit(RootKind::converted)) != 0)
    return false;
  const bool is_mask = kind == BadKind::inf && is_harmless(flags);
  if (next == kind)
    return !is_mask || (origins_.flags(index, next) & ~kHarmless) == 0 ||
           sign_is_new(op, graph_.inputs_of(op, output.slot), graph_.health_of_value(index));
  if (has(graph_.inputs_of(op, output.slot), next))
    return is_hidden(kind, op, index, next) && !is_mask && is_sum(op) && is_only_summed(index);
  return !is_mask || (origins_.flags(index, next) & bit(RootKind::converted)) != 0;
}

bool FlowEnds::is_hidden(BadKind kind, const FlowOp& op, std::uint32_t output, BadKind next) const {
  return kind == BadKind::inf && next == BadKind::nan && has(graph_.inputs_of(op, graph_.values()[output].slot), next);
}

End FlowEnds::end_of_output(const FlowOp& op, std::uint32_t index, std::uint8_t flags, BadKind kind, bool pure,
                            bool& is_bad) const {
  const FlowValue& output = graph_.values()[index];
  const Health health = graph_.health_of_value(index);
  if (!health.known) {
    // Internal results of an op that were not recorded give no information.
    if (!may_be_floating(output.tensor) || (output.tensor == nullptr && output.readers.empty())) return End::absorbed;
    is_bad = true;
    return std::min(End::unknown, of(index, kind));
  }
  End worst = End::absorbed;
  for (const BadKind next : kBadKinds) {
    if (!passes(flags, kind, op, index, next)) continue;
    is_bad = true;
    const bool other_sign = kind == BadKind::inf && sign_is_new(op, graph_.inputs_of(op, output.slot), health);
    if (pure && (next != kind || other_sign)) continue;
    worst = std::max(worst, pure ? this->pure(index, next) : of(index, next));
  }
  return worst;
}

// The backward pass has a derivative of the op, or of one whose result it reads: the first one may be a constant.
bool FlowEnds::is_differentiated(const FlowOp& last) const {
  std::set<std::pair<std::string_view, std::string_view>> forward;  // scope and type
  const auto add = [&](const FlowOp& op) { forward.emplace(place_of(*op.op), op.op->op_type); };
  add(last);
  for (const FlowInput& input : last.inputs) {
    if (const FlowOp* maker = graph_.maker(input)) add(*maker);
  }
  return std::ranges::any_of(graph_.ops(), [&](const FlowOp& op) {
    if (op.phase != Phase::backward) return false;
    const DerivativeScope derivative = derivative_scope(place_of(*op.op));
    return std::ranges::any_of(forward, [&](const auto& one) {
      return derivative.type == one.second && derivative.scope.ends_with(one.first);
    });
  });
}

// A compiled graph begins its backward pass with a constant, and returns the loss: the last number that its forward pass
// gives and that nothing reads.
std::uint32_t FlowEnds::returned_loss() const {
  const std::span<const FlowOp> ops = graph_.ops();
  const auto is_call = [](const FlowOp& op) { return begins_backward(op.op->op_type); };
  const auto is_of_backward = [](const FlowOp& op) { return op.phase == Phase::backward; };
  const bool has_lines = std::ranges::any_of(ops, [](const FlowOp& op) { return op.op->line != 0; });
  if (std::ranges::any_of(ops, is_call) || std::ranges::none_of(ops, is_of_backward)) return kOutside;
  for (std::size_t op = ops.size(); op-- > 0;) {
    if (ops[op].is_next || ops[op].phase != Phase::forward) continue;
    if (has_lines && ops[op].op->line == 0) continue;  // of a derivative
    for (const std::uint32_t output : ops[op].outputs) {
      const FlowValue& value = graph_.values()[output];
      const bool may_be_loss = value.readers.empty() && is_scalar(value.tensor) && may_be_floating(value.tensor);
      if (may_be_loss && is_differentiated(ops[op])) return output;
    }
  }
  return kOutside;
}

bool FlowEnds::is_loss(const FlowValue& value) const {
  if (value.op == kOutside || !is_scalar(value.tensor)) return false;
  if (returned_loss_ != kOutside && &value == &graph_.values()[returned_loss_]) return true;
  bool is_read = false, has_backward = false;
  for (const FlowReader& reader : value.readers) {
    const FlowOp& op = graph_.ops()[reader.op];
    const FlowInput& input = op.inputs[reader.input];
    if (begins_backward(op.op->op_type)) return true;  // where backward begins
    if (input.is_unsaid) {
      has_backward = has_backward || op.is_reversed;
    } else {
      is_read = is_read || input.is_read;
    }
  }
  const std::string type = bare_type(graph_.ops()[value.op].op->op_type);
  if (is_read) return false;
  return has_backward || gives_loss(type);
}

bool FlowEnds::is_scaled_loss(const FlowValue& value) const {
  const FlowOp& op = graph_.ops()[value.op];
  return training_.scaler_skipped && work_of(bare_type(op.op->op_type)) == OpWork::multiply &&
         !graph_.inputs_of(op, 0).bad();
}

// Backward begins at this line in another step, or for another part of the batch: the program left it out for this one.
bool FlowEnds::is_loss_elsewhere(const FlowValue& value) const {
  if (losses_ == nullptr || value.op == kOutside || !is_scalar(value.tensor)) return false;
  const CatalogOp& op = *graph_.ops()[value.op].op;
  return op.line != 0 && losses_->contains({op.source_file, op.line, op.op_type});
}

// A parameter or buffer that an op writes in place, also through a view of it.
bool FlowEnds::is_state(const FlowValue& value) const {
  if (value.tensor != nullptr && !is_data(*value.tensor)) return true;
  if (!graph_.ops()[value.op].nature.in_place) return false;
  std::optional<std::uint32_t> before = graph_.older(graph_.index_of(value));
  for (std::size_t depth = 0; before && depth < kLongestPath; ++depth) {
    if (graph_.values()[*before].op == kOutside) return !is_data(*graph_.values()[*before].tensor);
    before = graph_.older(*before);
  }
  return false;
}

// Whether a gradient is among the values that it is computed from, a few operators back.
bool FlowEnds::comes_from_backward(std::uint32_t value) const {
  std::vector<std::uint32_t> open = {value};
  std::set<std::uint32_t> seen;
  while (!open.empty() && seen.size() < 256) {
    const std::uint32_t index = open.back();
    open.pop_back();
    if (!seen.insert(index).second || graph_.values()[index].op == kOutside) continue;
    const FlowOp& op = graph_.ops()[graph_.values()[index].op];
    if (op.phase == Phase::backward) return true;
    for (const FlowInput& input : op.inputs) open.push_back(input.value);
  }
  return false;
}

// A program without an optimizer writes into a tensor what it has computed from gradients. It is a parameter if more than
// such writes read it, before there was a gradient.
bool FlowEnds::is_updated_parameter(const FlowValue& value) const {
  const FlowOp& op = graph_.ops()[value.op];
  if (!op.nature.in_place || op.phase != Phase::outside || !training_.trains) return false;
  const std::optional<std::uint32_t> target = graph_.older(graph_.index_of(value));
  if (!target) return false;
  std::uint32_t base = *target;
  for (std::size_t depth = 0; depth < kLongestPath; ++depth) {
    const std::optional<std::uint32_t> before = graph_.older(base);
    if (!before) break;
    base = *before;
  }
  const auto gradient = std::ranges::find(graph_.ops(), Phase::backward, &FlowOp::phase);
  if (gradient == graph_.ops().end()) return false;
  const bool is_read = std::ranges::any_of(graph_.values()[base].readers, [&](const FlowReader& reader) {
    return reader.op < graph_.index_of(*gradient) && !graph_.ops()[reader.op].nature.in_place &&
           !graph_.ops()[reader.op].nature.shape_only;
  });
  if (!is_read) return false;
  return std::ranges::any_of(
      op.inputs, [&](const FlowInput& input) { return input.value != *target && comes_from_backward(input.value); });
}

End FlowEnds::own_end(const FlowValue& value) const {
  if (value.op == kOutside) return End::absorbed;
  const FlowOp& op = graph_.ops()[value.op];
  if (is_loss(value)) return is_scaled_loss(value) ? End::scaler : End::matters;
  if (!op.is_next && is_loss_elsewhere(value)) return training_.scaler_skipped ? End::scaler : End::matters;
  // Also where its readers absorb it: an infinite second moment of Adam stops its parameter for good.
  if (op.phase == Phase::optimizer && is_state(value)) return End::matters;
  if (is_updated_parameter(value) || op.nature.gives_tangent) return End::matters;
  return End::absorbed;
}

// Autograd computed it, and asks for its shape alone: the second derivative of a relu.
bool FlowEnds::is_dropped(const FlowValue& value) const {
  return !value.readers.empty() && std::ranges::all_of(value.readers, [&](const FlowReader& reader) {
    return graph_.ops()[reader.op].nature.shape_only && graph_.ops()[reader.op].phase == Phase::backward;
  });
}

// `is_asked`: whether it is finite. If no training continues, the answer ended it.
End FlowEnds::end_unread(const FlowValue& value, BadKind kind, bool is_asked) const {
  if (value.op == kOutside || value.tensor == nullptr) return End::absorbed;
  const FlowOp& op = graph_.ops()[value.op];
  if (op.phase == Phase::backward && is_dropped(value)) return End::absorbed;
  if (op.phase == Phase::backward && training_.optimizer_reads_finite) return End::unread;
  if (op.phase == Phase::backward) return training_.scaler_skipped ? End::scaler : End::matters;
  if (op.phase == Phase::optimizer) return End::matters;
  if (op.nature.checks_gradients) return training_.scaler_skipped ? End::scaler : End::matters;
  if (op.nature.uninitialised) return End::absorbed;
  if (is_asked && !training_.trains && !training_.is_evaluation) return End::matters;
  if (is_state(value)) return End::matters;
  if (graph_.only_overflows() && kind == BadKind::inf && !is_scalar(value.tensor)) return End::absorbed;
  return End::unread;
}

}  // namespace sonde
