#include "ask/first_bad/backward_hint.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "ask/first_bad/flow_facts.h"
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

}  // namespace

std::string backward_hint(const FlowGraph& graph, const FlowOp& op, bool of_zero) {
  const std::string_view forward = derivative_scope(place_of(*op.op)).type;
  const bool divides = work_of(bare_type(op.op->op_type)) == OpWork::divide;
  if (divides && decomposes_matrix(bare_type(forward))) {
    return fmt::format(
        "the derivative of {} divides by the differences of the values that it gives: where two are equal, or one is "
        "0, it is not defined",
        forward);
  }
  // 0 divided by 0: the gradient is what is divided.
  const auto is_incoming = [&](const FlowInput& input) {
    return (!divides || input.tensor->slot == 0) && is_incoming_gradient(graph, op, input);
  };
  if (!of_zero || std::ranges::none_of(op.inputs, is_incoming)) return {};
  return "the gradient that comes in is 0 there: something after the forward operator (where, a mask) leaves this "
         "element out, but its derivative is infinite and 0 times it is NaN; mask the operator's input instead";
}

}  // namespace sonde
