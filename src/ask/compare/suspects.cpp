#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "ask/compare/compare_passes.h"
#include "ask/compare/compare_words.h"
#include "ground/model/data_name.h"
#include "read/operators/op_nature.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

// Data have no gradient that could stop, nor has `torch.tensor(1.0)`, which is a lift_fresh; a value of an earlier step may
// have one.
bool depends_on_parameter(const CompareSide& side, std::uint32_t op) {
  std::vector<std::uint32_t> open = {op};
  std::set<std::uint32_t> seen = {op};
  while (!open.empty()) {
    const CompareOp& one = side.ops[open.back()];
    open.pop_back();
    if (bare_type(one.op->op_type) == "liftfresh") continue;
    for (const CompareInput& input : one.inputs) {
      const bool is_outside = input.from == kNoOp && !input.tensor->constant;
      if (is_outside && kind_of_name(input.name) != NameKind::data) return true;
      if (input.from != kNoOp && seen.insert(input.from).second) open.push_back(input.from);
    }
  }
  return false;
}

// Of the forward pass and the loss: what comes later, as for a log, stops nothing. kNoOp: no gradient is computed.
std::uint32_t first_of_backward(const CompareSide& side) {
  const auto at = std::ranges::find_if(side.ops, [](const auto& op) { return phase_of(*op.op) == Phase::backward; });
  return at == side.ops.end() ? kNoOp : static_cast<std::uint32_t>(at - side.ops.begin());
}

// The first detach that only one of the two has.
bool name_detach(const CompareFacts& facts, StepFindings& findings, std::uint32_t place, const std::string& shown) {
  const ComparedOp* op = nullptr;
  std::uint32_t begins = place;
  for (const ComparedOp& one : facts.pairs.ops()) {
    if (one.verdict != OpVerdict::unmatched) continue;
    const CatalogOp& own = *(one.golden.empty() ? one.target : one.golden).front();
    const bool is_golden = one.target.empty();
    const std::uint32_t own_index = is_golden ? one.golden_index : one.target_index;
    if (!is_detach(bare_type(own.op_type)) || own_index >= first_of_backward(facts.side(is_golden))) continue;
    const std::uint32_t at = is_golden ? facts.pairs.place_of_golden(one.golden_index) : one.target_index;
    if (at >= begins) continue;
    if (!depends_on_parameter(facts.side(is_golden), own_index)) continue;
    begins = at;
    op = &one;
  }
  if (op == nullptr) return false;
  const bool in_golden = op->target.empty();
  findings.add(in_golden ? FindingKind::missing : FindingKind::inserted, *op,
               (in_golden ? op->golden : op->target).front(), in_golden, nullptr,
               fmt::format("has no counterpart in the {}, and gradients differ: {}", name_of_other(in_golden), shown));
  findings.all().back().place = begins;
  return true;
}

// How often the op at a place runs, and how many ops of the backward pass are its derivative.
struct Calls {
  std::size_t forward = 0, backward = 0;
};

std::map<ForwardOrigin, Calls> calls_of(const CompareSide& side) {
  std::map<ForwardOrigin, Calls> calls;
  for (const CompareOp& op : side.ops) {
    const ForwardOrigin origin = differentiated_by(op);
    if (origin.type.empty()) {
      ++calls[{op.scope, op.op->op_type}].forward;
    } else {
      ++calls[origin].backward;
    }
  }
  return calls;
}

// The ops whose derivatives read its result.
std::set<ForwardOrigin> derivatives_that_read(const CompareSide& side, std::uint32_t op) {
  std::set<ForwardOrigin> origins;
  for (const std::uint32_t reader : side.ops[op].readers) {
    const ForwardOrigin origin = differentiated_by(side.ops[reader]);
    if (!origin.type.empty()) origins.insert(origin);
  }
  return origins;
}

// An op of the forward pass that one of the two has alone joins the result of `from` with something else: a term that the
// other leaves out of its loss. kNoOp: there is none. What runs without gradients has a graph of its own there.
std::uint32_t term_alone(const CompareFacts& facts, std::uint32_t from, bool in_golden) {
  const CompareSide& side = facts.side(in_golden);
  const std::uint32_t end = first_of_backward(side);
  std::set<std::uint32_t> seen = {from};
  for (auto at = seen.begin(); at != seen.end() && *at < end; ++at) {
    const CompareOp& op = side.ops[*at];
    const bool joins = std::ranges::any_of(op.inputs, [&](const CompareInput& input) {
      return input.is_read && input.from != kNoOp && !seen.contains(input.from);
    });
    if (joins && *at != from && facts.pairs.is_alone(in_golden, *at)) return *at;
    for (const std::uint32_t reader : op.readers) {
      if (reader > *at) seen.insert(reader);  // behind `at`: the order is kept
    }
  }
  return kNoOp;
}

bool name_lost_term(const CompareFacts& facts, StepFindings& findings, const ComparedOp& op, bool in_golden,
                    const std::string& shown) {
  const std::uint32_t alone = term_alone(facts, in_golden ? op.golden_index : op.target_index, in_golden);
  if (alone == kNoOp) return false;
  const CompareSide& side = facts.side(in_golden);
  findings.add(in_golden ? FindingKind::missing : FindingKind::inserted, op, side.ops[alone].op, in_golden, nullptr,
               fmt::format("has no counterpart in the {}, and gradients differ: {}", name_of_other(in_golden), shown));
  findings.all().back().place = in_golden ? facts.pairs.place_of_golden(alone) : alone;
  return true;
}

