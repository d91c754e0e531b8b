// Finds the rank that was bad first: collectives are matched across ranks by group, type and order, a receive with its
// send; bad data received from a collective with finite input came from another rank.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "ask/first_bad/first_bad_search.h"
#include "read/operators/collective_call.h"

namespace sonde {
namespace {

using Searches = std::vector<std::unique_ptr<RankSearch>>;

bool same_step(const RankSearch& a, const RankSearch& b) { return a.step().id == b.step().id; }

// The number of collectives before the rank's first root, and whether that root is one.
struct RootPosition {
  std::size_t before = 0;
  bool is_collective = false;
};

RootPosition root_position(RankSearch& search) {
  RootPosition position;
  const FlowOp& op = search.flow().ops()[search.roots().front().op];
  position.is_collective = op.nature.collective && search.roots().front().kind == RootKind::created;
  for (const FlowOp& other : search.flow().ops()) {
    if (&other == &op) break;
    position.before += other.nature.collective ? 1 : 0;
  }
  return position;
}

const CatalogStep* step_of(RankSearch& search, StepId id) {
  const std::vector<CatalogStep>& steps = search.rank().steps;
  const auto found = std::ranges::find(steps, id, &CatalogStep::id);
  return found == steps.end() ? nullptr : &search.step_at(static_cast<std::size_t>(found - steps.begin()));
}

// A call on another rank that meets one of ours.
struct Met {
  RankSearch* search = nullptr;
  const CatalogStep* step = nullptr;
  const CatalogOp* op = nullptr;
  bool gave_bad = false, got_bad = false;
};

Met met(RankSearch& search, const CatalogStep& step, const CatalogOp& op) {
  Met found{&search, &step, &op};
  for (const CatalogTensor& tensor : op.tensors) {
    (tensor.is_input ? found.gave_bad : found.got_bad) |= search.health().of(tensor).bad();
  }
  return found;
}

// The calls of a rank that meet at one place, in order.
using Calls = std::vector<std::pair<const CatalogStep*, CollectiveCall>>;

void add_calls(RankSearch& search, const CatalogStep& step, const std::string& meeting, CollectiveWay way,
               Calls& calls) {
  for (CollectiveCall& call : collective_calls(step)) {
    if (call.way != way || meeting_of(call, search.rank().rank) != meeting) continue;
    calls.emplace_back(&step, std::move(call));
  }
}

Calls calls_of_run(RankSearch& search, std::size_t run, const std::string& meeting, CollectiveWay way) {
  Calls calls;
  for (std::size_t i = 0; i < search.rank().steps.size(); ++i) {
    if (search.rank().steps[i].run == run) add_calls(search, search.step_at(i), meeting, way, calls);
  }
  return calls;
}

std::size_t place_of(const CatalogOp& op, const Calls& calls) {
  const auto at = std::ranges::find_if(calls, [&](const auto& call) { return call.second.op == &op; });
  return static_cast<std::size_t>(at - calls.begin());
}

// All ranks of a group call it in the same step.
std::vector<Met> met_in_step(Searches& searches, RankSearch& own, const CatalogStep& step, const CollectiveCall& call) {
  std::vector<Met> found;
  const std::string meeting = meeting_of(call, own.rank().rank);
  Calls ours;
  add_calls(own, step, meeting, CollectiveWay::all, ours);
  const std::size_t place = place_of(*call.op, ours);
  for (const auto& search : searches) {
    const CatalogStep* of_rank = search.get() == &own ? nullptr : step_of(*search, step.id);
    if (of_rank == nullptr) continue;
    Calls theirs;
    add_calls(*search, *of_rank, meeting, CollectiveWay::all, theirs);
    if (place < theirs.size()) found.push_back(met(*search, *of_rank, *theirs[place].second.op));
  }
  return found;
}

// The tensor that a send gives, or a receive gets.
const CatalogTensor* passed(const CollectiveCall& call) {
  return call.way == CollectiveWay::send ? call.first_in : call.first_out;
}

bool may_be_passed_on(RankSearch& a, const CollectiveCall& ours, RankSearch& b, const CollectiveCall& theirs) {
  const CatalogTensor *left = passed(ours), *right = passed(theirs);
  if (left == nullptr || right == nullptr) return true;
  if (left->dtype != right->dtype || left->shape != right->shape) return false;
  const Health &sent = a.health().of(*left), &got = b.health().of(*right);
  if (!sent.known || !got.known) return true;
  if (sent.bad() || got.bad() || !left->statistics || !right->statistics) return alike(sent, got);
  return left->statistics->max == right->statistics->max && left->statistics->min == right->statistics->min;
}

// A rank receives before its forward pass begins, so in the step before that of the send, and maybe before its recording
// begins.
std::vector<Met> met_over_run(Searches& searches, RankSearch& own, const CatalogStep& step,
                              const CollectiveCall& call) {
  const auto peer = std::ranges::find_if(searches, [&](const auto& search) {
    return call.peer && static_cast<std::int64_t>(search->rank().rank) == *call.peer;
  });
  if (peer == searches.end()) return {};
  RankSearch& other = **peer;
  const std::string meeting = meeting_of(call, own.rank().rank);
  const CollectiveWay way = call.way == CollectiveWay::send ? CollectiveWay::receive : CollectiveWay::send;
  const Calls ours = calls_of_run(own, step.run, meeting, call.way);
  const Calls theirs = calls_of_run(other, step.run, meeting, way);
  const std::ptrdiff_t shift = shift_between(ours.size(), theirs.size(), [&](std::size_t our, std::size_t their) {
    return may_be_passed_on(own, ours[our].second, other, theirs[their].second);
  });
  const std::ptrdiff_t place = static_cast<std::ptrdiff_t>(place_of(*call.op, ours)) - shift;
  if (place < 0 || place >= static_cast<std::ptrdiff_t>(theirs.size())) return {};
  const auto& [of_rank, its] = theirs[static_cast<std::size_t>(place)];
  return {met(other, *of_rank, *its.op)};
}

std::vector<Met> met_by(Searches& searches, RankSearch& own, const CatalogStep& step, const CollectiveCall& call) {
  return call.way == CollectiveWay::all ? met_in_step(searches, own, step, call)
                                        : met_over_run(searches, own, step, call);
}

// The collective that brought the first root, if one did.
std::optional<CollectiveCall> received_by(RankSearch& search) {
  const CatalogOp* op = search.flow().ops()[search.roots().front().op].op;
  for (CollectiveCall& call : collective_calls(search.step())) {
    if (call.op == op) return std::move(call);
  }
  return std::nullopt;
}

std::string ranks_text(const std::vector<std::uint32_t>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

// Finds the first collective of the rank with a bad input in this step, and the ranks that got bad data from it.
void add_spread(Searches& searches, RankVerdict& verdict) {
  RankSearch& first = *searches[verdict.first];
  for (const CollectiveCall& call : collective_calls(first.step())) {
    if (!met(first, first.step(), *call.op).gave_bad) continue;
    std::vector<std::uint32_t> got;
    for (const Met& other : met_by(searches, first, first.step(), call)) {
      if (!other.gave_bad && other.got_bad) got.push_back(other.search->rank().rank);
    }
    if (got.empty()) continue;
    verdict.evidence.push_back(call.way == CollectiveWay::send
                                   ? fmt::format("{} sent it to {}", call.op->op_name, ranks_text(got))
                                   : fmt::format("{} spread it to {}: they gave it finite numbers, rank {} did not",
                                                 call.op->op_name, ranks_text(got), first.rank().rank));
    return;
  }
}

// The values that the other ranks gave to the collective that brought the root.
std::string givers_text(const CollectiveCall& call, const std::vector<Met>& others) {
  std::vector<std::uint32_t> ranks;
  for (const Met& other : others) {
    if (other.gave_bad) ranks.push_back(other.search->rank().rank);
  }
  if (call.way == CollectiveWay::all) {
    return ranks.empty()
               ? "every rank that is in the dump gave it finite numbers: the sum overflowed, or a rank that is "
                 "not in the dump gave something else"
               : fmt::format("{} gave it the bad values", ranks_text(ranks));
  }
  if (others.empty()) return "the send of these values is not in the dump";
  const Met& sender = others.front();
  return fmt::format("{} of rank {} in step {} sent {}", sender.op->op_name, sender.search->rank().rank,
                     sender.step->id.number,
                     sender.gave_bad ? "them" : "finite numbers: the memory of one of the two changed meanwhile");
}

// A rank that only received its bad values is not the first: goes on to the rank that gave them.
std::size_t giver_before(Searches& searches, std::size_t first) {
  std::set<std::size_t> seen = {first};
  for (;;) {
    RankSearch& search = *searches[first];
    const std::optional<CollectiveCall> call = root_position(search).is_collective ? received_by(search) : std::nullopt;
    if (!call) return first;
    std::optional<std::size_t> next;
    for (const Met& other : met_by(searches, search, search.step(), *call)) {
      const auto at = std::ranges::find_if(searches, [&](const auto& one) { return one.get() == other.search; });
      const auto number = static_cast<std::size_t>(at - searches.begin());
      const bool is_known = other.gave_bad && other.search->found() && !seen.contains(number);
      // A later error is not the one that it gave.
      if (is_known && other.search->step().id.number <= other.step->id.number && !next) next = number;
    }
    if (!next) return first;
    first = *next;
    seen.insert(first);
  }
}

void add_others(Searches& searches, RankVerdict& verdict) {
  RankSearch& first = *searches[verdict.first];
  std::vector<std::uint32_t> fine, same, later;
  for (const auto& search : searches) {
    if (search.get() == &first) continue;
    if (!search->found() || !same_step(*search, first)) {
      (search->found() ? later : fine).push_back(search->rank().rank);
      continue;
    }
    const CatalogOp& theirs = *search->flow().ops()[search->roots().front().op].op;
    const CatalogOp& ours = *first.flow().ops()[first.roots().front().op].op;
    (theirs.op_name == ours.op_name ? same : later).push_back(search->rank().rank);
  }
  if (same.empty()) verdict.tags.emplace_back("one_rank_only");
  if (!same.empty()) verdict.evidence.push_back(fmt::format("the same on {}", ranks_text(same)));
  if (!fine.empty()) verdict.evidence.push_back(fmt::format("nothing wrong on {}", ranks_text(fine)));
  if (!later.empty()) verdict.evidence.push_back(fmt::format("later, or elsewhere, on {}", ranks_text(later)));
}

}  // namespace

const Root* own_root(RankSearch& search, const RankSearch& first) {
  if (!search.found()) return nullptr;
  const bool is_later = search.step().id.number > first.step().id.number;
  for (const Root& root : search.roots()) {
    const FlowOp& op = search.flow().ops()[root.op];
    const bool is_received = op.nature.collective && root.kind == RootKind::created;
    // Of a later step: bad parameters and data may come from the update that the ranks made together.
    if (!is_received && !(is_later && root.kind == RootKind::external)) return &root;
  }
  return nullptr;
}

RankVerdict first_rank(Searches& searches) {
  RankVerdict verdict;
  std::optional<std::tuple<std::uint64_t, std::uint32_t, bool, std::size_t, std::uint32_t>> best;
  for (std::size_t i = 0; i < searches.size(); ++i) {
    RankSearch& search = *searches[i];
    if (!search.found()) continue;
    const RootPosition position = root_position(search);
    // Bad data from a collective comes from another rank, unless no rank has anything else.
    const std::tuple key(search.step().id.number, search.step().id.graph, position.is_collective, position.before,
                         search.rank().rank);
    if (best && *best <= key) continue;
    best = key;
    verdict.first = i;
  }
  if (searches.size() < 2) return verdict;
  verdict.first = giver_before(searches, verdict.first);
  RankSearch& first = *searches[verdict.first];
  const RootPosition position = root_position(first);
  verdict.evidence.push_back(fmt::format("{} collectives of step {} ran on rank {} before it", position.before,
                                         first.step().id.number, first.rank().rank));
  if (position.is_collective) {
    if (const std::optional<CollectiveCall> call = received_by(first)) {
      verdict.evidence.push_back(givers_text(*call, met_by(searches, first, first.step(), *call)));
    }
  }
  add_spread(searches, verdict);
  add_others(searches, verdict);
  return verdict;
}

}  // namespace sonde
