#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "ask/compare/compare_passes.h"
#include "ask/compare/compare_words.h"
#include "ask/compare/effects.h"
#include "ask/compare/left_out.h"
#include "ask/compare/step_ends.h"
#include "read/measure/slot_values.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

constexpr std::uint64_t kMostSorted = 1 << 24;  // elements of a tensor
constexpr std::size_t kMostLooked = 512;        // pairs of tensors

std::vector<double> sorted_values(const TensorOf& of) {
  const std::optional<SlotValues> slot = SlotValues::open(*of.rank, *of.tensor);
  std::vector<double> values = slot ? slot->values() : std::vector<double>();
  if (std::ranges::any_of(values, [](double value) { return std::isnan(value); })) return {};
  std::ranges::sort(values);
  return values;
}

// The relative error between the elements of both, each in the order of their size. Empty: unknown.
std::optional<double> error_in_any_order(const CompareFacts& facts, const ComparedTensor& tensor) {
  const TensorDifference& difference = *tensor.difference;
  if (!difference.comparable() || difference.by != ComparedBy::values) return std::nullopt;
  const double direct = difference.relative();
  if (difference.equal || direct <= kEndRounding * coarser_spacing(difference)) return direct;
  if (difference.count > kMostSorted || tensor.golden == nullptr) return std::nullopt;
  const std::vector<double> mine = sorted_values(facts.of_target(tensor.target));
  const std::vector<double> theirs = sorted_values(facts.of_golden(tensor.golden));
  if (mine.empty() || mine.size() != theirs.size()) return std::nullopt;
  double squares = 0, golden = 0;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (mine[i] == theirs[i]) continue;  // also infinite ones
    squares += (mine[i] - theirs[i]) * (mine[i] - theirs[i]);
  }
  for (const double value : theirs) golden += value * value;
  return golden > 0 ? std::sqrt(squares / golden) : direct;
}

// The first op of the forward pass that reads units in another order, all of them as large as the golden ones, and gives
// others; null: there is none, or a product shows it first: then it is a weight whose order is wrong.
const ComparedOp* first_with_other_units(const CompareFacts& facts, double& error) {
  std::size_t looked = 0;
  for (const ComparedOp& op : facts.pairs.ops()) {
    if (looked >= kMostLooked) break;
    if (op.target.empty() || op.golden.empty() || op.outputs.empty() || op.inputs.empty()) continue;
    if (phase_of(*op.target.front()) != Phase::forward || op.kind == OpKind::copy) continue;  // a part has other units
    const auto is_far = [](const ComparedTensor& tensor) { return tensor.difference->relative() > kMaxExplainable; };
    if (std::ranges::none_of(op.inputs, is_far)) continue;
    double before = 0, after = 0, spacing = 0;
    bool known = true;
    const auto look = [&](const std::vector<ComparedTensor>& tensors, double& largest) {
      for (const ComparedTensor& tensor : tensors) {
        ++looked;
        const std::optional<double> apart = error_in_any_order(facts, tensor);
        known = known && apart;
        largest = std::max(largest, apart.value_or(0));
        spacing = std::max(spacing, coarser_spacing(*tensor.difference));
      }
    };
    look(op.inputs, before);
    if (!known || before > kEndRounding * spacing) continue;
    look(op.outputs, after);
    if (!known || after <= std::max(kEndRounding * spacing, 100 * before)) continue;
    if (op.kind == OpKind::contraction) return nullptr;
    error = after;
    return &op;
  }
  return nullptr;
}

}  // namespace

void look_at_units_in_another_order(const CompareFacts& facts, StepFindings& findings) {
  if (facts.history.layout == nullptr || facts.history.layout->empty()) return;
  if (std::ranges::none_of(findings.all(), [&](const CompareFinding& one) { return is_in_another_layout(facts, one); }))
    return;
  // Two whole parameters that were exchanged are not units in another order: nothing puts them back.
  if (std::ranges::any_of(findings.all(), &CompareFinding::exchanged)) return;
  if (StepEnds(facts).results_and_gradients_agree()) return;
  double error = 0;
  const ComparedOp* found = first_with_other_units(facts, error);
  if (found == nullptr) return;
  const ComparedOp& op = *found;
  std::set<const CompareFinding*> relaid;
  for (const CompareFinding& one : findings.all()) {
    if (is_in_another_layout(facts, one)) relaid.insert(&one);
  }
  findings.leave_out(relaid);
  note_layouts(facts, findings);
  const_cast<ComparedOp&>(op).verdict = OpVerdict::introduced;
  CompareFinding& finding =
      findings.add(FindingKind::op, op, op.target.back(), false, &op.outputs.front(),
                   fmt::format("relative error {:.3g} between the elements in the order of their size; its inputs "
                               "are the golden ones in another order",
                               error));
  for (const std::string& one : attributes_apart(*op.target.back(), *op.golden.back())) {
    finding.what += "; called with " + one;
  }
  finding.certain = true;
}

}  // namespace sonde
