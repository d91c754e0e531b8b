#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "ask/compare/compare_passes.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

constexpr std::size_t kMostNames = 3;

using Names = std::set<std::string_view>;

// By the parameter's name on one side: its names on the other, as matched ops read them in one slot.
struct SharedParameters {
  std::map<std::string_view, Names> golden_of, target_of;
};

SharedParameters shared_parameters(const CompareFacts& facts) {
  SharedParameters shared;
  for (std::uint32_t t = 0; t < facts.pairs.size(); ++t) {
    const ComparedOp* op = facts.pairs.of_target(t);
    if (op == nullptr || op->target.size() != 1 || op->golden.size() != 1 || op->golden_index == kNoOp) continue;
    if (phase_of(*op->target.front()) != Phase::forward || facts.pairs.match_of(t).by_order_alone) continue;
    for (const CompareInput& mine : facts.target.ops[t].inputs) {
      for (const CompareInput& theirs : facts.golden.ops[op->golden_index].inputs) {
        if (mine.tensor->slot != theirs.tensor->slot || mine.from != kNoOp || theirs.from != kNoOp) continue;
        const TensorName &name = mine.tensor->parameter, &golden = theirs.tensor->parameter;
        if (!name.is_parameter() || !golden.is_parameter()) continue;
        shared.golden_of[name].insert(golden);
        shared.target_of[golden].insert(name);
      }
    }
  }
  return shared;
}

// The parameters that the forward op reads whose gradient the finding's op computes.
Names parameters_of(const CompareSide& side, const CatalogOp* op) {
  Names names;
  const auto at = std::ranges::find(side.ops, op, &CompareOp::op);
  if (at == side.ops.end()) return names;
  const ForwardOrigin origin = differentiated_by(*at);
  if (origin.type.empty()) return names;
  for (const CompareOp& one : side.ops) {
    if (one.scope != origin.scope || one.op->op_type != origin.type) continue;
    for (const CompareInput& input : one.inputs) {
      if (input.from == kNoOp && input.tensor->parameter.is_parameter()) names.insert(input.tensor->parameter);
    }
  }
  return names;
}

std::string names_text(const Names& names) {
  const std::vector<std::string_view> all(names.begin(), names.end());
  const std::vector<std::string_view> shown(all.begin(), all.begin() + std::min(all.size(), kMostNames));
  const std::string more = all.size() > kMostNames ? fmt::format(" and {} more", all.size() - kMostNames) : "";
  return fmt::format("{}{}", fmt::join(shown, ", "), more);
}

// "one parameter of the target, fc.weight, is 2 in the golden run: fc.weight, head.weight"; empty: none of them is.
std::string shared_text(const Names& names, const std::map<std::string_view, Names>& others, bool in_golden) {
  for (const std::string_view name : names) {
    const auto found = others.find(name);
    if (found == others.end() || found->second.size() < 2) continue;
    return fmt::format("one parameter of the {}, {}, is {} in the {}: {}", in_golden ? "golden run" : "target", name,
                       found->second.size(), in_golden ? "target" : "golden run", names_text(found->second));
  }
  return "";
}

// Tied weights, one module in several places: what is one parameter here is several there, or the other way around.
std::string sharing_text(const CompareFacts& facts, const CompareFinding& finding, const SharedParameters& shared) {
  const Names own = parameters_of(facts.side(finding.in_golden), finding.culprit);
  const auto& others = finding.in_golden ? shared.target_of : shared.golden_of;
  const std::string text = shared_text(own, others, finding.in_golden);
  if (!text.empty()) return text;
  Names of_other_side;
  for (const std::string_view name : own) {
    const auto found = others.find(name);
    if (found != others.end()) of_other_side.insert(found->second.begin(), found->second.end());
  }
  return shared_text(of_other_side, finding.in_golden ? shared.golden_of : shared.target_of, !finding.in_golden);
}

// The op of one side alone adds to a gradient that an earlier backward pass left: of before the step, or, in the step, the
// result of a detach, which is how a first gradient is kept.
bool adds_to_gradient_of_before(const CompareSide& side, const CompareFinding& finding) {
  if (finding.kind != FindingKind::inserted && finding.kind != FindingKind::missing) return false;
  const auto at = std::ranges::find(side.ops, finding.culprit, &CompareOp::op);
  if (at == side.ops.end() || !at->in_place || bare_type(at->op->op_type) != "add" || at->inputs.empty()) return false;
  const std::uint32_t from = at->inputs.front().from;
  return from == kNoOp || is_detach(bare_type(side.ops[from].op->op_type));
}

}  // namespace

void explain_gradients(const CompareFacts& facts, StepFindings& findings) {
  std::optional<SharedParameters> shared;
  for (CompareFinding& finding : findings.all()) {
    if (phase_of(*finding.culprit) != Phase::backward) continue;
    if (!shared) shared = shared_parameters(facts);
    const std::string sharing = sharing_text(facts, finding, *shared);
    if (!sharing.empty()) {
      finding.what += "; " + sharing;
    } else if (adds_to_gradient_of_before(facts.side(finding.in_golden), finding)) {
      finding.what += "; it adds to a gradient that was there before (is zero_grad called in between?)";
    }
  }
}

}  // namespace sonde
