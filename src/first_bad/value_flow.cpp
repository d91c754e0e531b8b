#include "first_bad/value_flow.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/shape.h"
#include "formats/free_names.h"

namespace sonde {
namespace {

constexpr std::size_t kAbsorbersShown = 3;
constexpr std::size_t kLongestPath = 64;

constexpr std::string_view kUninitialised = "uninitialised memory";  // the journal's text for why it was not read

constexpr BadKind kKinds[] = {BadKind::nan, BadKind::inf};

std::size_t at(BadKind kind) { return static_cast<std::size_t>(kind); }
std::uint8_t bit(RootKind kind) { return static_cast<std::uint8_t>(1U << static_cast<unsigned>(kind)); }
constexpr std::uint8_t kHarmless =
    1U << static_cast<unsigned>(RootKind::placed) | 1U << static_cast<unsigned>(RootKind::external);
bool has(const Health& health, BadKind kind) { return kind == BadKind::nan ? health.nan : health.inf(); }

bool is_scalar(const CatalogTensor* tensor) {
  if (tensor == nullptr || !tensor->has_shape) return false;
  return std::ranges::all_of(tensor->shape, [](std::int64_t size) { return size == 1; });
}

bool may_be_floating(const CatalogTensor* tensor) {
  return tensor == nullptr || tensor->dtype == DType::undefined || is_floating(tensor->dtype) ||
         is_complex(tensor->dtype);
}

bool is_data(const CatalogTensor& tensor) {
  const std::string_view name = tensor.parameter;
  return name.empty() || name.starts_with("data-") || name.starts_with("carried-");
}

bool is_all_zero(const KnownStatistics* known) { return known != nullptr && known->max == 0.0 && known->min == 0.0; }

// Recognises by its name a parameter that a network learns; a mask never is one.
bool is_weight(const CatalogTensor& tensor) {
  return tensor.parameter.ends_with("weight") || tensor.parameter.ends_with("bias");
}

// Whether the output has infinities of a sign that the inputs lack.
bool sign_is_new(const ValueFlow::Op& op, const Health& inputs, const Health& output) {
  if (op.nature.flips_sign) return false;
  return (output.positive_inf && !inputs.positive_inf) || (output.negative_inf && !inputs.negative_inf);
}

}  // namespace

std::string_view word_of(End end) {
  switch (end) {
    case End::absorbed:
      return "absorbed";
    case End::unknown:
      return "unknown";
    case End::unread:
      return "unread";
    case End::decides:
      return "decides";
    case End::scaler:
      return "scaler";
    case End::matters:
      return "matters";
  }
  return "";
}

LossPlaces loss_places(const CatalogRank& rank) {
  LossPlaces places;
  for (const CatalogStep& step : rank.steps) {
    DataFlow flow(rank);
    for (const CatalogOp& op : step.ops) {
      if (op.is_parameter) continue;
      if (bare_type(op.op_type) == "oneslike" && !op.tensors.empty() && is_scalar(&op.tensors[0])) {
        const std::optional<DataFlow::Maker> maker = flow.maker(op.tensors[0]);
        if (maker && maker->op->line != 0) places.insert({maker->op->source_file, maker->op->line, maker->op->op_type});
      }
      flow.add(op);
    }
  }
  return places;
}

// --- building --------------------------------------------------------------------------------------------------------

ValueFlow::ValueFlow(const CatalogRank& rank, std::size_t step, HealthReader& health, Options options)
    : health_(health),
      options_(options),
      flow_(rank),
      run_(rank.steps[step].run),
      is_evaluation_(rank.steps[step].id.graph != 0) {
  add_step(rank.steps[step], false);
  // Edges that other tools' graphs lack, or assign to another step, are inferred too.
  if (!has_edges_ || !rank.has_journal || rank.steps[step].is_mended) infer_edges();
  if (has_edges_ && rank.has_journal && step + 1 < rank.steps.size() && rank.steps[step + 1].run == run_) {
    add_step(rank.steps[step + 1], true);
  }
  if (!rank.has_journal) add_unsaid();
  look_behind_views();
  find_scaler();
  find_flags();
  find_ends();
  find_roots();
}

void ValueFlow::add_step(const CatalogStep& step, bool is_next) {
  for (const CatalogOp& op : step.ops) {
    if (!op.is_parameter) add_op(op, is_next);
  }
}

void ValueFlow::add_op(const CatalogOp& op, bool is_next) {
  const auto index = static_cast<std::uint32_t>(ops_.size());
  Op& added = ops_.emplace_back();
  added.op = &op;
  added.nature = nature_of(op.op_type);
  added.phase = phase_of(op);
  added.is_next = is_next;
  MsprobeName name;
  added.is_reversed = parse_msprobe_name(op.op_name, name) && name.is_backward && !name.is_gradient;
  if (added.is_reversed) added.nature.only_moves = added.nature.in_place = false;  // expand adds up, in its backward
  if (!is_next) {
    trains_ = trains_ || added.phase == Phase::backward || added.phase == Phase::optimizer;
    has_modules_ = has_modules_ || added.phase == Phase::forward;
  }
  for (const CatalogTensor& tensor : op.tensors) {
    if (!is_next && health_.of(tensor).known) ++tensors_;
    if (!tensor.is_input) {
      added.outputs.push_back(add_value(index, tensor.slot, &tensor));
      continue;
    }
    Input input;
    input.tensor = &tensor;
    // Data that the program brings in lies in memory that the program itself has written.
    input.is_read = !added.nature.shape_only && !added.nature.uninitialised && !added.nature.brings &&
                    tensor.slot < added.nature.most_inputs && !(added.nature.overwrites && tensor.slot == 0);
    const std::optional<DataFlow::Maker> maker = flow_.maker(tensor);
    if (tensor.source != kNoSequence) has_edges_ = true;
    input.value = maker ? value_of(maker->number, maker->slot) : outside_value(tensor);
    values_[input.value].readers.push_back({index, static_cast<std::uint32_t>(added.inputs.size())});
    added.inputs.push_back(input);
  }
  flow_.add(op);
}

std::uint32_t ValueFlow::add_value(std::uint32_t op, std::uint32_t slot, const CatalogTensor* tensor) {
  Value value;
  value.op = op;
  value.slot = slot;
  value.tensor = tensor;
  values_.push_back(value);
  return static_cast<std::uint32_t>(values_.size() - 1);
}

// Makes the value if it is not a result, such as a mask that the op saved for backward.
std::uint32_t ValueFlow::value_of(std::uint32_t op, std::uint32_t slot) {
  for (const std::uint32_t value : ops_[op].outputs) {
    if (values_[value].slot == slot) return value;
  }
  const std::uint32_t value = add_value(op, slot, nullptr);
  ops_[op].outputs.push_back(value);
  return value;
}

std::uint32_t ValueFlow::outside_value(const CatalogTensor& tensor) {
  std::string key;
  if (!tensor.parameter.empty()) {
    key = tensor.parameter;
  } else if (tensor.source != kNoSequence) {
    key = fmt::format("#{}.{}", tensor.source, tensor.source_slot);
  } else if (tensor.content != 0) {
    key = fmt::format("={}", tensor.content);
  }
  if (key.empty()) return add_value(kOutside, tensor.slot, &tensor);
  const auto [known, is_new] = outside_.try_emplace(key, 0);
  if (is_new) known->second = add_value(kOutside, tensor.slot, &tensor);
  return known->second;
}

void ValueFlow::join(std::uint32_t op, std::uint32_t input, std::uint32_t value) {
  Input& joined = ops_[op].inputs[input];
  std::erase_if(values_[joined.value].readers,
                [&](const Reader& reader) { return reader.op == op && reader.input == input; });
  joined.value = value;
  values_[value].readers.push_back({op, input});
}

// For dumps without data flow. A bad input is matched with the latest earlier bad output with the same shape
// and the same counts; for an op without inputs, with the op that ran before it.
void ValueFlow::infer_edges() {
  std::vector<std::uint32_t> bad;  // outputs, in order
  for (std::uint32_t op = 0; op < ops_.size(); ++op) {
    for (std::uint32_t i = 0; i < ops_[op].inputs.size(); ++i) {
      const CatalogTensor& tensor = *ops_[op].inputs[i].tensor;
      const Health& wanted = health_.of(tensor);
      if (!wanted.bad()) continue;
      const Value& told = values_[ops_[op].inputs[i].value];
      if (told.op != kOutside && told.tensor != nullptr) {
        const Health& made = health_.of(*told.tensor);
        if (made.known && (!wanted.nan || made.nan) && (!wanted.inf() || made.inf())) continue;
      }
      const auto same = [&](std::uint32_t value) {
        const CatalogTensor& made = *values_[value].tensor;
        const bool same_shape = !made.has_shape || !tensor.has_shape || made.shape == tensor.shape;
        const bool same_type =
            made.dtype == DType::undefined || tensor.dtype == DType::undefined || made.dtype == tensor.dtype;
        return same_shape && same_type && alike(health_.of(made), wanted);
      };
      const auto found = std::find_if(bad.rbegin(), bad.rend(), same);
      if (found == bad.rend()) continue;
      join(op, i, *found);
      inferred_ = true;
    }
    for (const std::uint32_t value : ops_[op].outputs) {
      if (values_[value].tensor != nullptr && health_.of(*values_[value].tensor).bad()) bad.push_back(value);
    }
  }
  for (std::uint32_t op = 1; op < ops_.size(); ++op) {
    if (has_edges_ || !ops_[op].inputs.empty() || ops_[op - 1].outputs.empty()) continue;
    Input input;
    input.value = ops_[op - 1].outputs.front();
    input.tensor = values_[input.value].tensor;
    values_[input.value].readers.push_back({op, 0});
    ops_[op].inputs.push_back(input);
  }
}

// Adds edges that msprobe's records lack. Backward reads the inputs and results of the same forward call; a module
// returns the result of its ops; the gradient of a parameter is computed from the inputs of its module's backward.
void ValueFlow::add_unsaid() {
  std::unordered_map<std::string_view, std::uint32_t> by_name;
  std::unordered_map<std::string_view, std::vector<std::uint32_t>>
      inside;  // by module, of those that ran before its end
  for (std::uint32_t op = 0; op < ops_.size(); ++op) {
    if (ops_[op].op->is_module) by_name.emplace(ops_[op].op->op_name, op);
  }
  for (std::uint32_t op = 0; op < ops_.size(); ++op) {
    const std::string_view op_name = ops_[op].op->op_name;
    MsprobeName name;
    if (!parse_msprobe_name(op_name, name)) continue;
    by_name.emplace(op_name, op);
    if (name.is_gradient) {
      const std::string module(op_name.substr(0, op_name.rfind(".parameters_grad")));
      for (std::uint64_t call = 0;; ++call) {
        const auto backward = by_name.find(fmt::format("{}.backward.{}", module, call));
        if (backward == by_name.end()) break;
        add_unsaid(op, backward->second, false);
      }
    } else if (name.is_backward) {
      std::string forward(op_name);
      if (const std::size_t at = forward.rfind(".backward"); at != std::string::npos)
        forward.replace(at, 9, ".forward");
      if (const auto found = by_name.find(forward); found != by_name.end()) add_unsaid(op, found->second, true);
    }
    for (const std::uint32_t part : inside[op_name]) {
      for (const std::uint32_t value : ops_[part].outputs) add_unsaid_value(op, value);
    }
    if (!ops_[op].op->parent.empty()) inside[ops_[op].op->parent].push_back(op);
  }
}

void ValueFlow::add_unsaid(std::uint32_t op, std::uint32_t other, bool outputs_too) {
  const std::vector<Input> read = ops_[other].inputs;
  for (Input input : read) {
    if (input.is_unsaid) continue;
    input.is_unsaid = true;
    values_[input.value].readers.push_back({op, static_cast<std::uint32_t>(ops_[op].inputs.size())});
    ops_[op].inputs.push_back(input);
  }
  if (!outputs_too) return;
  for (const std::uint32_t value : ops_[other].outputs) add_unsaid_value(op, value);
}

void ValueFlow::add_unsaid_value(std::uint32_t op, std::uint32_t value) {
  if (values_[value].tensor == nullptr) return;
  values_[value].readers.push_back({op, static_cast<std::uint32_t>(ops_[op].inputs.size())});
  ops_[op].inputs.push_back({.tensor = values_[value].tensor, .value = value, .is_unsaid = true});
}

// The earlier contents of a value's memory: for an op that writes in place, its input; for a view, its base.
std::optional<std::uint32_t> ValueFlow::older(std::uint32_t index) const {
  const Value& value = values_[index];
  if (value.op == kOutside) return std::nullopt;
  const Op& op = ops_[value.op];
  if (!op.nature.in_place && !op.nature.only_moves) return std::nullopt;
  for (const Input& input : op.inputs) {
    if (input.tensor->is_input && input.tensor->slot == (op.nature.in_place ? value.slot : 0)) return input.value;
  }
  return std::nullopt;
}

// Whether a reader of this memory with this shape reads exactly these elements. If the memory was last written in
// place, that may have been in another part of it.
bool ValueFlow::covers(std::uint32_t index, const CatalogTensor& read) const {
  for (std::size_t depth = 0; depth < kLongestPath; ++depth) {
    const Value& value = values_[index];
    if (value.op == kOutside) return !value.tensor->parameter.empty();
    if (value.tensor == nullptr || !value.tensor->has_shape || value.tensor->shape != read.shape) return false;
    const OpNature& nature = ops_[value.op].nature;
    if (!nature.in_place) return depth == 0 || !nature.only_moves;
    const std::optional<std::uint32_t> before = older(index);
    if (!before) return false;
    index = *before;
  }
  return false;
}

// An input comes from the last writer of its memory. If that was another view of it, the data is from an earlier op.
void ValueFlow::look_behind_views() {
  for (std::uint32_t op = 0; op < ops_.size(); ++op) {
    for (std::uint32_t i = 0; i < ops_[op].inputs.size(); ++i) {
      const Input& input = ops_[op].inputs[i];
      const Health& seen = health_.of(*input.tensor);
      const Value& source = values_[input.value];
      if (!seen.bad() || source.op == kOutside || source.tensor == nullptr) continue;
      const Health& made = health_.of(*source.tensor);
      const bool explained = (!seen.nan || made.nan) && (!seen.inf() || made.inf());
      if (!made.known || explained || covers(input.value, *input.tensor)) continue;
      std::optional<std::uint32_t> before = older(input.value);
      for (std::size_t depth = 0; before && depth < kLongestPath; ++depth) {
        const Value& candidate = values_[*before];
        if (candidate.op == kOutside) break;
        const Health held = candidate.tensor != nullptr ? health_.of(*candidate.tensor) : Health();
        if (held.known && (!seen.nan || held.nan) && (!seen.inf() || held.inf())) break;
        before = older(*before);
      }
      join(op, i, before ? *before : outside_value(*input.tensor));
    }
  }
}

// The check ran, and no operator of an optimizer after it.
void ValueFlow::find_scaler() {
  bool checked = false, stepped = false;
  for (const Op& op : ops_) {
    if (op.is_next) break;
    checked = checked || op.nature.checks_gradients;
    stepped = stepped || (checked && op.phase == Phase::optimizer);
  }
  scaler_skipped_ = checked && !stepped;
}

// --- what is known ---------------------------------------------------------------------------------------------------

Health ValueFlow::health_of(const Input& input) {
  const Health& own = health_.of(*input.tensor);
  return own.known ? own : health_of_value(input.value);
}

Health ValueFlow::health_of_value(std::uint32_t index) {
  Value& value = values_[index];
  if (value.health_known) return value.health;
  value.health_known = true;
  if (value.tensor != nullptr && value.op != kOutside) value.health = health_.of(*value.tensor);
  if (!value.health.known) {
    for (const Reader& reader : value.readers) {
      if (ops_[reader.op].nature.brings) continue;
      value.health.add(health_.of(*ops_[reader.op].inputs[reader.input].tensor));
    }
  }
  // Its op was not kept, since it had no bad tensor.
  if (!value.health.known && options_.only_overflows) value.health.known = true;
  return value.health;
}

const ValueFlow::Op* ValueFlow::maker(const Input& input) const {
  const std::uint32_t op = values_[input.value].op;
  return op == kOutside ? nullptr : &ops_[op];
}

const CatalogTensor* ValueFlow::made(const Input& input) const {
  return values_[input.value].op == kOutside ? nullptr : values_[input.value].tensor;
}

// In `_foreach_…` the k-th result comes from the k-th elements of each list, and from arguments that are not lists.
bool ValueFlow::feeds(const Op& op, const Input& input, std::uint32_t output_slot) const {
  if (!op.nature.is_list || input.tensor == nullptr) return true;
  std::uint32_t size = 0;
  for (const CatalogTensor& tensor : op.op->tensors) size += tensor.is_input ? 0 : 1;
  if (op.nature.checks_gradients && size > 0) --size;  // the last output is the flag whether any was bad
  if (size == 0 || output_slot >= size) return true;
  const std::uint32_t inputs = static_cast<std::uint32_t>(op.inputs.size());
  const std::uint32_t in_lists = inputs / size * size;
  return input.tensor->slot >= in_lists || input.tensor->slot % size == output_slot;
}

Health ValueFlow::inputs_of(const Op& op, std::uint32_t output_slot, bool* all_known) {
  Health all;
  for (const Input& input : op.inputs) {
    if (!input.is_read || !feeds(op, input, output_slot)) continue;
    const Health health = health_of(input);
    all.add(health);
    if (all_known != nullptr && !health.known && may_be_floating(input.tensor) && !is_weight(*input.tensor) &&
        input.tensor->skipped != kUninitialised) {
      *all_known = false;
    }
  }
  return all;
}

// --- origins ---------------------------------------------------------------------------------------------------------

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

// Where an infinity comes from that was meant as a mask, or as nothing at all, and that this op multiplies or
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
    // On the way there.
    for (std::optional<std::uint32_t> index = input.value; index && *index != *from; index = older(*index)) {
      values_[*index].flags[at(BadKind::inf)] |= bit(RootKind::created);
    }
  }
}

