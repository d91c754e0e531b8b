#include "ask/unsharded/step_before.h"

#include <algorithm>
#include <functional>

#include "ask/compare/maker_of_data.h"
#include "ask/unsharded/op_evidence.h"
#include "ground/model/gradient_name.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

constexpr std::size_t kMostInputs = 64;  // inputs on the way to a parameter

// The ops of the step before that made what is read, also if it was copied and gathered since.
std::set<std::uint32_t> written_before(const CompareSide& side, const CompareSide* before, const CompareInput* read) {
  std::set<std::uint32_t> writers;
  std::set<const CompareInput*> seen;
  std::vector<std::pair<const CompareSide*, const CompareInput*>> waiting;
  if (read != nullptr && before != nullptr) waiting.emplace_back(&side, read);
  const auto add_inputs = [&](const CompareSide& of, std::uint32_t op) {
    for (const CompareInput& one : of.ops[op].inputs) waiting.emplace_back(&of, &one);
  };
  while (!waiting.empty() && seen.size() < kMostInputs) {
    const auto [of, input] = waiting.back();
    waiting.pop_back();
    if (!seen.insert(input).second) continue;
    if (of == &side && input->from != kNoOp) {
      if (only_moves(side.ops[input->from])) add_inputs(side, input->from);
      continue;
    }
    const std::uint32_t made = of == before ? input->from : op_with(*before, input->tensor->source);
    if (made == kNoOp) continue;
    if (only_moves(before->ops[made])) {
      add_inputs(*before, made);
    } else {
      writers.insert(made);
    }
  }
  return writers;
}

}  // namespace

// A parameter whose update in the step before had no counterpart (of a flat parameter, of another optimizer): the op of
// the optimizer that wrote it.
std::optional<ShardCause> update_before(const WholeStep& step, std::uint32_t golden, const CompareInput& input,
                                        const Joined& joined) {
  const bool is_forward = step.address(golden).site.place.kind == SiteKind::forward;
  if (!is_forward || !step.learned().updates_unseen) return std::nullopt;
  for (const std::size_t rank : ranks_to_look_at(step, golden, joined)) {
    const RankStep& of = step.ranks()[rank];
    std::set<std::uint32_t> updates = written_before(*of.side, of.before.get(), step.input_at(rank, golden, input));
    std::erase_if(updates, [&](std::uint32_t op) { return phase_of(*of.before->ops[op].op) != Phase::optimizer; });
    if (updates.empty()) continue;
    ShardCause cause{.kind = FindingKind::inserted,
                     .golden = golden,
                     .rank = rank,
                     .op = *updates.begin(),
                     .in_step_before = true,
                     .uncertain = true,
                     .golden_tensor = input.tensor,
                     .joined = joined,
                     .what = kUpdateUnseen};
    for (const std::uint32_t update : updates) {
      if (joined.difference.different_non_finite == 0) break;
      const std::optional<std::uint32_t> spoiled =
          first_not_finite(*of.rank, *of.before, with_makers(*of.before, update));
      if (!spoiled) continue;
      cause.op = *spoiled;
      cause.uncertain = false;
      cause.what.clear();
      break;
    }
    return cause;
  }
  return std::nullopt;
}

std::set<std::uint64_t> read_by_step_behind(const CompareSide& side) {
  std::set<std::uint64_t> makers;
  const std::vector<CatalogStep>& steps = side.rank->steps;
  const auto next =
      std::ranges::find_if(steps, [&](const CatalogStep& step) { return &step > side.step && !step.ops.empty(); });
  if (next == steps.end()) return makers;
  for (const CatalogOp& op : next->ops) {
    for (const CatalogTensor& tensor : op.tensors) {
      if (tensor.is_input && tensor.source != kNoSequence) makers.insert(tensor.source);
    }
  }
  return makers;
}

bool is_step_before_unseen(const WholeStep& step) {
  return step.ranks().front().before == nullptr && step.golden().step->id.number > 0;
}

