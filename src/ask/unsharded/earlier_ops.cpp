#include "ask/unsharded/earlier_ops.h"

#include <tuple>

#include "ask/unsharded/innocent_ops.h"
#include "ask/unsharded/op_evidence.h"
#include "ask/unsharded/senders.h"
#include "ask/unsharded/step_before.h"
#include "plan/config/op_types.h"
#include "read/measure/health.h"
#include "read/operators/collective_call.h"
#include "read/operators/op_nature.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

constexpr double kMostHidden = 0.5;  // relative error of gradients that the tolerances of half types may hide together
constexpr int kStepsToCollective = 4;  // a wait, a view, a copy

}  // namespace

// A collective that only moves what the ranks give: the op of any of them before it. It is not sure, unless all give what
// is right.
std::optional<ShardCause> EarlierOps::brought_by_others(const ShardCause& cause) const {
  const RankStep& named = step_.ranks()[cause.rank];
  if (!moves_between_ranks(named.side->ops[cause.op].op->op_type)) return std::nullopt;
  const SiteCalls::Address& address = named.calls.address(cause.op);
  std::optional<ShardCause> best;
  int weight = 0;
  bool are_right = true;
  std::set<std::pair<std::size_t, std::uint32_t>> alone;  // ranks with ops that compute and are not in the golden run
  for (std::size_t rank = 0; rank < step_.ranks().size(); ++rank) {
    const RankStep& of = step_.ranks()[rank];
    const std::vector<SiteCall>* calls = of.stage == named.stage ? of.calls.at(address.site) : nullptr;
    if (calls == nullptr || address.number >= calls->size()) continue;
    for (const CompareInput& given : of.side->ops[(*calls)[address.number].last()].inputs) {
      if (!given.is_read) continue;
      const bool is_made = given.from != kNoOp;
      are_right = are_right && is_made && step_.is_right(of.side->output(given.from, given.from_slot));
      const Origins origins = origins_.of(rank, given, cause, false);
      choose(origins, cause, weight, best);
      for (const std::uint32_t op : origins.seen) {
        const bool computes = !only_moves(of.side->ops[op]) && !is_collective(of.side->ops[op].op->op_type);
        if (computes && origins_.is_more_than_golden(rank, op)) alone.emplace(rank, op);
      }
    }
  }
  if (best) return best;
  ShardCause doubted = cause;
  doubted.uncertain = cause.uncertain || !are_right;
  if (doubted.uncertain && alone.size() == 1) std::tie(doubted.rank, doubted.op) = *alone.begin();
  if (doubted.uncertain) doubted.what = "an op before it, on any rank, may be to blame";
  return doubted;
}

// The op of the rank that sent what this one received.
std::optional<ShardCause> EarlierOps::sent_by(std::size_t rank, const CompareSide& side, std::uint32_t receive,
                                              const ShardCause& cause) const {
  const std::optional<SentPart> part = sent_part(step_, rank, side, receive);
  if (!part) return std::nullopt;
  const Origins origins = origins_.of(part->rank, *part->input, cause, false);
  const RankStep& sender = step_.ranks()[part->rank];
  if (cause.joined.difference.different_non_finite > 0) {
    const std::optional<std::uint32_t> op = first_not_finite(*sender.rank, *sender.side, origins.seen);
    if (!op) return std::nullopt;
    ShardCause found = cause;
    found.kind = FindingKind::inserted;
    found.rank = part->rank;
    found.op = *op;
    return found;
  }
  ShardCause inserted = cause;
  inserted.kind = FindingKind::inserted;
  std::optional<ShardCause> best;
  int weight = 0;
  choose(origins, inserted, weight, best);
  return best;
}

std::optional<ShardCause> EarlierOps::before_received(std::size_t rank, const CompareInput& read,
                                                      const ShardCause& cause) const {
  const CompareSide& side = *step_.ranks()[rank].side;
  const std::uint32_t receive = receive_behind(side, read);
  return receive == kNoOp ? std::nullopt : sent_by(rank, side, receive, cause);
}

