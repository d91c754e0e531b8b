#include "ask/unsharded/left_out_ops.h"

#include <algorithm>
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

bool gives_number(const CompareOp& op) {
  return op.outputs.size() == 1 && op.outputs.front()->has_shape && op.outputs.front()->shape.empty();
}

// It multiplies a number of the forward pass, outside of modules, as a loss is divided by the number of micro-batches.
bool scales_number(const WholeStep& step, std::uint32_t golden) {
  const CompareOp& op = step.golden().ops[golden];
  const CallSite& site = step.address(golden).site;
  const bool is_outside = site.place.kind == SiteKind::forward && site.module.empty();
  return is_outside && gives_number(op) && number_multiplied_by(op).has_value();
}

// No rank has a number there. A gradient that the program divides itself may have come to be at that place.
bool is_on_no_rank(const WholeStep& step, std::uint32_t golden) {
  const CallSite& site = step.address(golden).site;
  return std::ranges::none_of(step.ranks(), [&](const RankStep& rank) {
    const std::vector<SiteCall>* calls = rank.calls.at(site);
    return calls != nullptr &&
           std::ranges::any_of(*calls, [&](const SiteCall& call) { return gives_number(rank.side->ops[call.last()]); });
  });
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

std::optional<ShardCause> scale_of_loss_left_out(const WholeStep& step, const ShardCause& cause) {
  if (cause.in_step_before) return std::nullopt;
  for (std::uint32_t g = 0; g < cause.golden; ++g) {
    if (step.label(g).state != WholeStep::State::unknown || !scales_number(step, g) || !is_on_no_rank(step, g))
      continue;
    const bool is_of_backward = std::ranges::any_of(step.golden().ops, [&](const CompareOp& op) {
      return differentiated_by(op).type == step.golden().ops[g].op->op_type;
    });
    if (!is_of_backward) continue;  // a number that is printed
    ShardCause found = cause;
    found.kind = FindingKind::missing;
    found.left_out = g;
    return found;
  }
  return std::nullopt;
}

}  // namespace sonde
