#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ask/compare/compare_passes.h"
#include "ask/compare/compare_words.h"
#include "ask/compare/input_checks.h"
#include "ask/compare/step_ends.h"
#include "sonde/dtype.h"

namespace sonde {
namespace {

constexpr double kJump = 100;  // an error this many times as large as those before it did not grow from them
constexpr std::size_t kMostNamed = 4;

// Rounding of a few ops, and what grows from `before`, do not explain it.
bool is_jump(const TensorDifference& difference, double before) {
  if (before >= kMaxExplainable || difference.by == ComparedBy::nothing || difference.by == ComparedBy::checksum) {
    return false;
  }
  return difference.relative() > std::max({1e-3, 8 * coarser_spacing(difference), kJump * before});
}

std::string short_name(const CatalogOp& op) { return std::string(op.op_name.substr(op.op_name.rfind('/') + 1)); }

std::string_view reason_not_read(const CatalogOp& op) {
  for (const CatalogTensor& tensor : op.tensors) {
    if (tensor.skipped.reason != NotRead::nothing && !tensor.skipped.is_undefined()) return tensor.skipped;
  }
  return "";
}

bool decides(OpKind kind) { return kind == OpKind::selection || kind == OpKind::random || kind == OpKind::collective; }

struct Unseen {
  Group ops;             // in order
  double before = 0;     // the largest known relative error of what they read
  bool is_open = false;  // they read something else, too
  bool decides = false;  // a small error may have a large effect in one of them
};

// The ops before `from` of which nothing was compared, and the largest error that reaches them.
Unseen unseen_before(const CompareFacts& facts, std::uint32_t from) {
  Unseen unseen;
  std::set<std::uint32_t> region = {from};
  Group border = {from};
  while (!border.empty()) {
    const std::uint32_t at = border.back();
    border.pop_back();
    const ComparedOp* own = facts.pairs.of_target(at) == nullptr ? nullptr : facts.pairs.of_target(at);
    unseen.decides = unseen.decides || decides(facts.target.ops[at].kind);
    for (const CompareInput& input : facts.target.ops[at].inputs) {
      if (!input.is_read) continue;
      const TensorDifference* known = nullptr;
      if (own != nullptr) {
        const auto read = std::ranges::find(own->inputs, input.tensor, &ComparedTensor::target);
        if (read != own->inputs.end() && read->difference->comparable()) known = read->difference;
      }
      if (known == nullptr && input.from != kNoOp && facts.pairs.of_target(input.from) != nullptr) {
        const ComparedOp& maker = *facts.pairs.of_target(input.from);
        for (const ComparedTensor& output : maker.outputs) {
          if (output.target->slot == input.from_slot && output.difference->comparable()) known = output.difference;
        }
      }
      if (known != nullptr) {
        unseen.before = std::max(unseen.before, known->equal ? 0 : known->relative());
      } else if (input.from == kNoOp) {
        unseen.is_open = unseen.is_open || !input.tensor->constant;
      } else if (region.insert(input.from).second) {
        border.push_back(input.from);
      }
    }
  }
  unseen.ops.assign(region.begin(), region.end());
  return unseen;
}

// The ops of the golden run that made what was not recorded.
Group unseen_golden(const CompareFacts& facts, std::uint32_t from) {
  std::set<std::uint32_t> region = {from};
  Group border = {from};
  while (!border.empty()) {
    const std::uint32_t at = border.back();
    border.pop_back();
    for (const CompareInput& input : facts.golden.ops[at].inputs) {
      if (input.from == kNoOp || input.tensor->recorded() || !input.is_read) continue;
      if (region.insert(input.from).second) border.push_back(input.from);
    }
  }
  return {region.begin(), region.end()};
}

void report_unseen(const CompareFacts& facts, StepFindings& findings, const ComparedOp& op, const PairedInput& input,
                   const ComparedTensor& shown, const Unseen& unseen) {
  const Group golden = unseen_golden(facts, input.golden.input->from);
  const std::string effect = fmt::format("input.{} of {} differs: {}", shown.target->slot,
                                         short_name(*op.target.front()), difference_text(FindingKind::data, shown));
  const std::string settle =
      fmt::format("their tensors were not recorded ({}); a run of this part without the transformation settles it",
                  reason_not_read(*facts.target.ops[unseen.ops.back()].op));
  const auto add = [&](FindingKind kind, const CatalogOp* culprit, bool in_golden, std::uint32_t place,
                       const std::string& what) {
    CompareFinding& finding = findings.add(kind, op, culprit, in_golden, &shown, what);
    finding.uncertain = true;
    finding.place = place;
  };
  for (const std::uint32_t at : unseen.ops) {
    if (facts.pairs.of_target(at) == nullptr || !facts.pairs.of_target(at)->golden.empty()) continue;
    return add(FindingKind::inserted, facts.target.ops[at].op, false, at,
               fmt::format("has no counterpart in the golden dump, and {}; {}", effect, settle));
  }
  for (const std::uint32_t at : golden) {
    if (facts.pairs.of_golden(at) != nullptr || facts.pairs.is_promised(at)) continue;
    return add(FindingKind::missing, facts.golden.ops[at].op, true, unseen.ops.front(),
               fmt::format("has no counterpart in the target, and {}; {}", effect, settle));
  }
  for (const std::uint32_t at : unseen.ops) {
    const ComparedOp& pair = *facts.pairs.of_target(at);
    const std::vector<std::string> apart = attributes_apart(*pair.target.back(), *pair.golden.back());
    if (apart.empty()) continue;
    return add(FindingKind::number, facts.target.ops[at].op, false, at,
               fmt::format("is called with {}, and {}; {}", apart.front(), effect, settle));
  }
  std::vector<std::string> others;
  for (std::size_t i = 1; i < std::min(unseen.ops.size(), kMostNamed + 1); ++i) {
    others.push_back(short_name(*facts.target.ops[unseen.ops[i]].op));
  }
  const std::string rest = others.empty() ? "" : fmt::format(", or one of {} does", fmt::join(others, ", "));
  add(FindingKind::op, facts.target.ops[unseen.ops.front()].op, false, unseen.ops.front(),
      fmt::format("{} in input.{} of {}{}; {}", difference_text(FindingKind::data, shown), shown.target->slot,
                  short_name(*op.target.front()), rest, settle));
}

}  // namespace

bool check_unseen(const CompareFacts& facts, StepFindings& findings, const ComparedOp& op, const PairedInput& input,
                  ComparedTensor& shown) {
  const std::uint32_t from = input.target.input->from;
  if (from == kNoOp || !input.difference->same_shape) return false;
  const std::string_view why = reason_not_read(*facts.target.ops[from].op);
  if (why.empty()) return false;  // memory that Python fills is data
  const Unseen unseen = unseen_before(facts, from);
  const double before =
      std::max({unseen.before, unseen.is_open ? facts.seen.now : 0, unseen.is_open ? facts.seen.before : 0});
  if (!is_jump(*input.difference, before) || (unseen.decides && before > 0)) return true;
  shown.beyond = true;
  report_unseen(facts, findings, op, input, shown, unseen);
  return true;
}

namespace {

// Of a step that ends otherwise, though no op was found to differ by itself.
void add_end(const CompareFacts& facts, StepFindings& findings, const CatalogTensor* end,
             std::vector<ComparedTensor> ComparedOp::*where, std::string_view what, std::string_view why) {
  if (end == nullptr) return;
  for (const ComparedOp& op : facts.pairs.ops()) {
    const std::vector<ComparedTensor>& tensors = op.*where;
    const auto at = std::ranges::find(tensors, end, &ComparedTensor::target);
    if (at == tensors.end() || at->difference->equal || op.target.empty() || op.golden.empty()) continue;
    const std::string text = fmt::format("{}: {}; {}", what, difference_text(FindingKind::data, *at), why);
    const CatalogOp* shown = where == &ComparedOp::inputs ? op.target.front() : op.target.back();
    findings.add(FindingKind::op, op, shown, false, &*at, text).uncertain = true;
    return;
  }
}

// The backward passes came to other gradients, or the two trainings to other losses: a pair was set aside, or an op of one
// side alone is the cause.
void find_other_end(const CompareFacts& facts, StepFindings& findings) {
  constexpr double kLeast = 1e-3;
  if (facts.options.tolerance.given()) return;
  StepEnds ends(facts);
  if (const CatalogTensor* gradient = ends.other_gradient(kMaxExplainable)) {
    add_end(facts, findings, gradient, &ComparedOp::inputs,
            fmt::format("reads {}, which differs although the losses agree", gradient->parameter),
            "no op of the backward passes was found to differ by itself");
  }
  if (findings.empty()) {
    add_end(facts, findings, ends.other_loss(kLeast), &ComparedOp::outputs, "gives another loss",
            "no op before it was found to differ by itself (--all shows those that have no counterpart)");
  }
}

}  // namespace

void find_jump(const CompareFacts& facts, StepFindings& findings) {
  // The loss of other rows is another number.
  if (!findings.empty() || facts.history.found || findings.has_notes()) return;
  double seen = facts.seen.before;
  for (const ComparedOp& op : facts.pairs.ops()) {
    if (op.target.empty() || op.golden.empty()) continue;
    // Of two types that likeness alone has paired, one may give something else.
    if (is_guess(op.how) && shared_type(op.target.back()->op_type) != shared_type(op.golden.back()->op_type)) continue;
    double before = 0, scale = 0;
    for (const ComparedTensor& input : op.inputs) {
      if (!input.difference->comparable()) continue;
      before = std::max(before, input.difference->equal ? 0 : input.difference->relative());
      scale = std::max(scale, input.difference->rms);
    }
    if (op.inputs.empty()) before = seen;
    for (const ComparedTensor& output : op.outputs) {
      const TensorDifference& difference = *output.difference;
      if (!difference.comparable() || difference.equal) continue;
      // Of sums that cancel only rounding is left.
      const bool is_left_over = difference.rms_error <= 64 * coarser_spacing(difference) * scale;
      const bool is_found = op.verdict == OpVerdict::propagated && !decides(op.kind) && !is_left_over &&
                            difference.relative() >= kMaxExplainable && is_jump(difference, std::max(before, seen));
      if (is_found && StepEnds(facts).results_and_gradients_agree()) return;
      if (is_found) {
        const std::string what = difference_text(FindingKind::data, output) +
                                 "; what it reads agrees as far as it is known: tensors of all ops before it settle it";
        findings.add(FindingKind::op, op, op.target.back(), false, &output, what).uncertain = true;
        return;
      }
      seen = std::max(seen, is_left_over ? 0 : difference.relative());
    }
  }
  find_other_end(facts, findings);
}

}  // namespace sonde
