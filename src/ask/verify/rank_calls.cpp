#include "ask/verify/rank_calls.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ground/base/shape.h"
#include "ground/base/text.h"
#include "read/catalog/rank_parts.h"
#include "read/operators/collective_call.h"
#include "sonde/dtype.h"

namespace sonde {
namespace {

struct RankCall {
  StepId step;
  CollectiveCall call;                               // without the ranks of its group
  const std::vector<std::int64_t>* group = nullptr;  // these ranks
};

// A group that was destroyed and made again counts from 1 again: which group of the name, and the number in it.
using CallNumber = std::pair<std::ptrdiff_t, std::ptrdiff_t>;

// The calls of one rank at one meeting place, in order.
struct RankCalls {
  const CatalogRank* rank = nullptr;
  std::vector<RankCall> calls;
  std::vector<CallNumber> numbers;  // of the calls; equal numbers of two ranks are one call

  bool ends_before(CallNumber number) const { return numbers.empty() || numbers.back() < number; }
  const RankCall* at(CallNumber number) const {
    const auto found = std::ranges::lower_bound(numbers, number);
    const bool is_there = found != numbers.end() && *found == number;
    return is_there ? &calls[static_cast<std::size_t>(found - numbers.begin())] : nullptr;
  }
};

struct Meeting {
  std::vector<RankCalls> ranks;
  std::vector<RankCalls> receivers;  // of sends
};

std::string line_of(const CatalogOp& op) {
  return op.source_file.empty() ? "" : fmt::format(", {}:{}", op.source_file, op.line);
}

std::string call_text(const RankCall& one) {
  return fmt::format("{} of step {}{}{}", one.call.op->op_name, one.step.number, line_of(*one.call.op),
                     in_brackets(one.call.caller));
}

const CatalogOp* last_op(const CatalogRank& rank, std::size_t run) {
  const CatalogOp* last = nullptr;
  for (const CatalogStep& step : rank.steps) {
    if (step.run != run) continue;
    for (const CatalogOp& op : step.ops) {
      if (!op.is_parameter) last = &op;
    }
  }
  return last;
}

std::string size_text(const CatalogTensor& tensor) {
  return fmt::format("{} elements of {}", element_count(tensor.shape), info(tensor.dtype).lower);
}

// The difference between two calls that meet; empty: none.
std::string difference(const CollectiveCall& a, const CollectiveCall& b) {
  if (a.way == CollectiveWay::all && a.type != b.type) return fmt::format("{}, not {}", b.op->op_type, a.op->op_type);
  if (a.reduce != b.reduce && !a.reduce.empty() && !b.reduce.empty()) {
    return fmt::format("{}, not {}", b.reduce, a.reduce);
  }
  if (a.root != b.root) return fmt::format("root {}, not {}", b.root.value_or(0), a.root.value_or(0));
  const CatalogTensor *left = a.first_in, *right = b.first_in;
  if (left == nullptr || right == nullptr || !a.has_one_size) return "";
  if (!left->has_shape || !right->has_shape) return "";
  const bool same = element_count(left->shape) == element_count(right->shape) && left->dtype == right->dtype;
  return same ? "" : fmt::format("{}, not {}", size_text(*right), size_text(*left));
}

class CallsVerifier {
 public:
  CallsVerifier(const Catalog& catalog, const std::string& dump, std::size_t run, Verification& report)
      : run_(run), report_(report) {
    for (const CatalogRank& rank : catalog.ranks) {
      if (rank.dump == dump && run < rank.runs.size()) ranks_.push_back(&rank);
    }
  }

  void verify() {
    for (const CatalogRank* rank : ranks_) gather(*rank);
    say_who_is_missing();
    for (const auto& [place, meeting] : meetings_) {
      if (meeting.receivers.empty()) {
        compare(place, meeting.ranks);
      } else if (meeting.ranks.empty()) {
        compare(place, meeting.receivers);  // nothing was sent
      } else {
        compare(place, {meeting.ranks.front(), meeting.receivers.front()});
      }
    }
  }

 private:
  // Where ranks meet: all of a group, or the two ends of a channel; whatever the type of the call, which is compared.
  static std::string place_of(const CollectiveCall& call, std::uint32_t rank) {
    return call.way == CollectiveWay::all ? fmt::format("group {}", call.group) : meeting_of(call, rank);
  }