// --- ends ------------------------------------------------------------------------------------------------------------

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
  reading.worst = own_end(value, kind);
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

// `x != x` asks for NaN.
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

End ValueFlow::own_end(const Value& value, BadKind kind) {
  static_cast<void>(kind);
  if (value.op == kOutside) return End::absorbed;
  const Op& op = ops_[value.op];
  if (is_loss(value)) return is_scaled_loss(value) ? End::scaler : End::matters;
  if (!op.is_next && is_loss_elsewhere(value)) return scaler_skipped_ ? End::scaler : End::matters;
  const bool named = value.tensor != nullptr && !value.tensor->parameter.empty();
  if (named && op.phase == Phase::optimizer) return End::matters;
  return End::absorbed;
}

// `is_asked`: whether it is finite. If no training continues, the answer ended it.
End ValueFlow::end_unread(const Value& value, BadKind kind, bool is_asked) {
  if (value.op == kOutside || value.tensor == nullptr) return End::absorbed;
  const Op& op = ops_[value.op];
  if (op.phase == Phase::backward) return scaler_skipped_ ? End::scaler : End::matters;
  if (op.phase == Phase::optimizer) return End::matters;
  if (op.nature.checks_gradients) return scaler_skipped_ ? End::scaler : End::matters;
  if (op.nature.uninitialised) return End::absorbed;
  if (is_asked && !trains_ && !is_evaluation_) return End::matters;
  if (is_state(value)) return End::matters;
  if (options_.only_overflows && kind == BadKind::inf && !is_scalar(value.tensor)) return End::absorbed;
  return End::unread;
}

