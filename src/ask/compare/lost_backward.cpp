#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "ask/compare/compare_passes.h"
#include "ask/compare/compare_words.h"
#include "ask/compare/op_groups.h"
#include "read/operators/op_nature.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

// Of an op that ran forward, or of one of the backward pass as if it had.
ForwardOrigin place_of(const CompareOp& op) {
  const std::string_view forward = differentiated_by(op).scope;
  return {forward.empty() ? without_gradients(op.scope) : forward, op.op->op_type};
}

bool is_call(const CompareOp& op) { return begins_backward(op.op->op_type) && phase_of(*op.op) != Phase::optimizer; }

struct LostBackward {
  Group ops;                            // of the side that has them, in order
  std::vector<std::string_view> types;  // of the ops that are not differentiated on the other side
  std::uint32_t call = kNoOp;           // of the target: begins the backward that is not differentiated again
};

// By an op that ran forward on this side: the places on the other side where the same is computed.
std::map<ForwardOrigin, std::set<ForwardOrigin>> counterparts(const CompareFacts& facts, bool in_golden) {
  std::map<ForwardOrigin, std::set<ForwardOrigin>> places;
  for (const ComparedOp& op : facts.pairs.ops()) {
    if (op.target.size() + op.golden.size() < 3 || op.target.empty() || op.golden.empty()) continue;
    for (const std::uint32_t own : ops_of(facts.side(in_golden), in_golden ? op.golden : op.target,
                                          in_golden ? op.golden_index : op.target_index)) {
      for (const std::uint32_t other : ops_of(facts.side(!in_golden), in_golden ? op.target : op.golden,
                                              in_golden ? op.target_index : op.golden_index)) {
        places[place_of(facts.side(in_golden).ops[own])].insert(place_of(facts.side(!in_golden).ops[other]));
      }
    }
  }
  return places;
}

// Ops of `side` without a counterpart, whose forward op the other side has, too, but nothing of its backward.
LostBackward lost_backward(const CompareFacts& facts, bool in_golden) {
  const CompareSide &side = facts.side(in_golden), &other = facts.side(!in_golden);
  std::set<ForwardOrigin> there, differentiated, backward;
  for (const CompareOp& op : other.ops) {
    there.insert(place_of(op));
    differentiated.insert(differentiated_by(op));
    if (phase_of(*op.op) == Phase::backward) backward.insert(place_of(op));
  }
  const std::map<ForwardOrigin, std::set<ForwardOrigin>> same = counterparts(facts, in_golden);
  const auto is_in = [&](const std::set<ForwardOrigin>& places, const ForwardOrigin& origin) {
    const auto found = same.find(origin);
    return places.contains(origin) ||
           (found != same.end() &&
            std::ranges::any_of(found->second, [&](const ForwardOrigin& place) { return places.contains(place); }));
  };
  LostBackward lost;
  std::optional<ForwardOrigin> again;
  for (std::uint32_t at = 0; at < side.ops.size(); ++at) {
    const ForwardOrigin origin = differentiated_by(side.ops[at]);
    if (origin.type.empty() || !facts.pairs.is_alone(in_golden, at)) continue;
    if (!is_in(there, origin) || is_in(differentiated, origin)) continue;
    lost.ops.push_back(at);
    if (std::ranges::find(lost.types, origin.type) == lost.types.end()) lost.types.push_back(origin.type);
    if (!again && backward.contains(origin)) again = origin;
  }
  if (!again) return lost;
  for (std::uint32_t t = 0; t < facts.target.ops.size(); ++t) {
    if (is_call(facts.target.ops[t])) lost.call = t;
    if (phase_of(*facts.target.ops[t].op) == Phase::backward && place_of(facts.target.ops[t]) == *again) return lost;
  }
  return lost;
}

// One of `ops` is among what the op was computed from, by ops of its own side alone.
bool comes_from(const CompareFacts& facts, std::uint32_t op, bool in_golden, const Group& ops) {
  const CompareSide& side = facts.side(in_golden);
  std::set<std::uint32_t> visited = {op};
  Group border = {op};
  while (!border.empty()) {
    const std::uint32_t at = border.back();
    border.pop_back();
    if (std::ranges::binary_search(ops, at)) return true;
    for (const CompareInput& input : side.ops[at].inputs) {
      if (facts.pairs.is_alone(in_golden, input.from) && visited.insert(input.from).second)
        border.push_back(input.from);
    }
  }
  return false;
}

