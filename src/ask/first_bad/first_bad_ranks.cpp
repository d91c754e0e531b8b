// Finds the rank that was bad first: bad data received from a collective with finite input came from another rank.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "ask/first_bad/rank_meetings.h"
#include "ask/first_bad/searched_ranks.h"
#include "ground/base/ranges_text.h"
#include "ground/base/text.h"
#include "read/operators/collective_call.h"

namespace sonde {
namespace {

std::size_t place_of(const StepOrder& order, const SearchedRank& rank) {
  return order.place_of(rank.rank(), rank.step().id);
}

// The collective that brought the root, if one did.
const CollectiveCall* received_by(RankMeetings& meetings, SearchedRank& rank, const Root& root) {
  const CatalogOp* op = rank.search().flow().ops()[root.op].op;
  const std::vector<CollectiveCall>& calls = meetings.calls_of(rank);
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
  SearchedRank& first = searches[verdict.first];
  for (const CollectiveCall& call : meetings.calls_of(first)) {
    if (!is_bad(first.search(), *call.op).given) continue;
    std::vector<std::uint32_t> got;
    for (const Met& other : meetings.met_by(first, call)) {
      if (!other.gave_bad && other.got_bad) got.push_back(other.rank->rank().rank);
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
    if (other.gave_bad) ranks.push_back(other.rank->rank().rank);
  }
  if (call.way == CollectiveWay::all) {
    return ranks.empty()
               ? "every rank that is in the dump gave it finite numbers: the sum overflowed, or a rank that is "
                 "not in the dump gave something else"
               : fmt::format("{} gave it the bad values", ranks_text(ranks));
  }
  if (others.empty()) return "the send of these values is not in the dump";
  const Met& sender = others.front();
  return fmt::format("{} of rank {} in step {} sent {}", sender.op_name, sender.rank->rank().rank, sender.step.number,
                     sender.gave_bad ? "them" : "finite numbers: the memory of one of the two changed meanwhile");
}

// A rank that only received its bad values is not the first: goes on to the rank that gave them.
std::size_t giver_before(Searches& searches, RankMeetings& meetings, const StepOrder& order, std::size_t first) {
  std::set<std::size_t> seen = {first};
  for (;;) {
    SearchedRank& rank = searches[first];
    if (!rank.facts().found->is_collective) return first;
    const CollectiveCall* call = received_by(meetings, rank, rank.search().roots().front());
    if (call == nullptr) return first;
    std::optional<std::size_t> next;
    for (const Met& other : meetings.met_by(rank, *call)) {
      const auto number = static_cast<std::size_t>(other.rank - searches.data());
      const bool is_known = other.gave_bad && other.rank->found() && !seen.contains(number);
      if (!is_known || next) continue;
      // A later error is not the one that it gave.
      if (place_of(order, *other.rank) <= order.place_of(other.rank->rank(), other.step)) next = number;
    }
    if (!next) return first;
    first = *next;
    seen.insert(first);
  }
}

// Behind the first root of its rank, what another rank gave to a collective is that rank's error, or an effect of the first.
void find_received(RankMeetings& meetings, SearchedRank& first, RankVerdict& verdict) {
  const RankSearch& search = first.search();
  for (std::size_t i = 1; i < search.roots().size(); ++i) {
    const Root& root = search.roots()[i];
    if (!first.search().flow().ops()[root.op].nature.collective || root.kind != RootKind::created) continue;
    const CollectiveCall* call = received_by(meetings, first, root);
    if (call == nullptr) continue;
    if (std::ranges::any_of(meetings.met_by(first, *call), &Met::gave_bad)) {
      verdict.received.push_back(root.op);
    }
  }
}

void add_others(Searches& searches, RankVerdict& verdict) {
  SearchedRank& first = searches[verdict.first];
  std::vector<std::uint32_t> fine, same, later;
  for (SearchedRank& rank : searches) {
    if (&rank == &first) continue;
    const bool in_same_step = rank.found() && rank.step().id == first.step().id;
    const bool is_same = in_same_step && rank.facts().found->op_name == first.facts().found->op_name;
    (is_same ? same : rank.found() ? later : fine).push_back(rank.rank().rank);
  }
  if (same.empty()) verdict.tags.emplace_back("one_rank_only");
  if (!same.empty()) verdict.evidence.push_back(fmt::format("the same on {}", ranks_text(same)));
  if (!fine.empty()) verdict.evidence.push_back(fmt::format("nothing wrong on {}", ranks_text(fine)));
  if (!later.empty())
    verdict.evidence.push_back(fmt::format("{} went wrong later, or in another operator", ranks_text(later)));
}

}  // namespace

FirstKey first_key(SearchedRank& rank, const StepOrder& order) {
  const RankFacts::Found& found = *rank.facts().found;
  // Bad data from a collective comes from another rank, unless no rank has anything else.
  return {place_of(order, rank), found.is_collective, found.collectives_before, rank.rank().rank};
}

RankVerdict first_rank(Searches& searches, const StepOrder& order) {
  RankVerdict verdict;
  std::optional<FirstKey> best;
  for (std::size_t i = 0; i < searches.size(); ++i) {
    if (!searches[i].found()) continue;
    const FirstKey key = first_key(searches[i], order);
    if (best && *best <= key) continue;
    best = key;
    verdict.first = i;
  }
  if (searches.size() < 2) return verdict;
  RankMeetings meetings(searches);
  verdict.first = giver_before(searches, meetings, order, verdict.first);
  SearchedRank& first = searches[verdict.first];
  const RankFacts::Found& found = *first.facts().found;
  const std::string collectives =
      found.collectives_before == 0 ? "no collective" : count_text(found.collectives_before, "collective");
  verdict.evidence.push_back(
      fmt::format("{} of step {} ran on rank {} before it", collectives, first.step().id.number, first.rank().rank));
  if (found.is_collective) {
    if (const CollectiveCall* call = received_by(meetings, first, first.search().roots().front())) {
      verdict.evidence.push_back(givers_text(*call, meetings.met_by(first, *call)));
    }
  }
  add_spread(searches, meetings, verdict);
  find_received(meetings, first, verdict);
  add_others(searches, verdict);
  return verdict;
}

}  // namespace sonde