  void gather(const CatalogRank& rank) {
    std::uint64_t unnamed = 0;
    for (const CatalogStep& step : rank.steps) {
      if (step.run != run_) continue;
      for (CollectiveCall& call : collective_calls(step)) {
        members_.insert(call.ranks.begin(), call.ranks.end());
        if (call.ranks.empty() && call.number == 0) {
          ++unnamed;
          continue;
        }
        if (call.way != CollectiveWay::all && !call.peer) continue;  // it takes what comes from any rank
        Meeting& meeting = meetings_[place_of(call, rank.rank)];
        std::vector<RankCalls>& side = call.way == CollectiveWay::receive ? meeting.receivers : meeting.ranks;
        if (side.empty() || side.back().rank != &rank) side.push_back({&rank, {}, {}});
        // A thousand ranks in a group, each with a hundred calls: their list is there once.
        const std::vector<std::int64_t>* const group = &*groups_.insert(std::exchange(call.ranks, {})).first;
        call.group = {};
        side.back().calls.push_back({step.id, std::move(call), group});
      }
    }
    if (unnamed == 0) return;
    add_issue(IssueKind::unreadable, rank,
              fmt::format("{} collectives do not say the ranks of their group: they were not compared", unnamed));
  }

  void say_who_is_missing() {
    for (const CatalogRank* rank : ranks_) members_.erase(rank->rank);
    if (members_.empty()) return;
    add_issue(IssueKind::unreadable, *ranks_.front(),
              fmt::format("the dump lacks {} that {} part in collectives, {}: their calls were not compared",
                          count_text(members_.size(), "rank"), members_.size() == 1 ? "takes" : "take",
                          fmt::join(members_, ", ")));
  }

  // Up to the first difference.
  void compare(const std::string& place, std::vector<RankCalls> ranks) {
    if (!take_numbers(ranks)) count(ranks);
    std::set<CallNumber> all;
    for (const RankCalls& one : ranks) all.insert(one.numbers.begin(), one.numbers.end());
    for (const CallNumber& number : all) {
      if (!agree(place, ranks, number) || !all_arrived(place, ranks, number)) return;
    }
  }

  // Those in the dump. False: a call has none.
  static bool take_numbers(std::vector<RankCalls>& ranks) {
    for (RankCalls& one : ranks) {
      one.numbers.clear();
      CallNumber last;
      for (const RankCall& call : one.calls) {
        const auto number = static_cast<std::ptrdiff_t>(call.call.number);
        if (number == 0) return false;
        last = {number > last.second ? last.first : last.first + 1, number};
        one.numbers.push_back(last);
      }
    }
    return true;
  }

  // From 1. The recording of a rank may begin later than others.
  static void count(std::vector<RankCalls>& ranks) {
    std::vector<std::ptrdiff_t> begins;
    const RankCalls& front = ranks.front();
    for (const RankCalls& one : ranks) {
      begins.push_back(shift_between(front.calls.size(), one.calls.size(), [&](std::size_t our, std::size_t their) {
        return difference(front.calls[our].call, one.calls[their].call).empty();
      }));
    }
    const std::ptrdiff_t first = *std::ranges::min_element(begins);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      ranks[i].numbers.clear();
      for (std::size_t call = 0; call < ranks[i].calls.size(); ++call) {
        ranks[i].numbers.emplace_back(0, begins[i] - first + static_cast<std::ptrdiff_t>(call) + 1);
      }
    }
  }

  bool agree(const std::string& place, const std::vector<RankCalls>& ranks, CallNumber number) {
    const RankCalls* first = nullptr;
    for (const RankCalls& one : ranks) {
      const RankCall* call = one.at(number);
      if (call == nullptr) continue;
      ++*report_.collectives;
      if (first == nullptr) first = &one;
      const RankCall& other = *first->at(number);
      const std::string apart = difference(other.call, call->call);
      if (apart.empty()) continue;
      add(*one.rank, call->step,
          fmt::format("call {} of {} is {}: {} here, {} on rank {}", number.second, place, apart, call_text(*call),
                      call_text(other), first->rank->rank));
      return false;
    }
    return true;
  }

  // A collective that is complete has met everyone, whatever the dump of a killed rank lacks. A send may be complete
  // before anyone receives it.
  bool all_arrived(const std::string& place, const std::vector<RankCalls>& ranks, CallNumber number) {
    for (const RankCalls& one : ranks) {
      const RankCall* call = one.at(number);
      if (call == nullptr || call->call.complete || call->call.way == CollectiveWay::send) continue;
      const std::vector<const CatalogRank*> late = absent(*call, ranks, number);
      for (const CatalogRank* rank : late) {
        add(*rank, call->step,
            fmt::format("rank {} did not arrive at call {} of {}, where rank {} waits ({}); {}", rank->rank,
                        number.second, place, one.rank->rank, call_text(*call), end_text(*rank)));
      }
      if (!late.empty()) return false;
    }
    return true;
  }