// --- roots -----------------------------------------------------------------------------------------------------------

void ValueFlow::find_roots() {
  for (std::uint32_t index = 0; index < values_.size(); ++index) {
    const Value& value = values_[index];
    for (const BadKind kind : kKinds) {
      if (!has(health_of_value(index), kind)) continue;
      if (value.op == kOutside) {
        const auto reader = std::ranges::find_if(value.readers, [&](const Reader& r) {
          const Input& input = ops_[r.op].inputs[r.input];
          return !ops_[r.op].is_next && input.is_read && has(health_of(input), kind);
        });
        if (reader == value.readers.end()) continue;
        add_root(RootKind::external, index, kind, reader->op, ops_[reader->op].inputs[reader->input].tensor);
      } else if (!ops_[value.op].is_next && value.root[at(kind)]) {
        // Earlier contents of memory belong to no op, until they reach something that matters.
        if (ops_[value.op].nature.uninitialised && value.ends[at(kind)] < End::scaler) continue;
        const bool overwritten = value.root[at(kind)] == RootKind::overwritten;
        add_root(*value.root[at(kind)], index, kind, value.op,
                 overwritten ? value.overwritten[at(kind)] : value.tensor);
      }
    }
  }
  sort_roots();
}

void ValueFlow::add_root(RootKind kind, std::uint32_t value, BadKind bad, std::uint32_t op,
                         const CatalogTensor* tensor) {
  Root root;
  root.kind = kind;
  root.bad = bad;
  root.op = op;
  root.tensor = tensor;
  root.value = value;
  root.end = values_[value].ends[at(bad)];
  inputs_of(ops_[op], values_[value].slot, &root.inputs_known);
  if (root.end == End::absorbed && bad == BadKind::inf && kind == RootKind::created && normalises_to_nothing(value)) {
    root.end = End::matters;
    root.lost = true;
  }
  if (const std::uint32_t empty = kind == RootKind::created ? unwritten(ops_[op]) : kOutside; empty != kOutside) {
    root.op = empty;
    root.tensor = ops_[empty].outputs.empty() ? nullptr : values_[ops_[empty].outputs[0]].tensor;
  }
  const bool meant = bad == BadKind::inf && (kind == RootKind::placed || kind == RootKind::external);
  if (meant && !values_[value].leaked) {
    // It counts as itself only if it arrives unchanged; a converted value has a root of its own.
    const End pure = values_[value].pure[at(bad)];
    if (root.end > End::unread && pure < End::scaler) return;
    root.end = pure < End::scaler ? End::absorbed : pure;
  }
  root.aside = is_aside(root);
  (root.end == End::absorbed ? healthy_ : roots_).push_back(std::move(root));
}

