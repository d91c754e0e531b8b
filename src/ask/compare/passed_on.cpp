#include "ask/compare/passed_on.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "ask/compare/compare_words.h"
#include "plan/config/op_types.h"
#include "read/operators/collective_call.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

// Data that the rank received, in this step or before its forward pass: another rank sent them.
bool is_received(const CompareFinding& finding, const CatalogRank& rank) {
  if (finding.kind != FindingKind::data || finding.tensor == nullptr || finding.tensor->target == nullptr) return false;
  const std::uint64_t source = finding.tensor->target->source;
  if (source == kNoSequence) return false;
  for (const CatalogStep& step : rank.steps) {
    const auto maker = std::ranges::find(step.ops, source, &CatalogOp::sequence);
    if (maker == step.ops.end()) continue;
    return collective_way(bare_type(maker->op_type)) == CollectiveWay::receive;
  }
  return false;
}

// It has a counterpart, which is called in the same way, and passes on other data: perhaps those of another rank.
bool is_of_collective(const CompareFinding& finding) {
  const bool is_of_call = finding.kind == FindingKind::missing || finding.kind == FindingKind::inserted ||
                          finding.kind == FindingKind::number;
  if (is_of_call || finding.kind == FindingKind::parameter || finding.culprit == nullptr) return false;
  const ComparedOp& op = *finding.op;
  return is_collective(finding.culprit->op_type) &&
         (op.is_alone() || attributes_apart(*op.target.back(), *op.golden.back()).empty());
}

// One call of a collective by all ranks of its group: step, graph, group, number. A call that the group has numbered has
// no step: one rank may have more of them than another.
using MeetingKey = std::tuple<std::uint64_t, std::uint32_t, std::string, std::uint64_t>;

// The inputs of all ranks to each call of a collective.
class Meetings {
 public:
  explicit Meetings(const DumpComparison& comparison) {
    for (const ComparedStep& step : comparison.steps) add(step);
  }

  // The errors of all that was given explain the error of the result.
  bool explain(const ComparedOp& op, const ComparedTensor& output) const;
  // All that was given is known, and is what the golden ranks gave.
  bool gave_the_same(const ComparedOp& op) const;

 private:
  void add(const ComparedStep& step);

  std::map<MeetingKey, std::vector<const ComparedOp*>> calls_;
  std::map<const ComparedOp*, MeetingKey> keys_;
};

void Meetings::add(const ComparedStep& step) {
  std::map<const CatalogOp*, const ComparedOp*> compared;
  for (const ComparedOp& op : step.ops) {
    for (const CatalogOp* one : op.target) compared.emplace(one, &op);
  }
  std::map<std::string, std::uint64_t> so_far;  // calls without a number meet in their order
  for (const CollectiveCall& call : collective_calls(*step.target->step)) {
    const std::string meeting = meeting_of(call, step.target->rank->rank);
    const std::uint64_t order = ++so_far[meeting];
    const auto op = compared.find(call.op);
    if (op == compared.end()) continue;
    const StepId& id = step.target->step->id;
    const MeetingKey key =
        call.number > 0 ? MeetingKey{0, 0, meeting, call.number} : MeetingKey{id.number, id.graph, meeting, order};
    calls_[key].push_back(op->second);
    keys_.emplace(op->second, key);
  }
}

bool Meetings::explain(const ComparedOp& op, const ComparedTensor& output) const {
  const auto key = keys_.find(&op);
  if (key == keys_.end()) return false;
  if (output.difference->different_non_finite > 0) {
    return std::ranges::any_of(calls_.at(key->second), [](const ComparedOp* call) {
      return std::ranges::any_of(
          call->inputs, [](const ComparedTensor& input) { return input.difference->different_non_finite > 0; });
    });
  }
  double given = 0;  // a sum has no larger error than all its terms; a mean, a maximum or a copy a smaller one
  for (const ComparedOp* call : calls_.at(key->second)) {
    double largest = 0;
    for (const ComparedTensor& input : call->inputs) {
      if (!input.difference->comparable()) return false;
      largest = std::max(largest, input.difference->max_error);
    }
    given += largest;
  }
  return given > 0 && output.difference->max_error <= given + output.allowance.rounding.max;
}

bool Meetings::gave_the_same(const ComparedOp& op) const {
  const auto key = keys_.find(&op);
  if (key == keys_.end()) return false;
  bool any = false;
  for (const ComparedOp* call : calls_.at(key->second)) {
    for (const ComparedTensor& input : call->inputs) {
      if (!input.difference->equal) return false;
      any = true;
    }
  }
  return any;
}

// It passes on something else, and no op was found that another rank computes it with. Of a receive the send may be matched
// with another golden one, which gave the same.
void doubt_passed_on(DumpComparison& comparison, const Meetings& meetings) {
  for (CompareFinding& finding : comparison.findings) {
    if (!is_of_collective(finding)) continue;
    const std::string_view type = finding.culprit->op_type;
    const bool receives = collective_way(bare_type(type)) == CollectiveWay::receive;
    if (!receives && (!moves_between_ranks(type) || meetings.gave_the_same(*finding.op))) continue;
    finding.uncertain = true;
    finding.what += "; what another rank gave it may differ";
  }
}

}  // namespace

void leave_passed_on_out(DumpComparison& comparison) {
  const auto is_passed_on = [&](const CompareFinding& finding) {
    return is_of_collective(finding) || is_received(finding, *comparison.steps[finding.step].target->rank);
  };
  if (std::ranges::none_of(comparison.findings, is_passed_on)) return;
  std::map<std::uint32_t, std::uint64_t> first_other;  // by graph: the first step with another finding
  const auto id_of = [&](const CompareFinding& finding) { return comparison.steps[finding.step].target->step->id; };
  for (const CompareFinding& finding : comparison.findings) {
    if (is_passed_on(finding)) continue;
    const auto [at, is_new] = first_other.try_emplace(id_of(finding).graph, id_of(finding).number);
    if (!is_new) at->second = std::min(at->second, id_of(finding).number);
  }
  const Meetings meetings(comparison);
  std::erase_if(comparison.findings, [&](const CompareFinding& finding) {
    if (!is_passed_on(finding)) return false;
    const auto other = first_other.find(id_of(finding).graph);
    const bool has_other = other != first_other.end() && other->second <= id_of(finding).number;
    const bool is_given = finding.tensor != nullptr && meetings.explain(*finding.op, *finding.tensor);
    if (!has_other && !is_given) return false;
    const_cast<ComparedOp*>(finding.op)->verdict = OpVerdict::propagated;
    return true;
  });
  doubt_passed_on(comparison, meetings);
}

}  // namespace sonde
