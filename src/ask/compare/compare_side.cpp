#include "ask/compare/compare_side.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "ground/model/not_read.h"
#include "read/catalog/data_flow.h"
#include "read/operators/op_attributes.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

std::string_view scope_of(std::string_view op_name) {
  const std::size_t slash = op_name.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : op_name.substr(0, slash);
}

CompareOp op_of(const CatalogOp& op, OpFamilies& families) {
  CompareOp out;
  out.op = &op;
  out.family = &families.of(op.op_type);
  out.kind = kind_of(op.op_type);
  out.scope = scope_of(op.op_name);
  const OpNature nature = nature_of(op);
  out.in_place = nature.in_place;
  out.unwritten = nature.uninitialised;
  for (const CatalogTensor& tensor : op.tensors) {
    if (tensor.is_input) {
      const bool is_left_out = (nature.overwrites || nature.ignores_first) && tensor.slot == 0;
      const bool is_destination = tensor.skipped.reason == NotRead::only_written || tensor.slot < nature.first_input ||
                                  (tensor.slot >= nature.most_inputs && !tensor.constant);
      out.inputs.push_back({.tensor = &tensor,
                            .is_read = !is_left_out && !is_destination && !nature.shape_only,
                            .name = tensor.parameter});
    } else {
      out.outputs.push_back(&tensor);
    }
  }
  return out;
}

// Handles memory that was never written: a view of it is also unwritten, and the last of several inputs that is like
// the output is its destination (`out=`). Otherwise it was written outside the dump: it comes from outside.
void look_at_unwritten(CompareSide& side, CompareOp& op, CompareInput& input) {
  if (input.from == kNoOp || !side.ops[input.from].unwritten || !input.is_read) return;
  if (is_view(*op.op)) {
    op.unwritten = true;
    input.is_read = false;
    return;
  }
  const bool is_last = op.inputs.size() > 1 && &input == &op.inputs.back();
  if (is_last && !op.outputs.empty() && op.outputs[0]->shape == input.tensor->shape) {
    input.is_read = false;
  } else {
    input.from = kNoOp;
  }
}

// The input whose memory the op is given for its result (`out=`): both come from one earlier op. Null: there is none.
const CompareInput* state_given_for_result(const CompareOp& op) {
  if (op.outputs.size() != 1) return nullptr;
  const auto is_destination = [](const CompareInput& in) { return in.tensor->skipped.reason == NotRead::only_written; };
  const auto to = std::ranges::find_if(op.inputs, is_destination);
  if (to == op.inputs.end() || to->tensor->source == kNoSequence) return nullptr;
  const auto is_same = [&](const CompareInput& in) {
    return in.is_read && in.tensor->source == to->tensor->source && in.tensor->source_slot == to->tensor->source_slot &&
           in.tensor->has_shape && in.tensor->shape == op.outputs[0]->shape;
  };
  const auto found = std::ranges::find_if(op.inputs, is_same);
  return found == op.inputs.end() ? nullptr : &*found;
}

void name_states(CompareSide& side, std::uint32_t index) {
  CompareOp& op = side.ops[index];
  op.states.resize(op.outputs.size());
  const std::uint32_t state = nature_of(op.op->op_type).first_state;
  for (const CompareInput& input : op.inputs) {
    const std::uint32_t slot = input.tensor->slot;
    if (state != ~0U && (slot == state || slot == state + 1)) side.may_be_written.insert(input.tensor->parameter);
  }
  if (const CompareInput* given = state_given_for_result(op); given != nullptr && !given->name.empty()) {
    op.states[0] = given->name;
    side.written[given->name] = {index, op.outputs[0]};
  }
  if (!op.in_place) return;
  for (std::size_t i = 0; i < std::min(op.outputs.size(), op.inputs.size()); ++i) {
    const CompareInput& input = op.inputs[i];
    if (!input.tensor->has_shape || input.tensor->shape != op.outputs[i]->shape) continue;
    std::string_view name = input.tensor->parameter;
    if (name.empty() && input.from != kNoOp) {
      const CompareOp& from = side.ops[input.from];
      for (std::size_t k = 0; k < from.outputs.size() && name.empty(); ++k) {
        if (from.outputs[k]->slot == input.from_slot) name = from.states[k];
      }
    }
    op.states[i] = name;
    if (!name.empty()) side.written[name] = {index, op.outputs[i]};
  }
}

