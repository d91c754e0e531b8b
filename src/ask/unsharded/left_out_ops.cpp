#include "ask/unsharded/left_out_ops.h"

#include <set>
#include <vector>

#include "ask/unsharded/op_evidence.h"

namespace sonde {
namespace {

constexpr std::size_t kMostLeftOut = 64;  // golden ops without a counterpart, one after the other

// The golden op that reads what the counterpart reads at `input`, behind ops without a counterpart; kNoOp: none.
std::uint32_t op_skipped(const WholeStep& step, std::uint32_t golden, const CompareInput& input) {
  std::set<std::uint32_t> seen;
  std::vector<std::uint32_t> waiting = {input.from};
  while (!waiting.empty() && seen.size() < kMostLeftOut) {
    const std::uint32_t at = waiting.back();
    waiting.pop_back();
    if (at == kNoOp || step.label(at).state != WholeStep::State::unknown || !seen.insert(at).second) continue;
    for (const CompareInput& read : step.golden().ops[at].inputs) {
      if (!read.is_read || !read.tensor->recorded() || read.tensor->constant) continue;
      if (read.tensor->parameter.is_parameter()) continue;
      const bool is_moved = only_moves(step.golden().ops[at]);  // how the golden ranks move it is their own matter
      if (!is_moved && step.joiner().join_instead(golden, input, *step.label(golden).where, *read.tensor).fits)
        return at;
      waiting.push_back(read.from);
    }
  }
  return kNoOp;
}

}  // namespace

std::optional<ShardCause> left_out_before(const WholeStep& step, std::uint32_t golden, const CompareInput& input,
                                          const Joined& joined) {
  // A stage adds up the norms of its own parameters, and reads what the golden run has added up so far.
  if (input.tensor->has_shape && input.tensor->shape.empty()) return std::nullopt;
  const std::uint32_t skipped = op_skipped(step, golden, input);
  if (skipped == kNoOp) return std::nullopt;
  for (const std::size_t rank : ranks_to_look_at(step, golden, joined)) {
    const CompareInput* read = step.input_at(rank, golden, input);
    const std::optional<WholeStep::Shown> target = step.shown(*step.label(golden).where);
    if (read == nullptr || !target) continue;
    ShardCause cause{.kind = FindingKind::missing, .golden = golden, .rank = rank, .op = target->op};
    cause.left_out = skipped;
    cause.golden_tensor = input.tensor;
    cause.tensor = read->tensor;
    cause.joined = joined;
    return cause;
  }
  return std::nullopt;
}

}  // namespace sonde