// Nobody reads it but the program: a metric beside a training that goes on, or one that is computed outside of the
// model.
bool ValueFlow::is_aside(const Root& root) const {
  if (root.end != End::unread || inferred()) return false;
  return trains_ || (has_modules_ && ops_[root.op].phase == Phase::outside);
}

// The op that returned the memory, if this op reads such memory before it was written.
std::uint32_t ValueFlow::unwritten(const Op& op) const {
  for (const Input& input : op.inputs) {
    if (!input.is_read || input.tensor->skipped != kUninitialised) continue;
    std::optional<std::uint32_t> index = input.value;
    for (std::size_t depth = 0; index && depth < kLongestPath; ++depth) {
      if (values_[*index].op == kOutside) break;
      if (ops_[values_[*index].op].nature.uninitialised) return values_[*index].op;
      index = older(*index);
    }
  }
  return kOutside;
}

// Whether the op's only output is all zeros. A dump of overflows only has no values of it: finite numbers divided by
// infinities are zeros, and so are results of moving or multiplying zeros.
bool ValueFlow::is_zero_behind(const Op& op, const Input& input, const std::set<std::uint32_t>& zeros) {
  const Value& output = values_[op.outputs[0]];
  const KnownStatistics* known = output.tensor == nullptr ? nullptr : health_.statistics(*output.tensor);
  if (known != nullptr || !options_.only_overflows) return is_all_zero(known);
  const std::string type = bare_type(op.op->op_type);
  if (zeros.contains(input.value)) return op.nature.only_moves || type == "to" || type == "tocopy" || type == "mul";
  const CatalogTensor* read = values_[input.value].tensor;
  const Health health = health_of_value(input.value);
  const bool is_infinite = read != nullptr && health.known &&
                           health.positive_inf_count + health.negative_inf_count > 0 &&
                           health.positive_inf_count + health.negative_inf_count == element_count(read->shape);
  const bool divides = type == "rsqrt" || type == "reciprocal" || (type == "div" && input.tensor->slot == 1);
  return is_infinite && divides;
}