// The first op whose result the backward pass of one of the two reads, and that of the other does not: an op that both
// call has fewer derivatives there. Where nothing is differentiated, it may run in a step of its own.
void name_differentiated(const CompareFacts& facts, StepFindings& findings, std::uint32_t place,
                         const std::string& shown) {
  std::map<ForwardOrigin, Calls> mine = calls_of(facts.target), theirs = calls_of(facts.golden);
  const std::uint32_t end = std::min(place, first_of_backward(facts.target));
  for (const ComparedOp& op : facts.pairs.ops()) {
    if (op.target.size() != 1 || op.golden.size() != 1 || op.target_index >= end) continue;
    const std::set<ForwardOrigin> own = derivatives_that_read(facts.target, op.target_index);
    const std::set<ForwardOrigin> golden = derivatives_that_read(facts.golden, op.golden_index);
    if (own.empty() == golden.empty()) continue;
    const bool in_target = golden.empty();
    const bool has_more = std::ranges::any_of(in_target ? own : golden, [&](const ForwardOrigin& origin) {
      const Calls &more = in_target ? mine[origin] : theirs[origin], &fewer = in_target ? theirs[origin] : mine[origin];
      return fewer.forward > 0 && more.backward > fewer.backward;
    });
    if (!has_more) continue;
    if (name_lost_term(facts, findings, op, !in_target, shown)) return;
    findings.add(FindingKind::changed, op, op.target.front(), false, nullptr,
                 fmt::format("is differentiated in the {} alone (a detach or no_grad in the other?), and gradients "
                             "differ: {}",
                             in_target ? "target" : "golden run", shown));
    findings.all().back().place = op.target_index;
    return;
  }
}

// Ops that begin a backward pass, and the ops whose results these are.
std::vector<std::pair<std::uint32_t, std::uint32_t>> beginnings(const CompareSide& side) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> found;
  for (std::uint32_t op = 0; op < side.ops.size(); ++op) {
    if (!begins_backward(side.ops[op].op->op_type) || phase_of(*side.ops[op].op) == Phase::optimizer) continue;
    for (const CompareInput& input : side.ops[op].inputs) {
      if (input.from != kNoOp) found.emplace_back(op, input.from);
    }
  }
  return found;
}

std::string where(const CompareSide& side, std::uint32_t op) {
  return fmt::format("{}, {}", side.ops[op].op->op_type, place_text(*side.ops[op].op));
}

// A backward pass of the two begins at another result, as at a loss without one of its terms.
bool name_other_beginning(const CompareFacts& facts, StepFindings& findings, const std::string& shown) {
  const auto mine = beginnings(facts.target), theirs = beginnings(facts.golden);
  if (mine.size() != theirs.size()) return false;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const ComparedOp* begins = facts.pairs.of_target(mine[i].first);
    const ComparedOp* loss = facts.pairs.of_target(mine[i].second);
    if (begins == nullptr || begins->golden.empty() || begins->golden_index != theirs[i].first) return false;
    if (loss == nullptr || loss->golden.empty() || loss->golden_index == theirs[i].second) continue;
    findings.add(
        FindingKind::changed, *begins, begins->target.front(), false, nullptr,
        fmt::format("begins the backward pass at the result of {}, and the golden run at that of {}; gradients "
                    "differ: {}",
                    where(facts.target, mine[i].second), where(facts.golden, theirs[i].second), shown));
    findings.all().back().place = mine[i].second;  // before what the backward pass lacks
    return true;
  }
  return false;
}

}  // namespace

void name_suspects(const CompareFacts& facts, StepFindings& findings, const ComparedOp* suspect) {
  const CompareFinding* first = findings.first();
  const bool any_rounding = std::ranges::any_of(facts.pairs.ops(), [](const ComparedOp& op) {
    return op.verdict == OpVerdict::within_tolerance || op.verdict == OpVerdict::propagated;
  });
  if (suspect != nullptr && (first != nullptr ? first->place > suspect->target_index : any_rounding)) {
    const std::vector<std::string> apart = numbers_apart(*suspect->target.back(), *suspect->golden.back());
    findings.add(FindingKind::number, *suspect, suspect->target.back(), false, nullptr,
                 fmt::format("is called with {}: its own result is the same, but later results differ", apart.front()));
    return;
  }
  if (first == nullptr || first->op->target.empty()) {
    if (first == nullptr || first->kind != FindingKind::missing) return;
  } else if (phase_of(*first->op->target.front()) == Phase::forward) {
    return;
  }
  const std::string shown = fmt::format("{} {}", first->culprit->op_name, first->what);
  const bool is_of_gradients = phase_of(*first->culprit) == Phase::backward && !first->of_other_batches &&
                               !nature_of(*first->culprit).collective;
  if (name_detach(facts, findings, first->place, shown) || !is_of_gradients) return;
  if (name_other_beginning(facts, findings, shown)) return;
  name_differentiated(facts, findings, first->place, shown);
}

}  // namespace sonde