  // Members of the group in the dump whose calls end before this number.
  std::vector<const CatalogRank*> absent(const RankCall& one, const std::vector<RankCalls>& ranks,
                                         CallNumber number) const {
    const CollectiveCall& call = one.call;
    const std::vector<std::int64_t>& group = *one.group;
    std::vector<const CatalogRank*> found;
    for (const CatalogRank* rank : ranks_) {
      const auto its_number = static_cast<std::int64_t>(rank->rank);
      const auto its = std::ranges::find(ranks, rank, &RankCalls::rank);
      const bool calls = its != ranks.end();
      const bool is_listed = group.empty() ? calls : std::ranges::find(group, its_number) != group.end();
      const bool is_member = call.way == CollectiveWay::all ? is_listed : call.peer == its_number;
      if (is_member && (!calls || its->ends_before(number))) found.push_back(rank);
    }
    return found;
  }

  std::string end_text(const CatalogRank& rank) const {
    const CatalogOp* last = last_op(rank, run_);
    return last == nullptr ? "it ran no operator"
                           : fmt::format("its last operator is {}{}", last->op_name, line_of(*last));
  }

  Issue& add_issue(IssueKind kind, const CatalogRank& rank, std::string message) {
    Issue& issue = report_.issues.emplace_back();
    issue.kind = kind;
    issue.path = rank.directory;
    issue.message = std::move(message);
    issue.rank = rank.rank;
    return issue;
  }

  void add(const CatalogRank& rank, StepId step, std::string message) {
    Issue& issue = add_issue(IssueKind::collective, rank, std::move(message));
    issue.is_finding = true;
    issue.graph = step.graph;
    issue.step = step.number;
  }

  const std::size_t run_;
  Verification& report_;
  std::vector<const CatalogRank*> ranks_;
  std::map<std::string, Meeting> meetings_;
  std::set<std::int64_t> members_;  // of the groups that are called
  std::set<std::vector<std::int64_t>> groups_;
};

}  // namespace

// As far as collective_calls() and the messages need it.
CatalogOp CallsOfRanks::kept(const CatalogOp& op) {
  CatalogOp call;
  call.is_parameter = op.is_parameter;
  call.op_name = calls_.texts->keep(op.op_name);
  call.op_type = calls_.texts->keep(op.op_type);
  call.source_file = calls_.texts->keep(op.source_file);
  call.line = op.line;
  call.call_number = op.call_number;
  if (op.attributes != nullptr) {
    const auto [at, is_new] = of_rank_.try_emplace(op.attributes);
    if (is_new) at->second = &attributes_.emplace_back(*op.attributes);
    call.attributes = at->second;
  }
  bool has_input = false, has_output = false, is_complete = false;
  for (const CatalogTensor& tensor : op.tensors) {
    const bool is_first = !std::exchange(tensor.is_input ? has_input : has_output, true);
    const bool completes = !tensor.is_input && tensor.recorded() && !is_complete;
    if (!is_first && !completes) continue;
    is_complete = is_complete || completes;
    CatalogTensor& slot = call.tensors.emplace_back();
    static_cast<TensorMeta&>(slot) = tensor;
    if (tensor.recorded()) slot.statistics.emplace();
  }
  return call;
}

void CallsOfRanks::add(const Catalog& one) {
  of_rank_.clear();
  for (const CatalogRank& from : one.ranks) {
    std::set<const CatalogOp*> last;
    for (std::size_t run = 0; run < from.runs.size(); ++run) last.insert(last_op(from, run));
    CatalogRank& rank = calls_.ranks.emplace_back();
    rank.rank = from.rank;
    rank.directory = from.directory;
    rank.metadata = from.metadata;
    rank.has_journal = from.has_journal;
    rank.runs.resize(from.runs.size());
    for (const CatalogStep& of_rank : from.steps) {
      std::set<const CatalogOp*> chosen;
      for (const CollectiveCall& call : collective_calls(of_rank)) chosen.insert(call.op);
      CatalogStep& step = rank.steps.emplace_back();
      step.run = of_rank.run;
      step.id = of_rank.id;
      for (const CatalogOp& op : of_rank.ops) {
        if (chosen.contains(&op) || last.contains(&op)) step.ops.push_back(kept(op));
      }
    }
  }
}

void CallsOfRanks::verify(const std::filesystem::path& real_dump, Verification& report) && {
  name_joined_dumps(real_dump, calls_);
  std::ranges::stable_sort(calls_.ranks, {}, &CatalogRank::rank);
  verify_calls_of_ranks(calls_, report);
}

void verify_calls_of_ranks(const Catalog& catalog, Verification& report) {
  report.collectives = 0;
  std::map<std::string, std::size_t> runs;  // by dump: the most that a rank has
  for (const CatalogRank& rank : catalog.ranks) runs[rank.dump] = std::max(runs[rank.dump], rank.runs.size());
  for (const auto& [dump, count] : runs) {
    for (std::size_t run = 0; run < count; ++run) CallsVerifier(catalog, dump, run, report).verify();
  }
}

}  // namespace sonde