// x / sqrt(mean(x ** 2)) where x ** 2 is too large for its type: an infinity that is divided by, and nothing but zeros
// come out of an x that was none.
bool ValueFlow::normalises_to_nothing(std::uint32_t value) {
  if (options_.only_overflows && !has_edges_) return false;
  std::set<std::uint32_t> sources;
  for (const Input& input : ops_[values_[value].op].inputs) {
    if (input.is_read && !input.tensor->constant) sources.insert(input.value);
  }
  std::vector<std::uint32_t> open = {value};
  std::set<std::uint32_t> seen, zeros;
  while (!open.empty() && seen.size() < kLongestPath) {
    const std::uint32_t index = open.back();
    open.pop_back();
    if (!seen.insert(index).second) continue;
    for (const Reader& reader : values_[index].readers) {
      const Op& op = ops_[reader.op];
      const std::string type = bare_type(op.op->op_type);
      if (op.phase == Phase::backward || op.outputs.size() != 1 || !op.inputs[reader.input].is_read) continue;
      const bool is_zero = is_zero_behind(op, op.inputs[reader.input], zeros);
      if (is_zero) zeros.insert(op.outputs[0]);
      const bool is_quotient = type == "mul" || type == "div";
      const bool has_source = std::ranges::any_of(op.inputs, [&](const Input& input) {
        return sources.contains(input.value) && !is_all_zero(health_.statistics(*input.tensor));
      });
      if (is_quotient && is_zero && has_source && reader.op != values_[value].op) return true;
      const bool goes_on = is_zero ? type == "rsqrt" || type == "reciprocal" || type == "div" || type == "to" ||
                                         type == "tocopy" || op.nature.only_moves
                                   : has(health_of_value(op.outputs[0]), BadKind::inf);
      if (goes_on) open.push_back(op.outputs[0]);
    }
  }
  return false;
}

