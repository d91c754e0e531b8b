#include "ask/first_bad/flow_origins.h"

#include "ask/first_bad/flow_facts.h"
#include "read/operators/op_questions.h"
#include "read/operators/op_work.h"

namespace sonde {

// Makers come before readers.
FlowOrigins::FlowOrigins(const FlowGraph& graph, bool inputs_before)
    : graph_(graph), inputs_before_(inputs_before), origins_(graph.values().size()) {
  for (std::uint32_t index = 0; index < graph_.values().size(); ++index) {
    if (graph_.values()[index].op != kOutside) continue;
    for (const BadKind kind : kBadKinds) {
      if (has(graph_.health_of_value(index), kind)) origins_[index].flags[at(kind)] = bit(RootKind::external);
    }
  }
  for (const FlowOp& op : graph_.ops()) {
    for (const std::uint32_t value : op.outputs) {
      for (const BadKind kind : kBadKinds) {
        if (has(graph_.health_of_value(value), kind)) find(value, kind);
      }
    }
  }
}

void FlowOrigins::find(std::uint32_t index, BadKind kind) {
  const FlowValue& value = graph_.values()[index];
  FlowOrigin& origin = origins_[index];
  const FlowOp& op = graph_.ops()[value.op];
  bool inputs_known = true;
  const Health inputs = graph_.inputs_of(op, value.slot, &inputs_known);
  const BadKind other = kind == BadKind::nan ? BadKind::inf : BadKind::nan;
  const BadKind from = has(inputs, kind) ? kind : other;
  std::uint8_t found = 0;
  for (const FlowInput& input : op.inputs) {
    if (!input.is_read || !graph_.feeds(op, input, value.slot) || !has(graph_.health_of(input), from)) continue;
    const FlowValue& source = graph_.values()[input.value];
    const bool differs = source.op != kOutside && source.tensor != nullptr &&
                         graph_.health().of(*source.tensor).known && !has(graph_.health().of(*source.tensor), from);
    if (differs && (input.is_in_parts || !inputs_before_)) continue;
    if (differs) {
      found |= bit(RootKind::overwritten);
      origin.root[at(kind)] = RootKind::overwritten;
      origin.overwritten[at(kind)] = input.tensor;
    } else if (flags(input.value, from) != 0) {
      found |= flags(input.value, from);
    } else if (source.op != kOutside && graph_.ops()[source.op].nature.uninitialised) {
      found |= bit(RootKind::external);
    }
  }
  if (from == BadKind::inf && is_harmless(found) && op.nature.mixes) {
    find_leak(op, value.slot);
    for (const FlowInput& input : op.inputs) {
      if (input.is_read && has(graph_.health_of(input), from)) found |= flags(input.value, from);
    }
  }
  // Nothing removes it from a gradient, as a softmax removes a mask in forward.
  const bool is_in_gradient = kind == BadKind::inf && (found == 0 || is_harmless(found)) && places_in_gradient(op);
  if (is_in_gradient) found = 0;
  const bool changed = from != kind || (kind == BadKind::nan && op.nature.skips_nan) ||
                       (kind == BadKind::inf && (sign_is_new(op, inputs, graph_.health_of_value(index)) ||
                                                 multiplies_by_infinity(op, value.slot)));
  if (found == 0) {
    // An op is not blamed for infinities that may come from unrecorded inputs before they do harm.
    const bool meant = !is_in_gradient && (op.nature.places || (kind == BadKind::inf && !inputs_known));
    origin.root[at(kind)] = meant ? RootKind::placed : RootKind::created;
    found = bit(*origin.root[at(kind)]);
  } else if (changed && is_harmless(found)) {
    // Intended infinities became unintended ones: this op is the origin.
    origin.root[at(kind)] = RootKind::converted;
    found = bit(RootKind::converted);
  }
  origin.flags[at(kind)] = found;
}

// An op of the backward pass writes an infinite number of the program: what it reads beside that is finite.
bool FlowOrigins::places_in_gradient(const FlowOp& op) const {
  if (op.phase != Phase::backward || !op.nature.places || op.nature.brings) return false;
  return std::ranges::none_of(op.inputs, [&](const FlowInput& input) {
    const bool is_number = input.tensor->constant || is_scalar(input.tensor);
    return input.is_read && !is_number && graph_.health_of(input).bad();
  });
}

// From data of the run; false: the program wrote the numbers, as `torch.ones` does.
bool FlowOrigins::is_computed(std::uint32_t value) const {
  std::optional<std::uint32_t> index = value;
  for (std::size_t depth = 0; index && depth < kLongestPath; ++depth) {
    if (graph_.values()[*index].op == kOutside) return false;
    const FlowOp& maker = graph_.ops()[graph_.values()[*index].op];
    if (maker.nature.places || maker.nature.brings || maker.nature.shape_only) return false;
    if (!maker.nature.only_moves) {
      return std::ranges::any_of(maker.inputs,
                                 [](const FlowInput& input) { return input.is_read && !input.tensor->constant; });
    }
    const auto source = std::ranges::find(maker.inputs, true, &FlowInput::is_read);
    index = source == maker.inputs.end() ? std::nullopt : std::optional(source->value);
  }
  return false;
}

// A computed tensor times an infinite number, or that divided by it: no mask is made so, whatever the signs are.
bool FlowOrigins::multiplies_by_infinity(const FlowOp& op, std::uint32_t slot) const {
  const OpWork work = work_of(single_type(op.op->op_type));
  if (work != OpWork::multiply && work != OpWork::divide) return false;
  bool has_number = false, has_computed = false;
  for (const FlowInput& input : op.inputs) {
    if (!input.is_read || !graph_.feeds(op, input, slot)) continue;
    const bool is_number = input.tensor->constant || is_scalar(input.tensor);
    if (graph_.health_of(input).bad() && !is_number) return false;
    has_number = has_number || graph_.health_of(input).inf();
    has_computed = has_computed || (!graph_.health_of(input).bad() && is_computed(input.value));
  }
  return has_number && has_computed;
}

// The source of an infinity that was meant as a mask, or that has no known meaning, and that this op multiplies or
// normalises as any number: data from outside, a weight, or memory that was masked in place under another name.
std::optional<std::uint32_t> FlowOrigins::leak_of(const FlowOp& op, const FlowInput& input) const {
  if (!input.is_read || input.tensor->slot < op.nature.first_mixed || !graph_.health_of(input).inf())
    return std::nullopt;
  std::uint32_t index = input.value;
  for (std::size_t depth = 0; depth < kLongestPath; ++depth) {
    const FlowValue& value = graph_.values()[index];
    const bool is_outside = value.op == kOutside;
    if (is_outside && !is_data(*value.tensor) && !is_weight(*value.tensor)) return std::nullopt;
    if (is_outside) return index;
    const FlowOp& maker = graph_.ops()[value.op];
    if (maker.nature.places && (maker.nature.in_place || maker.nature.brings)) return index;
    if (maker.nature.places || (!maker.nature.only_moves && !maker.nature.in_place)) return std::nullopt;
    const std::optional<std::uint32_t> before = graph_.older(index);
    if (!before) return std::nullopt;
    index = *before;
  }
  return std::nullopt;
}

void FlowOrigins::find_leak(const FlowOp& op, std::uint32_t slot) {
  for (const FlowInput& input : op.inputs) {
    const std::optional<std::uint32_t> from = graph_.feeds(op, input, slot) ? leak_of(op, input) : std::nullopt;
    if (!from) continue;
    FlowOrigin& origin = origins_[*from];
    origin.leaked = true;
    origin.flags[at(BadKind::inf)] |= bit(RootKind::created);
    if (graph_.values()[*from].op != kOutside) origin.root[at(BadKind::inf)] = RootKind::placed;
    // The ops on the way there.
    for (std::optional<std::uint32_t> index = input.value; index && *index != *from; index = graph_.older(*index)) {
      origins_[*index].flags[at(BadKind::inf)] |= bit(RootKind::created);
    }
  }
}

}  // namespace sonde
