#include "ask/unsharded/left_out_ops.h"

#include <set>
#include <utility>
#include <vector>

#include "ask/unsharded/op_evidence.h"

namespace sonde {
namespace {

constexpr std::size_t kMostLeftOut = 64;  // golden ops without a counterpart, one after the other

// A golden op with a counterpart, and its input that differs there.
struct InputThatDiffers {
  std::uint32_t golden = kNoOp;
  const CompareInput* input = nullptr;
};

// The golden op that reads what the counterpart reads at `input`, behind ops without a counterpart; kNoOp: none.
std::uint32_t op_skipped(const WholeStep& step, std::uint32_t golden, const CompareInput& input) {
  std::set<std::uint32_t> seen;
  std::vector<std::pair<InputThatDiffers, std::uint32_t>> waiting = {{{golden, &input}, input.from}};
  while (!waiting.empty() && seen.size() < kMostLeftOut) {
    const auto [beside, at] = waiting.back();
    waiting.pop_back();
    if (at == kNoOp || step.label(at).state != WholeStep::State::unknown || !seen.insert(at).second) continue;
    const bool is_moved = only_moves(step.golden().ops[at]);  // how the golden ranks move it is their own matter
    const bool is_of_several = step.label(at).where && puts_together(step.golden().ops[at]);
    for (const CompareInput& read : step.golden().ops[at].inputs) {
      if (!reads_value(read)) continue;
      const Counterpart& where = *step.label(beside.golden).where;
      if (!is_moved && step.joiner().join_instead(beside.golden, *beside.input, where, *read.tensor).fits) return at;
      if (!is_of_several) waiting.push_back({beside, read.from});
      if (!is_of_several || step.joiner().join_input(at, read, *step.label(at).where).fits) continue;
      waiting.push_back({{at, &read}, read.from});
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