bool ValueFlow::reaches_next(const Root& root, std::string_view op_name, std::uint32_t slot) {
  std::vector<std::uint32_t> open = {root.value};
  std::set<std::uint32_t> seen;
  while (!open.empty() && seen.size() < 4096) {
    const std::uint32_t index = open.back();
    open.pop_back();
    if (!seen.insert(index).second || !health_of_value(index).bad()) continue;
    for (const Reader& reader : values_[index].readers) {
      const Op& op = ops_[reader.op];
      if (op.is_next && op.op->op_name == op_name && op.inputs[reader.input].tensor->slot == slot) return true;
      if (!op.is_next) open.insert(open.end(), op.outputs.begin(), op.outputs.end());
    }
  }
  return false;
}

void ValueFlow::sort_roots() {
  const auto key = [](const Root& root) {
    const int tier = root.end == End::matters ? 0 : root.end == End::scaler ? 2 : 1;
    return std::tuple(tier, root.op, root.kind, root.bad);
  };
  std::ranges::stable_sort(roots_, [&](const Root& a, const Root& b) { return key(a) < key(b); });
  std::ranges::stable_sort(healthy_, {}, &Root::op);
  for (Root& root : roots_) trace(root);
  for (Root& root : healthy_) trace(root);
}

// The path to the worst end; for an absorbed value, its absorbers.
void ValueFlow::trace(Root& root) {
  root.path.push_back(root.op);
  if (root.op != values_[root.value].op && values_[root.value].op != kOutside && root.kind == RootKind::created) {
    root.path.push_back(values_[root.value].op);
  }
  std::set<std::pair<std::uint32_t, BadKind>> seen;
  std::vector<std::pair<std::uint32_t, BadKind>> open = {{root.value, root.bad}};
  std::set<std::uint32_t> absorbers;
  while (!open.empty() && seen.size() < 4096) {
    const auto [index, kind] = open.back();
    open.pop_back();
    if (!seen.emplace(index, kind).second) continue;
    const Value& value = values_[index];
    std::pair<std::uint32_t, BadKind> worst{~0U, kind};
    End worst_end = End::absorbed;
    for (const Reader& reader : value.readers) {
      const Op& op = ops_[reader.op];
      if (!op.inputs[reader.input].is_read) continue;
      bool goes_on = false;
      for (const std::uint32_t output : op.outputs) {
        for (const BadKind next : kKinds) {
          if (!feeds(op, op.inputs[reader.input], values_[output].slot)) continue;
          if (!passes(value.flags[at(kind)], kind, op, output, next)) continue;
          goes_on = true;
          const End end = values_[output].ends[at(next)];
          if (root.end == End::absorbed) open.emplace_back(output, next);
          if (root.end != End::absorbed && end > worst_end) {
            worst_end = end;
            worst = {output, next};
          }
        }
      }
      const bool only_asks = op.nature.tests_finite && bare_type(op.op->op_type) != "nantonum";
      // A product of it no longer contains a mask.
      const bool is_bad = op.nature.mixes && std::ranges::any_of(op.outputs, [&](std::uint32_t output) {
                            return health_of_value(output).bad();
                          });
      root.drowned = root.drowned || (!goes_on && is_bad);
      if (!goes_on && !only_asks && !is_bad) absorbers.insert(reader.op);
    }
    if (worst.first != ~0U && root.path.size() < kLongestPath) {
      root.path.push_back(values_[worst.first].op);
      open.push_back(worst);
    }
  }
  for (const std::uint32_t op : absorbers) {
    if (root.absorbed_by.size() < kAbsorbersShown) root.absorbed_by.push_back(op);
  }
}

}  // namespace sonde
