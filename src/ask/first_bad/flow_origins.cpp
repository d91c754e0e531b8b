// The origins of the NaN and infinities of a ValueFlow: the flags of each value, makers before readers.
#include "ask/first_bad/flow_facts.h"
#include "ask/first_bad/value_flow.h"

namespace sonde {

void ValueFlow::find_flags() {
  for (std::uint32_t index = 0; index < values_.size(); ++index) {
    if (values_[index].op != kOutside) continue;
    for (const BadKind kind : kKinds) {
      if (has(health_of_value(index), kind)) values_[index].flags[at(kind)] = bit(RootKind::external);
    }
  }
  for (const Op& op : ops_) {
    for (const std::uint32_t value : op.outputs) {
      for (const BadKind kind : kKinds) {
        if (has(health_of_value(value), kind)) find_flags(value, kind);
      }
    }
  }
}

void ValueFlow::find_flags(std::uint32_t index, BadKind kind) {
  Value& value = values_[index];
  const Op& op = ops_[value.op];
  bool inputs_known = true;
  const Health inputs = inputs_of(op, value.slot, &inputs_known);
  const BadKind other = kind == BadKind::nan ? BadKind::inf : BadKind::nan;
  const BadKind from = has(inputs, kind) ? kind : other;
  std::uint8_t flags = 0;
  for (const Input& input : op.inputs) {
    if (!input.is_read || !feeds(op, input, value.slot) || !has(health_of(input), from)) continue;
    const Value& source = values_[input.value];
    const bool differs = source.op != kOutside && source.tensor != nullptr && health_.of(*source.tensor).known &&
                         !has(health_.of(*source.tensor), from);
    if (differs && !options_.inputs_before) continue;
    if (differs) {
      flags |= bit(RootKind::overwritten);
      value.root[at(kind)] = RootKind::overwritten;
      value.overwritten[at(kind)] = input.tensor;
    } else if (source.flags[at(from)] != 0) {
      flags |= source.flags[at(from)];
    } else if (source.op != kOutside && ops_[source.op].nature.uninitialised) {
      flags |= bit(RootKind::external);
    }
  }
  if (from == BadKind::inf && flags != 0 && (flags & ~kHarmless) == 0 && op.nature.mixes) {
    find_leak(op, value.slot);
    for (const Input& input : op.inputs) {
      if (input.is_read && has(health_of(input), from)) flags |= values_[input.value].flags[at(from)];
    }
  }
  const bool changed = from != kind || (kind == BadKind::nan && op.nature.skips_nan) ||
                       (kind == BadKind::inf && sign_is_new(op, inputs, health_of_value(index)));
  if (flags == 0) {
    // An op is not blamed for infinities that may come from unrecorded inputs before they do harm.
    const bool meant = op.nature.places || (kind == BadKind::inf && !inputs_known);
    value.root[at(kind)] = meant ? RootKind::placed : RootKind::created;
    flags = bit(*value.root[at(kind)]);
  } else if (changed && (flags & ~kHarmless) == 0) {
    // Intended infinities became unintended ones: this op is the origin.
    value.root[at(kind)] = RootKind::converted;
    flags = bit(RootKind::converted);
  }
  value.flags[at(kind)] = flags;
}

// The source of an infinity that was meant as a mask, or that has no known meaning, and that this op multiplies or
// normalises as any number: data from outside, a weight, or memory that was masked in place under another name.
std::optional<std::uint32_t> ValueFlow::leak_of(const Op& op, const Input& input) {
  if (!input.is_read || input.tensor->slot < op.nature.first_mixed || !health_of(input).inf()) return std::nullopt;
  std::uint32_t index = input.value;
  for (std::size_t depth = 0; depth < kLongestPath; ++depth) {
    const Value& value = values_[index];
    const bool is_outside = value.op == kOutside;
    if (is_outside && !is_data(*value.tensor) && !is_weight(*value.tensor)) return std::nullopt;
    if (is_outside) return index;
    const Op& maker = ops_[value.op];
    if (maker.nature.places && (maker.nature.in_place || maker.nature.brings)) return index;
    if (maker.nature.places || (!maker.nature.only_moves && !maker.nature.in_place)) return std::nullopt;
    const std::optional<std::uint32_t> before = older(index);
    if (!before) return std::nullopt;
    index = *before;
  }
  return std::nullopt;
}

void ValueFlow::find_leak(const Op& op, std::uint32_t slot) {
  for (const Input& input : op.inputs) {
    const std::optional<std::uint32_t> from = feeds(op, input, slot) ? leak_of(op, input) : std::nullopt;
    if (!from) continue;
    Value& value = values_[*from];
    value.leaked = true;
    value.flags[at(BadKind::inf)] |= bit(RootKind::created);
    if (value.op != kOutside) value.root[at(BadKind::inf)] = RootKind::placed;
    // The ops on the way there.
    for (std::optional<std::uint32_t> index = input.value; index && *index != *from; index = older(*index)) {
      values_[*index].flags[at(BadKind::inf)] |= bit(RootKind::created);
    }
  }
}

}  // namespace sonde
