#include "ask/unsharded/senders.h"

#include <algorithm>
#include <string>

#include "ask/unsharded/op_evidence.h"
#include "read/operators/collective_call.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

constexpr int kMostMoves = 8;  // of a received tensor: views, copies

bool receives(const CompareOp& op) { return collective_way(bare_type(op.op->op_type)) == CollectiveWay::receive; }

const CollectiveCall* call_of_op(const std::vector<CollectiveCall>& calls, const CatalogOp* op) {
  const auto found = std::ranges::find(calls, op, &CollectiveCall::op);
  return found == calls.end() ? nullptr : &*found;
}

bool holds_the_same(const TensorOf& sent, const TensorOf& received) {
  const TensorDifference difference = difference_of(sent, received, {}, in_order);
  return difference.comparable() && difference.different_non_finite == 0 && difference.rms_error == 0 &&
         difference.max_error == 0;
}

}  // namespace

std::uint32_t receive_behind(const CompareSide& side, const CompareInput& read) {
  const CompareInput* at = &read;
  for (int i = 0; i < kMostMoves && at->from != kNoOp; ++i) {
    const CompareOp& maker = side.ops[at->from];
    if (receives(maker)) return at->from;
    const bool waits = bare_type(maker.op->op_type) == "waittensor";
    if (maker.inputs.empty() || (!waits && !only_moves(maker))) break;
    at = &maker.inputs.front();
  }
  return kNoOp;
}

std::optional<SentPart> sent_part(const WholeStep& step, std::size_t rank, const CompareSide& side,
                                  std::uint32_t receive) {
  const std::vector<CollectiveCall> calls = collective_calls(*side.step);
  const CollectiveCall* call = call_of_op(calls, side.ops[receive].op);
  const RankStep& receiver = step.ranks()[rank];
  if (call == nullptr || side.ops[receive].outputs.empty()) return std::nullopt;
  const CatalogTensor& received = *side.ops[receive].outputs.front();
  const std::string meeting = meeting_of(*call, receiver.rank->rank);
  for (std::size_t other = 0; other < step.ranks().size(); ++other) {
    const RankStep& of = step.ranks()[other];
    if (other == rank) continue;
    for (const CollectiveCall& sent : collective_calls(*of.side->step)) {
      if (sent.way != CollectiveWay::send || meeting_of(sent, of.rank->rank) != meeting) continue;
      const auto op = std::ranges::find(of.side->ops, sent.op, &CompareOp::op);
      if (op == of.side->ops.end() || op->inputs.empty()) continue;
      const CompareInput& input = op->inputs.front();
      if (!input.tensor->recorded() || !received.recorded()) continue;
      if (!holds_the_same({of.rank, input.tensor}, {receiver.rank, &received})) continue;
      return SentPart{other, static_cast<std::uint32_t>(op - of.side->ops.begin()), &input};
    }
  }
  return std::nullopt;
}

}  // namespace sonde
