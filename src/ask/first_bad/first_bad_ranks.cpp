// Finds the rank that was bad first: bad data received from a collective with finite input came from another rank.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "ask/first_bad/first_bad_search.h"
#include "ask/first_bad/rank_meetings.h"
#include "ground/base/ranges_text.h"
#include "read/operators/collective_call.h"

namespace sonde {
namespace {

bool same_step(const RankSearch& a, const RankSearch& b) { return a.step().id == b.step().id; }

std::size_t place_of(const StepOrder& order, const RankSearch& search) {
  return order.place_of(search.rank(), search.step().id);
}

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

// The collective that brought the root, if one did.
const CollectiveCall* received_by(RankMeetings& meetings, RankSearch& search, const Root& root) {
  const CatalogOp* op = search.flow().ops()[root.op].op;
  const std::vector<CollectiveCall>& calls = meetings.calls_of(search, search.step());
  const auto found = std::ranges::find(calls, op, &CollectiveCall::op);
  return found == calls.end() ? nullptr : &*found;
}

// "ranks 0, 1, 2"; of many "ranks 1-1023", or the first ones and how many others.
std::string ranks_text(const std::vector<std::uint32_t>& ranks) {
  constexpr std::size_t kMostListed = 8, kMostLetters = 60;
  if (ranks.size() <= kMostListed) {
    return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
  }
  const std::string ranges = ranges_text({ranks.begin(), ranks.end()});
  if (ranges.size() <= kMostLetters) return fmt::format("ranks {}", ranges);
  const auto listed = ranks.begin() + static_cast<std::ptrdiff_t>(kMostListed);
  return fmt::format("ranks {} and {} more", fmt::join(ranks.begin(), listed, ", "), ranks.size() - kMostListed);
}

// Finds the first collective of the rank with a bad input in this step, and the ranks that got bad data from it.
void add_spread(Searches& searches, RankMeetings& meetings, RankVerdict& verdict) {
  RankSearch& first = *searches[verdict.first];
  for (const CollectiveCall& call : meetings.calls_of(first, first.step())) {
    if (!met(first, first.step(), *call.op).gave_bad) continue;
    std::vector<std::uint32_t> got;
    for (const Met& other : meetings.met_by(first, first.step(), call)) {
      if (!other.gave_bad && other.got_bad) got.push_back(other.search->rank().rank);
    }
    if (got.empty()) continue;
    const std::string name = fmt::format("{}{}", call.op->op_name, in_brackets(call.caller));
    verdict.evidence.push_back(call.way == CollectiveWay::send
                                   ? fmt::format("{} sent it to {}", name, ranks_text(got))
                                   : fmt::format("{} spread it to {}: they gave it finite numbers, rank {} did not",
                                                 name, ranks_text(got), first.rank().rank));
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
std::size_t giver_before(Searches& searches, RankMeetings& meetings, const StepOrder& order, std::size_t first) {
  std::set<std::size_t> seen = {first};
  for (;;) {
    RankSearch& search = *searches[first];
    const CollectiveCall* call =
        root_position(search).is_collective ? received_by(meetings, search, search.roots().front()) : nullptr;
    if (call == nullptr) return first;
    std::optional<std::size_t> next;
    for (const Met& other : meetings.met_by(search, search.step(), *call)) {
      const auto at = std::ranges::find_if(searches, [&](const auto& one) { return one.get() == other.search; });
      const auto number = static_cast<std::size_t>(at - searches.begin());
      const bool is_known = other.gave_bad && other.search->found() && !seen.contains(number);
      if (!is_known || next) continue;
      // A later error is not the one that it gave.
      if (place_of(order, *other.search) <= order.place_of(other.search->rank(), other.step->id)) next = number;
    }
    if (!next) return first;
    first = *next;
    seen.insert(first);
  }
}

// Behind the first root of its rank, what another rank gave to a collective is that rank's error, or an effect of the first.
void find_received(RankMeetings& meetings, RankSearch& first, RankVerdict& verdict) {
  for (std::size_t i = 1; i < first.roots().size(); ++i) {
    const Root& root = first.roots()[i];
    if (!first.flow().ops()[root.op].nature.collective || root.kind != RootKind::created) continue;
    const CollectiveCall* call = received_by(meetings, first, root);
    if (call == nullptr) continue;
    if (std::ranges::any_of(meetings.met_by(first, first.step(), *call), &Met::gave_bad)) {
      verdict.received.push_back(root.op);
    }
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

const Root* own_root(RankSearch& search, const RankSearch& first, const StepOrder& order) {
  if (!search.found()) return nullptr;
  const bool is_later = place_of(order, search) > place_of(order, first);
  for (const Root& root : search.roots()) {
    const FlowOp& op = search.flow().ops()[root.op];
    const bool is_received = op.nature.collective && root.kind == RootKind::created;
    // Of a later step: bad parameters and data may come from the update that the ranks made together.
    if (!is_received && !(is_later && root.kind == RootKind::external)) return &root;
  }
  return nullptr;
}

RankVerdict first_rank(Searches& searches, const StepOrder& order) {
  RankVerdict verdict;
  std::optional<std::tuple<std::size_t, bool, std::size_t, std::uint32_t>> best;
  for (std::size_t i = 0; i < searches.size(); ++i) {
    RankSearch& search = *searches[i];
    if (!search.found()) continue;
    const RootPosition position = root_position(search);
    // Bad data from a collective comes from another rank, unless no rank has anything else.
    const std::tuple key(place_of(order, search), position.is_collective, position.before, search.rank().rank);
    if (best && *best <= key) continue;
    best = key;
    verdict.first = i;
  }
  if (searches.size() < 2) return verdict;
  RankMeetings meetings(searches);
  verdict.first = giver_before(searches, meetings, order, verdict.first);
  RankSearch& first = *searches[verdict.first];
  const RootPosition position = root_position(first);
  verdict.evidence.push_back(fmt::format("{} collectives of step {} ran on rank {} before it", position.before,
                                         first.step().id.number, first.rank().rank));
  if (position.is_collective) {
    if (const CollectiveCall* call = received_by(meetings, first, first.roots().front())) {
      verdict.evidence.push_back(givers_text(*call, meetings.met_by(first, first.step(), *call)));
    }
  }
  add_spread(searches, meetings, verdict);
  find_received(meetings, first, verdict);
  add_others(searches, verdict);
  return verdict;
}

}  // namespace sonde