std::set<std::string> parameters_of_noise(const WholeStep& step) {
  std::set<std::string> found;
  for (std::uint32_t g = 0; g < step.golden().ops.size(); ++g) {
    const CallSite& site = step.address(g).site;
    if (site.place.kind != SiteKind::optimizer || site.parameter.empty()) continue;
    for (const CompareInput& input : step.golden().ops[g].inputs) {
      if (is_gradient_name(input.name) && step.noise().is_in(input)) found.insert(site.parameter);
    }
  }
  return found;
}

bool was_left_so(const RankStep& rank, const CompareInput& read) {
  if (read.from != kNoOp || rank.before == nullptr) return false;
  const std::uint32_t writer = op_with(*rank.before, read.tensor->source);
  const CatalogTensor* written = writer == kNoOp ? nullptr : rank.before->output(writer, read.tensor->source_slot);
  if (written == nullptr || !written->recorded()) return false;
  const TensorDifference since = difference_of({rank.rank, written}, {rank.rank, read.tensor}, {}, in_order);
  return since.comparable() && since.different_non_finite == 0 && since.rms_error == 0 && since.max_error == 0;
}

// A parameter was written last by the optimizer in the golden run, and by an op of the program's own here.
std::optional<ShardCause> writer_before(const WholeStep& step, std::uint32_t golden, const CompareInput& input,
                                        const Joined& joined) {
  const CompareSide* before = step.golden_step().before();
  const std::set<std::uint32_t> known = written_before(step.golden(), before, &input);
  const auto is_update = [](const CompareSide& side, std::uint32_t op) {
    return phase_of(*side.ops[op].op) == Phase::optimizer;
  };
  if (known.empty() || !std::ranges::all_of(known, std::bind_front(is_update, std::cref(*before)))) {
    return std::nullopt;
  }
  for (const std::size_t rank : ranks_to_look_at(step, golden, joined)) {
    const RankStep& of = step.ranks()[rank];
    for (const std::uint32_t op : written_before(*of.side, of.before.get(), step.input_at(rank, golden, input))) {
      if (is_update(*of.before, op) || only_moves(of.before->ops[op])) continue;
      // Where the program updates its parameters itself, the op is one of several.
      const bool is_unseen = std::ranges::none_of(
          of.before->ops, [](const CompareOp& one) { return phase_of(*one.op) == Phase::optimizer; });
      return ShardCause{.kind = FindingKind::inserted,
                        .golden = golden,
                        .rank = rank,
                        .op = op,
                        .in_step_before = true,
                        .uncertain = is_unseen,
                        .golden_tensor = input.tensor,
                        .joined = joined,
                        .what = is_unseen ? kUpdateUnseen : ""};
    }
  }
  return std::nullopt;
}

// The golden op reads what the step before has left; here an op of the program writes it in between.
std::optional<ShardCause> writer_between(const WholeStep& step, std::uint32_t golden, const CompareInput& input,
                                         const Joined& joined) {
  if (input.from != kNoOp) return std::nullopt;
  for (const std::size_t rank : ranks_to_look_at(step, golden, joined)) {
    const RankStep& of = step.ranks()[rank];
    const CompareInput* read = step.input_at(rank, golden, input);
    std::vector<std::uint32_t> writers;
    for (std::size_t i = 0; read != nullptr && read->from != kNoOp && i < kMostInputs; ++i) {
      const CompareOp& op = of.side->ops[read->from];
      const bool moves = only_moves(op);
      if (nature_of(*op.op).collective || phase_of(*op.op) == Phase::optimizer || (!moves && !op.in_place)) break;
      if (!moves) writers.push_back(read->from);
      read = op.inputs.empty() ? nullptr : &op.inputs.front();
    }
    if (writers.empty()) continue;
    ShardCause cause{.kind = FindingKind::inserted, .golden = golden, .rank = rank, .op = writers.back()};
    cause.golden_tensor = input.tensor;
    cause.joined = joined;
    cause.uncertain = writers.size() > 1;
    if (cause.uncertain) cause.what = "or another op that writes it afterwards";
    return cause;
  }
  return std::nullopt;
}

}  // namespace sonde