// `copy.deepcopy` takes a new storage for a copy, and the next op writes all of it: until then its bytes are any.
void look_at_fresh_memory(CompareSide& side) {
  for (std::uint32_t i = 0; i < side.ops.size(); ++i) {
    if (side.ops[i].readers.empty() || bare_type(side.ops[i].op->op_type) != "set") continue;
    const std::vector<CompareInput>& next = side.ops[side.ops[i].readers.front()].inputs;
    const auto reads_it = [i](const CompareInput& input) { return input.from == i && input.is_read; };
    if (std::ranges::none_of(next, reads_it)) side.ops[i].unwritten = true;
  }
}

void connect(CompareSide& side) {
  const DataFlow flow(*side.rank, *side.step);  // numbers operators as `ops` has them
  for (std::uint32_t i = 0; i < side.ops.size(); ++i) {
    for (CompareInput& input : side.ops[i].inputs) {
      const std::optional<DataFlow::Maker> maker = flow.maker(*input.tensor);
      if (!maker || maker->number == i) continue;
      input.from = maker->number;
      input.from_slot = maker->slot;
      side.has_flow = true;
      look_at_unwritten(side, side.ops[i], input);
      if (input.from == kNoOp) continue;
      std::vector<std::uint32_t>& readers = side.ops[maker->number].readers;
      if (readers.empty() || readers.back() != i) readers.push_back(i);
    }
    name_states(side, i);
  }
  look_at_fresh_memory(side);
  if (side.has_flow) return;
  // Only the order is known: each op may have read the outputs of the one before it.
  for (std::uint32_t i = 0; i + 1 < side.ops.size(); ++i) side.ops[i].readers.push_back(i + 1);
}

}  // namespace

bool is_view(const CatalogOp& op) {
  static const std::unordered_set<std::string_view> kViews = {
      "view",   "viewas",    "asstrided", "select", "slice",     "narrow",  "expand", "expandas",
      "detach", "unsqueeze", "squeeze",   "t",      "transpose", "permute", "alias",  "reshapealias"};
  return kViews.contains(bare_type(op.op_type));
}

const CatalogTensor* CompareSide::output(std::uint32_t op, std::uint32_t slot) const {
  for (const CatalogTensor* tensor : ops[op].outputs) {
    if (tensor->slot == slot) return tensor;
  }
  return nullptr;
}

bool is_training(const CompareSide& side) {
  return std::ranges::any_of(side.ops, [](const CompareOp& op) {
    return phase_of(*op.op) == Phase::backward || phase_of(*op.op) == Phase::optimizer;
  });
}

bool chooses(const CompareOp& op) {
  const auto is_fraction = [](const CatalogTensor& tensor) {
    return is_floating(tensor.dtype) || is_complex(tensor.dtype);
  };
  const auto is_integer = [&](const CatalogTensor* output) {
    return !is_fraction(*output) && output->dtype != DType::bool8;
  };
  const bool is_outside = op.scope.find('/') == std::string_view::npos;
  if (!is_outside || op.outputs.empty() || moves_or_casts(op.kind)) return false;
  return std::ranges::all_of(op.outputs, is_integer) && std::ranges::any_of(op.inputs, [&](const CompareInput& input) {
           return input.is_read && is_fraction(*input.tensor);
         });
}

std::string_view without_gradients(std::string_view scope) {
  constexpr std::string_view kGradients = "Gradients/";
  return scope.starts_with(kGradients) ? scope.substr(kGradients.size()) : scope;
}

ForwardOrigin differentiated_by(const CompareOp& op) {
  const DerivativeScope own = derivative_scope(op.scope);
  if (phase_of(*op.op) != Phase::backward || own.type.empty()) return {};
  return {without_gradients(own.scope), own.type};
}

std::optional<double> number_read(const CompareOp& op) {
  const auto found =
      std::ranges::find_if(op.inputs, [](const auto& input) { return input.tensor->constant.has_value(); });
  return found == op.inputs.end() ? number_in(*op.op, kOtherNumber) : found->tensor->constant;
}

std::optional<double> number_multiplied_by(const CompareOp& op) {
  const std::string type = bare_type(op.op->op_type);
  const std::optional<double> number = number_read(op);
  if ((type != "mul" && type != "div") || !number || *number == 0) return std::nullopt;
  return type == "mul" ? *number : 1 / *number;
}

CompareSide side_of(const CatalogRank& rank, const CatalogStep& step, OpFamilies& families) {
  CompareSide side;
  side.rank = &rank;
  side.step = &step;
  for (const CatalogOp& op : step.ops) {
    if (op.is_parameter) {
      side.parameters.push_back(&op);
    } else {
      side.ops.push_back(op_of(op, families));
    }
  }
  connect(side);
  return side;
}

}  // namespace sonde
