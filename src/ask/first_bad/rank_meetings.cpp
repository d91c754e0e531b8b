#include "ask/first_bad/rank_meetings.h"

#include <algorithm>

namespace sonde {
namespace {

// The number of steps if there is none.
std::size_t place_of(const CatalogRank& rank, StepId id) {
  return static_cast<std::size_t>(std::ranges::find(rank.steps, id, &CatalogStep::id) - rank.steps.begin());
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

}  // namespace

BadData is_bad(RankSearch& search, const CatalogOp& op) {
  BadData bad;
  for (const CatalogTensor& tensor : op.tensors) {
    (tensor.is_input ? bad.given : bad.got) |= search.health().of(tensor).bad();
  }
  return bad;
}

const std::vector<const CollectiveCall*>& RankMeetings::StepCalls::at(const std::string& meeting) const {
  static const std::vector<const CollectiveCall*> kNone;
  const auto found = by_meeting.find(meeting);
  return found == by_meeting.end() ? kNone : found->second;
}

// With their operators.
const RankMeetings::StepCalls& RankMeetings::read(SearchedRank& rank, std::size_t step) {
  const auto [at, is_new] = read_.try_emplace({&rank, step});
  StepCalls& all = at->second;
  if (!is_new) return all;
  all.calls = collective_calls(rank.reader().step_at(step));
  for (const CollectiveCall& call : all.calls) all.by_meeting[meeting_of(call, rank.rank().rank)].push_back(&call);
  return all;
}

// The facts are enough for the step with the first root.
const RankMeetings::StepCalls& RankMeetings::known(SearchedRank& rank, std::size_t step) {
  if (!rank.found() || rank.facts().found->step != step) return read(rank, step);
  const auto [at, is_new] = known_.try_emplace({&rank, step});
  StepCalls& all = at->second;
  if (!is_new) return all;
  all.facts = &rank.facts().found->calls;
  for (const RankCall& fact : *all.facts) all.calls.emplace_back().number = fact.number;
  for (std::size_t i = 0; i < all.calls.size(); ++i) all.by_meeting[(*all.facts)[i].meeting].push_back(&all.calls[i]);
  return all;
}

Met RankMeetings::met(SearchedRank& rank, const StepCall& one) {
  const auto& [step, call] = one;
  const StepId id = rank.rank().steps[step].id;
  if (call->op != nullptr) {
    const BadData bad = is_bad(rank.reader(), *call->op);
    return {&rank, id, std::string(call->op->op_name), bad.given, bad.got};
  }
  const StepCalls& all = known(rank, step);
  const RankCall& fact = (*all.facts)[static_cast<std::size_t>(call - all.calls.data())];
  return {&rank, id, fact.op_name, fact.gave_bad, fact.got_bad};
}

const std::vector<CollectiveCall>& RankMeetings::calls_of(SearchedRank& rank) {
  rank.search();
  return read(rank, rank.facts().found->step).calls;
}

RankMeetings::RunCalls RankMeetings::calls_of_run(SearchedRank& rank, std::size_t run, const std::string& meeting,
                                                  CollectiveWay way) {
  RunCalls calls;
  for (std::size_t i = 0; i < rank.rank().steps.size(); ++i) {
    if (rank.rank().steps[i].run != run) continue;
    for (const CollectiveCall* call : read(rank, i).at(meeting)) {
      if (call->way == way) calls.emplace_back(i, call);
    }
  }
  return calls;
}

std::vector<Met> RankMeetings::met_by(SearchedRank& own, const CollectiveCall& call) {
  return call.way == CollectiveWay::all ? met_in_step(own, call) : met_over_run(own, call);
}

// All ranks of a group call it in the same step, unless one had more data than another: then its number finds it.
std::vector<Met> RankMeetings::met_in_step(SearchedRank& own, const CollectiveCall& call) {
  std::vector<Met> found;
  const std::string meeting = meeting_of(call, own.rank().rank);
  const std::vector<const CollectiveCall*>& ours = read(own, own.facts().found->step).at(meeting);
  for (SearchedRank& other : searches_) {
    if (&other == &own) continue;
    StepCall theirs = {place_of(other.rank(), own.step().id), nullptr};
    if (theirs.first < other.rank().steps.size()) {
      theirs.second = counterpart_of(call, ours, known(other, theirs.first).at(meeting));
    }
    if (theirs.second == nullptr && call.number != 0) theirs = numbered(other, own.step(), meeting, call);
    if (theirs.second != nullptr) found.push_back(met(other, theirs));
  }
  return found;
}

// Numbers grow over the steps of a run, so few steps are looked at: from the one like `step` on, or back from it.
RankMeetings::StepCall RankMeetings::numbered(SearchedRank& rank, const CatalogStep& step, const std::string& meeting,
                                              const CollectiveCall& call) {
  const std::vector<CatalogStep>& steps = rank.rank().steps;
  StepCall found;
  // True: the step has it, or has passed it in this direction.
  const auto ends_at = [&](std::size_t i, bool forward) {
    if (steps[i].run != step.run) return true;
    const std::vector<const CollectiveCall*>& calls = known(rank, i).at(meeting);
    const auto same = std::ranges::find(calls, call.number, &CollectiveCall::number);
    if (same != calls.end()) found = {i, *same};
    if (found.second != nullptr || calls.empty()) return found.second != nullptr;
    return forward ? calls.back()->number > call.number : calls.front()->number < call.number;
  };
  const std::size_t start = place_of(rank.rank(), step.id);
  for (std::size_t i = start; i < steps.size() && !ends_at(i, true); ++i) {
  }
  for (std::size_t i = start; found.second == nullptr && i > 0 && !ends_at(i - 1, false); --i) {
  }
  return found;
}

// A rank receives before its forward pass begins, so in the step before that of the send, and maybe before its recording
// begins.
std::vector<Met> RankMeetings::met_over_run(SearchedRank& own, const CollectiveCall& call) {
  const auto peer = std::ranges::find_if(searches_, [&](SearchedRank& rank) {
    return call.peer && static_cast<std::int64_t>(rank.rank().rank) == *call.peer;
  });
  if (peer == searches_.end()) return {};
  SearchedRank& other = *peer;
  const std::string meeting = meeting_of(call, own.rank().rank);
  const CollectiveWay way = call.way == CollectiveWay::send ? CollectiveWay::receive : CollectiveWay::send;
  const RunCalls ours = calls_of_run(own, own.step().run, meeting, call.way);
  const RunCalls theirs = calls_of_run(other, own.step().run, meeting, way);
  const std::ptrdiff_t shift = shift_between(ours.size(), theirs.size(), [&](std::size_t our, std::size_t their) {
    return may_be_passed_on(own.reader(), *ours[our].second, other.reader(), *theirs[their].second);
  });
  const auto our = std::ranges::find_if(ours, [&](const auto& one) { return one.second->op == call.op; });
  const std::ptrdiff_t place = (our - ours.begin()) - shift;
  if (place < 0 || place >= static_cast<std::ptrdiff_t>(theirs.size())) return {};
  return {met(other, theirs[static_cast<std::size_t>(place)])};
}

}  // namespace sonde
