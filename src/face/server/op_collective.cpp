#include "face/server/op_collective.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "face/report/catalog_text.h"
#include "read/operators/collective_call.h"

namespace sonde::server {
namespace {

constexpr std::size_t kMostOtherRanks = 15;  // each is a step to read

using Calls = std::vector<const CollectiveCall*>;

Calls calls_at(const std::vector<CollectiveCall>& all, const std::string& meeting, std::uint32_t rank) {
  Calls calls;
  for (const CollectiveCall& call : all) {
    if (call.way == CollectiveWay::all && meeting_of(call, rank) == meeting) calls.push_back(&call);
  }
  return calls;
}

// The ranks of the same run: where the path holds several dumps, a rank of another one calls nothing with ours.
bool may_meet(const CatalogRank& own, const CatalogRank& other, const CollectiveCall& call) {
  const bool is_member =
      call.ranks.empty() || std::ranges::find(call.ranks, std::int64_t{other.rank}) != call.ranks.end();
  return &own != &other && own.dump == other.dump && is_member;
}

std::vector<RankCall> calls_of_others(Ask& ask, const AskedOp& asked, const std::vector<CollectiveCall>& own,
                                      const CollectiveCall& call) {
  std::vector<RankCall> found;
  const std::vector<CatalogRank>& ranks = ask.snapshot->frame().ranks;
  const CatalogRank& own_rank = ranks[asked.rank];
  const std::string meeting = meeting_of(call, own_rank.rank);
  const Calls ours = calls_at(own, meeting, own_rank.rank);
  std::size_t looked = 0;
  for (std::size_t i = 0; i < ranks.size() && looked < kMostOtherRanks; ++i) {
    if (!may_meet(own_rank, ranks[i], call)) continue;
    const auto like = std::ranges::find(ranks[i].steps, own_rank.steps[asked.step].id, &CatalogStep::id);
    if (like == ranks[i].steps.end()) continue;
    ++looked;
    const Result<std::shared_ptr<StepPart>> part =
        ask.snapshot->step(i, static_cast<std::size_t>(like - ranks[i].steps.begin()));
    if (!part) continue;
    const std::vector<CollectiveCall> all = collective_calls((*part)->step());
    const CollectiveCall* const theirs = counterpart_of(call, ours, calls_at(all, meeting, ranks[i].rank));
    if (theirs != nullptr) found.push_back({rank_text(ranks[i]), like->id.number, std::string(theirs->op->op_name)});
  }
  return found;
}

}  // namespace

std::optional<OpCollective> collective_of(Ask& ask, const AskedOp& asked) {
  const std::vector<CollectiveCall> own = collective_calls(asked.part->step());
  const auto call = std::ranges::find(own, asked.op, &CollectiveCall::op);
  if (call == own.end()) return std::nullopt;
  OpCollective answer;
  answer.group = call->group;
  answer.ranks = call->ranks;
  answer.peer = call->peer;
  answer.root = call->root;
  if (call->number != 0) answer.call_number = call->number;
  answer.reduce = call->reduce;
  answer.caller = call->caller;
  if (call->way == CollectiveWay::all) answer.calls = calls_of_others(ask, asked, own, *call);
  return answer;
}

}  // namespace sonde::server
