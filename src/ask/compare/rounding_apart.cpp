#include <fmt/format.h>

#include <algorithm>

#include "ask/compare/compare_passes.h"
#include "ask/compare/compare_words.h"
#include "ask/compare/input_checks.h"
#include "ask/compare/op_groups.h"
#include "read/operators/op_nature.h"
#include "sonde/dtype.h"

namespace sonde {
namespace {

// The op of the group that does the work, without views and casts around it; kNoOp: there is none, or several.
std::uint32_t worker_of(const CompareSide& side, const Group& group) {
  std::uint32_t worker = kNoOp;
  for (const std::uint32_t at : group) {
    if (moves_or_casts(side.ops[at].kind)) continue;
    if (worker != kNoOp) return kNoOp;
    worker = at;
  }
  return worker;
}

// The type in which an op computes; undefined: not a floating one.
DType type_of_work(const CompareOp& op) {
  if (op.outputs.empty() || !is_floating(op.outputs.front()->dtype)) return DType::undefined;
  return op.outputs.front()->dtype;
}

bool has_equal_outputs(const ComparedOp& op) {
  return std::ranges::all_of(op.outputs, [](const ComparedTensor& output) {
    return output.difference->comparable() && output.difference->equal;
  });
}

// Statistics of the same values in two types are added up with other roundings.
bool is_same(const TensorDifference& read) {
  return read.equal || (read.by == ComparedBy::statistics && read.dtype != read.golden_dtype && read.relative() < 1e-6);
}

// Equal, or in another type and no further apart than one rounding to the coarser of the two.
bool is_equal_but_for_a_cast(const ComparedTensor& input) {
  const TensorDifference& read = *input.difference;
  if (!read.comparable() || read.by == ComparedBy::checksum) return false;
  if (read.equal) return true;
  return read.dtype != read.golden_dtype && read.different_non_finite == 0 &&
         read.relative() <= 0.5 * coarser_spacing(read);
}

std::optional<double> number_of(const ComparedTensor& input, bool of_golden) {
  const CatalogTensor* tensor = of_golden ? input.golden : input.target;
  if (tensor != nullptr && tensor->constant) return *tensor->constant;
  const TensorDifference& read = *input.difference;
  if (read.by == ComparedBy::values) return of_golden ? read.worst_golden : read.worst_value;
  return of_golden ? read.golden_statistics.max : read.statistics.max;
}

// Results of later ops differ, too: none of them rounds the difference away.
bool is_carried_on(const CompareFacts& facts, const ComparedOp& op) {
  std::vector<bool> visited(facts.target.ops.size(), false);
  Group border = {op.target_index};
  while (!border.empty()) {
    const std::uint32_t at = border.back();
    border.pop_back();
    for (const std::uint32_t reader : facts.target.ops[at].readers) {
      if (visited[reader]) continue;
      visited[reader] = true;
      if (facts.pairs.of_target(reader) == nullptr) continue;
      const ComparedOp& next = *facts.pairs.of_target(reader);
      if (next.golden.empty() || next.target_index != reader) {
        border.push_back(reader);
      } else if (!next.outputs.empty() && !has_equal_outputs(next)) {
        return true;
      }
    }
  }
  return false;
}

// The slot of a number that the two programs give to the same op, in which they differ by more than an order of its
// computation explains; null: none, or something else that it reads differs, too.
const ComparedTensor* other_number(const ComparedOp& op) {
  constexpr double kSameNumber = 1e-6;
  const ComparedTensor* number = nullptr;
  for (const ComparedTensor& input : op.inputs) {
    const TensorDifference& read = *input.difference;
    if (!read.comparable()) return nullptr;
    if (is_same(read)) continue;
    const bool is_written_out =
        input.golden != nullptr && (input.target->constant.has_value() || input.golden->constant.has_value());
    if (number != nullptr || !is_written_out || read.count != 1 || read.by == ComparedBy::checksum) return nullptr;
    if (read.relative() <= kSameNumber) return nullptr;
    number = &input;
  }
  return number;
}

// Only casts, and its own backward, read the result of the op.
bool only_casts_follow(const CompareSide& side, std::uint32_t op, DType to) {
  const Phase phase = phase_of(*side.ops[op].op);
  return std::ranges::all_of(side.ops[op].readers, [&](std::uint32_t reader) {
    if (phase_of(*side.ops[reader].op) != phase) return true;
    return side.ops[reader].kind == OpKind::cast && type_of_work(side.ops[reader]) == to;
  });
}

// In runs of one precision: one of the two computes this op in a coarse type and the other one in a finer type, from
// values that are the same but for a cast.
bool computes_in_another_type(const CompareFacts& facts, const ComparedOp& op, DType& mine, DType& theirs) {
  const std::uint32_t target = worker_of(facts.target, ops_of(facts.target, op.target, op.target_index));
  const std::uint32_t golden = worker_of(facts.golden, ops_of(facts.golden, op.golden, op.golden_index));
  if (target == kNoOp || golden == kNoOp) return false;
  if (!OpFamilies::same(*facts.target.ops[target].family, *facts.golden.ops[golden].family)) return false;
  mine = type_of_work(facts.target.ops[target]);
  theirs = type_of_work(facts.golden.ops[golden]);
  if (mine == theirs || mine == DType::undefined || theirs == DType::undefined) return false;
  if (std::max(epsilon_of(mine), epsilon_of(theirs)) <= epsilon_of(DType::float32)) return false;
  if (phase_of(*op.target.back()) == Phase::backward) return false;  // as its forward op does
  if (op.inputs.empty() || !std::ranges::all_of(op.inputs, is_equal_but_for_a_cast)) return false;
  // A single op computes in float32 anyway: from the same values to the same type, nothing is rounded more than once.
  const bool reads_the_same =
      std::ranges::all_of(op.inputs, [](const ComparedTensor& input) { return is_same(*input.difference); });
  const bool is_finer = epsilon_of(mine) < epsilon_of(theirs);
  const bool gives_one_type = std::ranges::all_of(op.outputs, [](const ComparedTensor& output) {
    return output.difference->dtype == output.difference->golden_dtype;
  });
  const bool rounds_once = gives_one_type || (is_finer ? only_casts_follow(facts.target, target, theirs)
                                                       : only_casts_follow(facts.golden, golden, mine));
  return !reads_the_same || !rounds_once;
}

}  // namespace

bool is_number_rounded(const PairedInput& input) {
  if (input.golden.input == nullptr) return false;
  const CatalogTensor &target = *input.target.input->tensor, &golden = *input.golden.input->tensor;
  const TensorDifference& read = *input.difference;
  if (target.constant.has_value() == golden.constant.has_value() || read.count != 1 || !read.comparable()) return false;
  return read.relative() <= 0.5 * coarser_spacing(read);
}

void find_rounding_apart(const CompareFacts& facts, StepFindings& findings) {
  if (facts.history.found || facts.other_precision) return;
  // Only doubtful ones may come after it.
  const auto is_doubted = [](const CompareFinding& finding) { return finding.uncertain && !finding.certain; };
  if (!std::ranges::all_of(findings.all(), is_doubted)) return;
  const CompareFinding* first = findings.first();
  const std::uint32_t end = first == nullptr ? kNoOp : first->place;
  for (const ComparedOp& op : facts.pairs.ops()) {
    const bool differs = op.verdict == OpVerdict::within_tolerance || op.verdict == OpVerdict::propagated;
    if (op.target_index >= end) continue;
    if (!differs || op.target.empty() || op.golden.empty() || op.how == MatchedBy::recomputation) continue;
    const ComparedTensor* output = op.worst_output();
    if (output == nullptr || !output->difference->comparable() || output->difference->equal) continue;
    const double spacing = coarser_spacing(*output->difference);
    const ComparedTensor* number = other_number(op);
    DType mine = DType::undefined, theirs = DType::undefined;
    if (number == nullptr && !computes_in_another_type(facts, op, mine, theirs)) continue;
    if (!is_carried_on(facts, op)) continue;
    const std::string size = difference_text(FindingKind::data, *output);
    if (number != nullptr) {
      const std::optional<double> left = number_of(*number, false), right = number_of(*number, true);
      if (!left || !right || spacing <= epsilon_of(DType::float32)) continue;
      findings.add(FindingKind::number, op, op.target.back(), false, number,
                   fmt::format("is called with {:.9g}, golden {:.9g} (input.{}): {}, which the rounding of {} hides in "
                               "each element, but not in what is computed from all of them",
                               *left, *right, number->target->slot, size, info(output->difference->dtype).lower));
    } else {
      findings.add(
          FindingKind::type, op, op.target.back(), false, output,
          fmt::format("computes in {}, golden {}, from the same values: {}; a cast is before it on one side and "
                      "after it, or missing, on the other",
                      info(mine).lower, info(theirs).lower, size));
    }
    findings.all().back().doubt("");
    const_cast<ComparedOp&>(op).verdict = OpVerdict::introduced;
    return;
  }
}

}  // namespace sonde
