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

// Results that are right, from which the rank computes the input by ops that have no counterpart.
std::set<const CatalogTensor*> right_before(const WholeStep& step, std::size_t rank, const CompareInput& read) {
  const CompareSide& side = *step.ranks()[rank].side;
  std::set<const CatalogTensor*> right;
  std::set<std::uint32_t> seen;
  std::vector<const CompareInput*> waiting = {&read};
  while (!waiting.empty() && seen.size() < kMostLeftOut) {
    const CompareInput& at = *waiting.back();
    waiting.pop_back();
    if (at.from == kNoOp) continue;
    const CatalogTensor* made = side.output(at.from, at.from_slot);
    if (step.is_right(made)) {
      right.insert(made);
    } else if (seen.insert(at.from).second) {
      for (const CompareInput& before : side.ops[at.from].inputs) waiting.push_back(&before);
    }
  }
  return right;
}

// The rank's part of a golden result that was found; null: it has none.
const CatalogTensor* part_of_rank(const WholeStep& step, std::size_t rank, const CompareInput& golden) {
  const std::optional<Counterpart>& where = step.label(golden.from).where;
  const CatalogTensor* made = step.golden().output(golden.from, golden.from_slot);
  const std::vector<SiteCall>* calls = where ? step.ranks()[rank].calls.at(where->site) : nullptr;
  if (made == nullptr || calls == nullptr || where->first >= calls->size()) return nullptr;
  return tensor_at(step.ranks()[rank], (*calls)[where->first], {false, made->slot});
}

bool may_be_left_out(const WholeStep& step, std::uint32_t golden) {
  const bool is_known = step.label(golden).state != WholeStep::State::unknown;
  return !is_known && !only_moves(step.golden().ops[golden]);
}

// The golden op without a counterpart that brings in a result which the rank computes nothing from here; kNoOp: none.
std::uint32_t op_that_brings_more(const WholeStep& step, std::size_t rank, const CompareInput& input,
                                  const std::set<const CatalogTensor*>& read_by_rank) {
  std::set<std::uint32_t> seen;
  std::vector<std::uint32_t> waiting = {input.from};
  while (!waiting.empty() && seen.size() < kMostLeftOut) {
    const std::uint32_t at = waiting.back();
    waiting.pop_back();
    if (at == kNoOp || step.label(at).state == WholeStep::State::differs || !seen.insert(at).second) continue;
    bool any_shared = false, any_more = false;
    for (const CompareInput& before : step.golden().ops[at].inputs) {
      if (!reads_value(before) || before.from == kNoOp) continue;
      if (step.label(before.from).state != WholeStep::State::found) {
        waiting.push_back(before.from);
        continue;
      }
      const CatalogTensor* part = part_of_rank(step, rank, before);
      any_shared = any_shared || (part != nullptr && read_by_rank.contains(part));
      any_more = any_more || (part != nullptr && !read_by_rank.contains(part));
    }
    if (any_shared && any_more && may_be_left_out(step, at)) return at;
  }
  return kNoOp;
}

}  // namespace

std::optional<ShardCause> left_out_beside(const WholeStep& step, const ShardCause& cause) {
  if (cause.kind != FindingKind::inserted || cause.in_step_before || !cause.golden_tensor->is_input)
    return std::nullopt;
  const std::vector<CompareInput>& inputs = step.golden().ops[cause.golden].inputs;
  const auto input = std::ranges::find(inputs, cause.golden_tensor, &CompareInput::tensor);
  const std::optional<WholeStep::Shown> shown = step.shown(*step.label(cause.golden).where);
  if (input == inputs.end() || !shown) return std::nullopt;
  const CompareInput* read = step.input_at(cause.rank, cause.golden, *input);
  if (read == nullptr) return std::nullopt;
  const std::uint32_t left_out = op_that_brings_more(step, cause.rank, *input, right_before(step, cause.rank, *read));
  if (left_out == kNoOp) return std::nullopt;
  ShardCause found = cause;
  found.kind = FindingKind::missing;
  found.rank = shown->rank;
  found.op = shown->op;
  found.left_out = left_out;
  found.tensor = read->tensor;
  found.uncertain = true;
  return found;
}

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
    const SiteCalls::Address& address = step.address(g);
    if (step.learned().done_elsewhere.contains({address.site, address.number})) continue;
    ShardCause found = cause;
    found.kind = FindingKind::missing;
    found.left_out = g;
    return found;
  }
  return std::nullopt;
}

}  // namespace sonde