// The op of the step before that made the input, if a collective is among the last ones.
std::optional<ShardCause> EarlierOps::in_step_before(std::size_t rank, const CompareInput& input,
                                                     const ShardCause& cause) const {
  const CompareSide* side = step_.ranks()[rank].before.get();
  const std::uint32_t op = side == nullptr ? kNoOp : op_with(*side, input.tensor->source);
  if (op == kNoOp) return std::nullopt;
  std::uint32_t at = op;
  for (int i = 0; i < kStepsToCollective; ++i) {
    if (is_collective(side->ops[at].op->op_type)) {
      ShardCause found = cause;
      found.rank = rank;
      found.op = op;
      found.in_step_before = true;
      if (collective_way(bare_type(side->ops[at].op->op_type)) == CollectiveWay::receive) {
        if (std::optional<ShardCause> sent = sent_by(rank, *side, at, cause)) return sent;
        found.uncertain = true;
        found.what = "an op of the rank that sent it may be to blame";
      }
      if (input.tensor->parameter.is_parameter() && step_.learned().updates_unseen) {
        found.uncertain = true;
        found.what = kUpdateUnseen;
      }
      return found;
    }
    if (side->ops[at].inputs.empty() || side->ops[at].inputs.front().from == kNoOp) break;
    at = side->ops[at].inputs.front().from;
  }
  return std::nullopt;
}

// An op that only some ranks have comes first, then one that computes.
void EarlierOps::choose(const Origins& origins, ShardCause cause, int& best_weight,
                        std::optional<ShardCause>& best) const {
  const std::size_t rank = origins.rank;
  for (const std::uint32_t op : origins.ops) {
    const CompareOp& of = step_.ranks()[rank].side->ops[op];
    const bool computes = of.kind != OpKind::copy && !packs_for_collective(of.op->op_type);
    if (origins.guilty_alone && !computes) continue;
    const int weight = 1 + 2 * !origins_.is_on_all_ranks(rank, op) + computes;
    if (weight <= best_weight || !origins_.is_more_than_golden(rank, op)) continue;
    best_weight = weight;
    cause.rank = rank;
    cause.op = op;
    // A view alone changes nothing, and of several ops any may be to blame. What a collective adds up may be wrong
    // already, by less than the tolerance of a half type.
    const bool may_be_hidden = step_.joiner().has_halves() &&
                               is_collective(step_.ranks()[rank].side->ops[op].op->op_type) &&
                               cause.joined.difference.relative() < kMostHidden;
    cause.uncertain =
        !computes || may_be_hidden || origins_.ops_that_compute(origins, cause) > 1 || adds_up_ranks(step_, rank, op);
    best = cause;
  }
}

std::optional<ShardCause> EarlierOps::before(std::uint32_t golden, const CompareInput& input,
                                             const Joined& joined) const {
  const ShardCause cause{
      .kind = FindingKind::inserted, .golden = golden, .golden_tensor = input.tensor, .joined = joined};
  std::optional<ShardCause> best, guilty;
  int best_weight = 0, guilty_weight = 0;
  for (const std::size_t rank : ranks_to_look_at(step_, golden, joined)) {
    const CompareInput* read = step_.input_at(rank, golden, input);
    if (read == nullptr) continue;
    if (read->from == kNoOp && !best) best = in_step_before(rank, *read, cause);
    if (std::optional<ShardCause> sent = before_received(rank, *read, cause)) return sent;
    const Origins origins = origins_.of(rank, *read, cause, false);
    if (joined.difference.different_non_finite > 0) {
      if (const std::optional<std::uint32_t> op =
              first_not_finite(*step_.ranks()[rank].rank, *step_.ranks()[rank].side, origins.seen)) {
        ShardCause found = cause;
        found.rank = rank;
        found.op = *op;
        return found;
      }
    } else {
      choose(origins_.of(rank, *read, cause, true), cause, guilty_weight, guilty);
    }
    choose(origins, cause, best_weight, best);
  }
  std::optional<ShardCause>& found = guilty ? guilty : best;
  if (found && !found->in_step_before) {
    if (std::optional<ShardCause> brought = brought_by_others(*found)) return brought;
  }
  return found;
}

std::optional<ShardCause> EarlierOps::collective_before(std::uint32_t golden, const CompareInput& input,
                                                        const Joined& joined) const {
  ShardCause cause{.kind = FindingKind::inserted, .golden = golden, .golden_tensor = input.tensor, .joined = joined};
  for (std::size_t rank = 0; rank < step_.ranks().size(); ++rank) {
    const CompareSide& side = *step_.ranks()[rank].side;
    const CompareInput* read = step_.input_at(rank, golden, input);
    if (read != nullptr && read->from == kNoOp) {
      if (auto before = in_step_before(rank, *read, cause)) return before;
    }
    for (int i = 0; read != nullptr && i < kStepsToCollective && read->from != kNoOp; ++i) {
      const CompareOp& maker = side.ops[read->from];
      const bool waits = bare_type(maker.op->op_type) == "waittensor";
      if (is_collective(maker.op->op_type) && !waits) {
        cause.rank = rank;
        cause.op = read->from;
        return cause;
      }
      if (!waits && maker.kind != OpKind::copy) break;
      read = maker.inputs.empty() ? nullptr : &maker.inputs.front();
    }
  }
  return std::nullopt;
}

}  // namespace sonde