void name_lost_backward(const CompareFacts& facts, CompareFinding& finding, const LostBackward& lost, bool in_golden) {
  constexpr std::size_t kMostTypesNamed = 4;
  const CompareSide& side = facts.side(in_golden);
  std::string types = fmt::format(
      "{}", fmt::join(lost.types.begin(), lost.types.begin() + std::min(lost.types.size(), kMostTypesNamed), ", "));
  if (lost.types.size() > kMostTypesNamed) types += fmt::format(" and {} more", lost.types.size() - kMostTypesNamed);
  const bool is_again = lost.call != kNoOp;
  const std::string shows = finding.tensor != nullptr
                                ? fmt::format(", which changes what {} reads", finding.op->target.front()->op_name)
                                : "";
  finding.what = fmt::format("{}the {} has no backward of {} ({} ops){}",
                             is_again ? "the gradients that begin here are not differentiated in one of the two: " : "",
                             name_of_other(in_golden), types, lost.ops.size(), shows);
  if (is_again) {
    finding.culprit = facts.target.ops[lost.call].op;
    finding.in_golden = false;
    finding.place = lost.call;
    return;
  }
  finding.culprit = side.ops[lost.ops.front()].op;
  finding.place = in_golden ? facts.pairs.place_of_golden(lost.ops.front()) : lost.ops.front();
}

// Second derivatives that one of the two lacks leave its backward passes with other numbers of ops, which pair at random:
// the call behind which they are lost comes first, unless something before it differs.
bool name_at_its_call(const CompareFacts& facts, StepFindings& findings, const LostBackward& lost, bool in_golden) {
  const ComparedOp* call = lost.call == kNoOp ? nullptr : facts.pairs.of_target(lost.call);
  if (call == nullptr) return false;
  const auto is_before = [&](const CompareFinding& finding) { return finding.place < lost.call; };
  const auto is_guess = [](const CompareFinding& finding) { return finding.uncertain; };
  if (std::ranges::any_of(findings.all(), is_before) || !std::ranges::any_of(findings.all(), is_guess)) return false;
  CompareFinding& finding = findings.add(in_golden ? FindingKind::missing : FindingKind::inserted, *call,
                                         call->target.front(), false, nullptr, "");
  name_lost_backward(facts, finding, lost, in_golden);
  const CatalogOp* culprit = finding.culprit;
  std::erase_if(findings.all(), [&](const CompareFinding& other) {
    return other.culprit != culprit && phase_of(*other.culprit) == Phase::backward;
  });
  return true;
}

}  // namespace

void find_lost_backward(const CompareFacts& facts, StepFindings& findings) {
  for (const bool in_golden : {true, false}) {
    const FindingKind kind = in_golden ? FindingKind::missing : FindingKind::inserted;
    const auto is_of = [&](const CompareFinding& finding) {
      const Phase phase = phase_of(*finding.culprit);
      return finding.kind == kind && finding.in_golden == in_golden &&
             (phase == Phase::backward || phase == Phase::optimizer);
    };
    if (std::ranges::none_of(findings.all(), is_of)) continue;
    const LostBackward lost = lost_backward(facts, in_golden);
    if (lost.ops.size() < 2) continue;
    if (name_at_its_call(facts, findings, lost, in_golden)) return;
    const CompareSide& side = facts.side(in_golden);
    bool is_named = false;
    std::erase_if(findings.all(), [&](CompareFinding& finding) {
      if (!is_of(finding)) return false;
      const auto own = std::ranges::find(side.ops, finding.culprit, &CompareOp::op);
      if (!comes_from(facts, static_cast<std::uint32_t>(own - side.ops.begin()), in_golden, lost.ops)) return false;
      if (is_named) return true;
      is_named = true;
      name_lost_backward(facts, finding, lost, in_golden);
      return false;
    });
  }
}

}  // namespace sonde
