#include "ask/first_bad/backward_hint.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "ask/first_bad/flow_facts.h"
#include "read/catalog/slot_text.h"
#include "read/operators/op_nature.h"
#include "read/operators/op_questions.h"
#include "read/operators/op_work.h"

namespace sonde {
namespace {

constexpr std::size_t kMakersFollowed = 16;

// The gradient that the backward of a later operator made, or a view of it. Not what this backward computed itself.
bool is_incoming_gradient(const FlowGraph& graph, const FlowOp& op, const FlowInput& input) {
  if (!input.is_read || input.is_unsaid || input.tensor->constant) return false;
  const FlowInput* from = &input;
  for (std::size_t i = 0; i < kMakersFollowed; ++i) {
    const FlowOp* maker = graph.maker(*from);
    if (maker == nullptr) return from->tensor->parameter.empty();
    if (place_of(*maker->op) != place_of(*op.op)) return maker->phase == Phase::backward;
    if (!maker->nature.only_moves || maker->inputs.empty()) return false;
    from = &maker->inputs[0];
  }
  return false;
}

// The program's own op in the backward pass, as in a hook of a tensor: no op of the forward pass has its line.
bool is_of_hook(const FlowGraph& graph, const FlowOp& op) {
  if (op.op->line == 0) return false;
  return std::ranges::none_of(graph.ops(), [&](const FlowOp& other) {
    return other.phase != Phase::backward && other.op->line == op.op->line &&
           other.op->source_file == op.op->source_file;
  });
}

}  // namespace

std::string unseen_makers_text(const FlowGraph& graph, const FlowOp& op) {
  std::string text;
  for (const FlowInput& input : op.inputs) {
    if (!input.is_read || graph.health_of(input).known || !may_be_floating(input.tensor)) continue;
    const FlowOp* maker = graph.maker(input);
    for (std::size_t i = 0; i < kMakersFollowed && maker != nullptr && maker->nature.only_moves; ++i) {
      maker = maker->inputs.empty() ? nullptr : graph.maker(maker->inputs[0]);
    }
    if (maker == nullptr) continue;
    const std::string_view name = maker->op->op_name;
    text += fmt::format("{} {}{}", text.empty() ? ", as from" : ",", name.substr(name.rfind('/') + 1),
                        line_text(*maker->op));
  }
  return text;
}

std::string backward_hint(const FlowGraph& graph, const FlowOp& op, bool of_zero) {
  const std::string_view forward = derivative_scope(place_of(*op.op)).type;
  const bool divides = work_of(bare_type(op.op->op_type)) == OpWork::divide;
  if (divides && decomposes_matrix(bare_type(forward))) {
    return fmt::format(
        "the derivative of {} divides by the differences of the values that it gives: where two are equal, or one is "
        "0, it is not defined",
        forward);
  }
  if (is_of_hook(graph, op)) return {};
  // 0 divided by 0: the gradient is what is divided.
  const auto is_incoming = [&](const FlowInput& input) {
    return (!divides || input.tensor->slot == 0) && is_incoming_gradient(graph, op, input);
  };
  if (!of_zero || std::ranges::none_of(op.inputs, is_incoming)) return {};
  return "the gradient that comes in is 0 there: something after the forward operator (where, a mask) leaves this "
         "element out, but its derivative is infinite and 0 times it is NaN; mask the operator's input instead";
}

}  // namespace sonde
