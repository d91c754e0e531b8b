#include "ask/first_bad/rank_meetings.h"

#include <algorithm>
#include <tuple>

namespace sonde {
namespace {

const CatalogStep* step_of(RankSearch& search, StepId id) {
  const std::vector<CatalogStep>& steps = search.rank().steps;
  const auto found = std::ranges::find(steps, id, &CatalogStep::id);
  return found == steps.end() ? nullptr : &search.step_at(static_cast<std::size_t>(found - steps.begin()));
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

Met met(RankSearch& search, const CatalogStep& step, const CatalogOp& op) {
  Met found{&search, &step, &op};
  for (const CatalogTensor& tensor : op.tensors) {
    (tensor.is_input ? found.gave_bad : found.got_bad) |= search.health().of(tensor).bad();
  }
  return found;
}

const RankMeetings::StepCalls& RankMeetings::collected(RankSearch& search, const CatalogStep& step) {
  const auto [at, is_new] = collected_.try_emplace(&step);
  StepCalls& all = at->second;
  if (!is_new) return all;
  all.calls = collective_calls(step);
  for (const CollectiveCall& call : all.calls) {
    all.by_meeting[meeting_of(call, search.rank().rank)].push_back(&call);
  }
  return all;
}

const std::vector<CollectiveCall>& RankMeetings::calls_of(RankSearch& search, const CatalogStep& step) {
  return collected(search, step).calls;
}

const std::vector<const CollectiveCall*>& RankMeetings::calls_at(RankSearch& search, const CatalogStep& step,
                                                                 const std::string& meeting) {
  static const std::vector<const CollectiveCall*> kNone;
  const auto& places = collected(search, step).by_meeting;
  const auto at = places.find(meeting);
  return at == places.end() ? kNone : at->second;
}

RankMeetings::RunCalls RankMeetings::calls_of_run(RankSearch& search, std::size_t run, const std::string& meeting,
                                                  CollectiveWay way) {
  RunCalls calls;
  for (std::size_t i = 0; i < search.rank().steps.size(); ++i) {
    if (search.rank().steps[i].run != run) continue;
    const CatalogStep& step = search.step_at(i);
    for (const CollectiveCall* call : calls_at(search, step, meeting)) {
      if (call->way == way) calls.emplace_back(&step, call);
    }
  }
  return calls;
}

std::vector<Met> RankMeetings::met_by(RankSearch& own, const CatalogStep& step, const CollectiveCall& call) {
  return call.way == CollectiveWay::all ? met_in_step(own, step, call) : met_over_run(own, step, call);
}

// All ranks of a group call it in the same step, unless one had more data than another: then its number finds it.
std::vector<Met> RankMeetings::met_in_step(RankSearch& own, const CatalogStep& step, const CollectiveCall& call) {
  std::vector<Met> found;
  const std::string meeting = meeting_of(call, own.rank().rank);
  const std::vector<const CollectiveCall*>& ours = calls_at(own, step, meeting);
  for (const auto& search : searches_) {
    if (search.get() == &own) continue;
    const CatalogStep* of_rank = step_of(*search, step.id);
    const CollectiveCall* theirs =
        of_rank == nullptr ? nullptr : counterpart_of(call, ours, calls_at(*search, *of_rank, meeting));
    if (theirs == nullptr && call.number != 0) std::tie(of_rank, theirs) = numbered(*search, step, meeting, call);
    if (theirs != nullptr) found.push_back(met(*search, *of_rank, *theirs->op));
  }
  return found;
}

// Numbers grow over the steps of a run, so few steps are looked at: from the one like `step` on, or back from it.
RankMeetings::StepCall RankMeetings::numbered(RankSearch& search, const CatalogStep& step, const std::string& meeting,
                                              const CollectiveCall& call) {
  const std::vector<CatalogStep>& steps = search.rank().steps;
  StepCall found;
  // True: the step has it, or has passed it in this direction.
  const auto ends_at = [&](std::size_t i, bool forward) {
    if (steps[i].run != step.run) return true;
    const CatalogStep& one = search.step_at(i);
    const std::vector<const CollectiveCall*>& calls = calls_at(search, one, meeting);
    const auto same = std::ranges::find(calls, call.number, &CollectiveCall::number);
    if (same != calls.end()) found = {&one, *same};
    if (found.second != nullptr || calls.empty()) return found.second != nullptr;
    return forward ? calls.back()->number > call.number : calls.front()->number < call.number;
  };
  const auto like = std::ranges::find(steps, step.id, &CatalogStep::id);
  const auto start = static_cast<std::size_t>(like - steps.begin());
  for (std::size_t i = start; i < steps.size() && !ends_at(i, true); ++i) {
  }
  for (std::size_t i = start; found.second == nullptr && i > 0 && !ends_at(i - 1, false); --i) {
  }
  return found;
}

// A rank receives before its forward pass begins, so in the step before that of the send, and maybe before its recording
// begins.
std::vector<Met> RankMeetings::met_over_run(RankSearch& own, const CatalogStep& step, const CollectiveCall& call) {
  const auto peer = std::ranges::find_if(searches_, [&](const auto& search) {
    return call.peer && static_cast<std::int64_t>(search->rank().rank) == *call.peer;
  });
  if (peer == searches_.end()) return {};
  RankSearch& other = **peer;
  const std::string meeting = meeting_of(call, own.rank().rank);
  const CollectiveWay way = call.way == CollectiveWay::send ? CollectiveWay::receive : CollectiveWay::send;
  const RunCalls ours = calls_of_run(own, step.run, meeting, call.way);
  const RunCalls theirs = calls_of_run(other, step.run, meeting, way);
  const std::ptrdiff_t shift = shift_between(ours.size(), theirs.size(), [&](std::size_t our, std::size_t their) {
    return may_be_passed_on(own, *ours[our].second, other, *theirs[their].second);
  });
  const auto our = std::ranges::find_if(ours, [&](const auto& one) { return one.second->op == call.op; });
  const std::ptrdiff_t place = (our - ours.begin()) - shift;
  if (place < 0 || place >= static_cast<std::ptrdiff_t>(theirs.size())) return {};
  const auto& [of_rank, its] = theirs[static_cast<std::size_t>(place)];
  return {met(other, *of_rank, *its->op)};
}

}  // namespace sonde
