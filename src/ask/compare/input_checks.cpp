#include "ask/compare/input_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ask/compare/compare_words.h"
#include "read/operators/op_questions.h"
#include "sonde/dtype.h"

namespace sonde {
namespace {

// For two runs in one precision: both read a tensor from outside the step, which one of them keeps in a coarser type,
// and its values or the op's results show it.
bool keeps_another_type(const CompareFacts& facts, const ComparedOp& op, const PairedInput& input) {
  if (facts.other_precision || input.golden.input == nullptr || !input.golden.input->is_read) return false;
  if (input.target.input->from != kNoOp || input.golden.input->from != kNoOp) return false;
  const CatalogTensor &target = *input.target.input->tensor, &golden = *input.golden.input->tensor;
  if (target.parameter.empty() || golden.parameter.empty() || target.constant || golden.constant) return false;
  const TensorDifference& read = *input.difference;
  const double mine = epsilon_of(read.dtype), theirs = epsilon_of(read.golden_dtype);
  if (mine == 0 || theirs == 0 || mine == theirs || !read.same_shape) return false;
  const bool is_half = std::max(mine, theirs) > epsilon_of(DType::float32);
  if (is_half && read.by != ComparedBy::nothing && read.by != ComparedBy::checksum && !read.equal) return true;
  return std::ranges::any_of(op.outputs, [&](const ComparedTensor& output) {
    const double left = epsilon_of(output.difference->dtype), right = epsilon_of(output.difference->golden_dtype);
    return !output.difference->equal && (mine > theirs ? left > right : left < right);
  });
}

// The ops that read a parameter.
std::string readers_text(const CompareFacts& facts, std::string_view parameter) {
  constexpr std::size_t kMost = 3;
  std::vector<std::string> names;
  std::size_t more = 0;
  for (const CompareOp& op : facts.target.ops) {
    const auto reads = [&](const CompareInput& input) {
      return input.from == kNoOp && input.is_read && input.tensor->parameter == parameter;
    };
    if (!std::ranges::any_of(op.inputs, reads)) continue;
    if (names.size() == kMost) {
      ++more;
      continue;
    }
    names.emplace_back(op.op->op_name.substr(op.op->op_name.rfind('/') + 1));
  }
  std::string text = fmt::format("{}", fmt::join(names, ", "));
  if (more > 0) text += fmt::format(" and {} more", more);
  return text;
}

void report_kept_type(const CompareFacts& facts, StepFindings& findings, ComparedOp& op, const PairedInput& input,
                      ComparedTensor& shown) {
  const std::string_view name = input.target.input->tensor->parameter;
  shown.beyond = true;
  if (!findings.is_new_name(name)) return;
  const TensorDifference& read = *input.difference;
  findings.add(FindingKind::type, op, op.target.front(), false, &shown,
               fmt::format("is kept in {}, golden {}; read by {}", info(read.dtype).lower,
                           info(read.golden_dtype).lower, readers_text(facts, name)));
}

// The output of its producer is unknown, and no input of it is known to differ: memory that Python fills.
bool is_from_unknown(const CompareFacts& facts, const CompareInput& input) {
  const ComparedOp& from = *facts.pairs.of_target(input.from);
  if (from.verdict != OpVerdict::unknown) return false;
  return std::ranges::all_of(from.inputs, [](const ComparedTensor& read) { return read.difference->equal; });
}

// A buffer that an op updates beside its results: running statistics of a norm.
void look_at_side_effect(const CompareFacts& facts, StepFindings& findings, const PairedInput& input,
                         ComparedTensor& shown) {
  const std::string_view name = input.target.input->name;
  const ComparedOp& writer = *facts.pairs.of_target(input.target.input->from);
  if (name.empty() || !facts.names.in_target(name) || writer.target.empty() || writer.golden.empty()) return;
  // In another framework it may be read before or after the write.
  if (writer.target.back()->op_type != writer.golden.back()->op_type) return;
  if (std::max(facts.seen.now, facts.seen.before) >= kMaxExplainable || input.difference->by == ComparedBy::checksum)
    return;
  if (!is_beyond(*input.difference, allowance_of_parameter(*input.difference, facts.seen.now, facts.options.tolerance)))
    return;
  if (!findings.is_new_name(name)) return;
  shown.beyond = true;
  std::string what = fmt::format("leaves another {}: {}", name, difference_text(FindingKind::changed, shown));
  for (const std::string& one : attributes_apart(*writer.target.back(), *writer.golden.back())) {
    what += "; called with " + one;
  }
  findings.add(FindingKind::changed, writer, writer.target.back(), false, nullptr, what);
}

// Both read what one op keeps for its backward, and this op computes the same in both runs, so what it keeps is the same.
// Values that differ are of two things: the backward passes do not compute the same gradients.
void look_at_kept(const CompareFacts& facts, StepFindings& findings, ComparedOp& op, const PairedInput& input,
                  ComparedTensor& shown) {
  const ComparedOp& writer = *facts.pairs.of_target(input.target.input->from);
  const TensorDifference& read = *input.difference;
  const bool is_the_same = writer.verdict == OpVerdict::identical && writer.target.size() == 1 &&
                           writer.golden.size() == 1 && writer.kind != OpKind::random &&
                           writer.target[0]->op_type == writer.golden[0]->op_type &&
                           std::ranges::all_of(writer.inputs, [](const auto& one) { return one.difference->equal; });
  const bool differs = read.comparable() && read.by != ComparedBy::checksum && is_floating(read.golden_dtype) &&
                       read.relative() > kMaxExplainable;
  if (!is_the_same || !differs || phase_of(*op.target.front()) != Phase::backward) return;
  shown.beyond = true;
  findings.add(FindingKind::wiring, op, op.target.front(), false, &shown,
               fmt::format("reads as input.{} something else of what {} keeps for its backward, which is the same in "
                           "both runs: {}",
                           shown.target->slot, writer.target[0]->op_name, difference_text(FindingKind::wiring, shown)));
}

// A view of another shape may have the elements in another order: only the largest and the smallest show a change.
bool is_another_order(const CatalogTensor& now, const CatalogTensor& then) {
  if (now.shape == then.shape) return false;
  if (!now.statistics || !then.statistics) return true;
  return now.statistics->max == then.statistics->max && now.statistics->min == then.statistics->min;
}

// Both read outputs of ops that belong together: the difference is that of the outputs.
void look_at_change(const CompareFacts& facts, StepFindings& findings, ComparedOp& op, const PairedInput& input,
                    ComparedTensor& shown) {
  const ComparedTensor* output = facts.pairs.output_read(*input.target.input, *input.golden.input);
  if (output == nullptr) {
    look_at_side_effect(facts, findings, input, shown);
    look_at_kept(facts, findings, op, input, shown);
  }
  if (output == nullptr || !facts.target.rank->has_journal || !facts.golden.rank->has_journal) return;
  const TensorDifference &read = *input.difference, &written = *output->difference;
  if (read.by != written.by || !read.same_shape || !written.same_shape || read.count != written.count) return;
  if (read.by == ComparedBy::checksum || read.dtype != written.dtype) return;
  const double spacing = coarser_spacing(read);
  if (read.rms_error <= 1.01 * written.rms_error + 0.5 * spacing * read.rms) return;
  const CatalogTensor *now = input.target.input->tensor, *then = output->target;
  if (is_another_order(*now, *then) || is_another_order(*input.golden.input->tensor, *output->golden)) return;
  const bool in_target = !facts.differences.of(facts.of_target(now), facts.of_target(then)).equal;
  shown.beyond = true;
  const CatalogOp& writer =
      in_target ? *facts.target.ops[input.target.input->from].op : *facts.golden.ops[input.golden.input->from].op;
  findings.add(
      FindingKind::changed, op, op.target.front(), false, &shown,
      fmt::format("reads input.{}, which {} since {} wrote it, by no operator of the dump (NumPy, a pointer, a "
                  "kernel of its own?): {}",
                  shown.target->slot, in_target ? "changed" : "changed in the golden run", writer.op_name,
                  difference_text(FindingKind::changed, shown)));
}

}  // namespace

void check_inputs(const CompareFacts& facts, StepFindings& findings, ComparedOp& op,
                  const std::vector<PairedInput>& inputs) {
  std::size_t shown = 0;
  for (const PairedInput& input : inputs) {
    if (input.difference == nullptr || !input.target.input->is_read) continue;
    ComparedTensor& tensor = op.inputs[shown++];
    tensor.note = axes_text(*input.difference);
    if (keeps_another_type(facts, op, input)) {
      report_kept_type(facts, findings, op, input, tensor);
      continue;
    }
    if (input.difference->equal || input.golden.input == nullptr) continue;
    // A dump by MindSpore itself may show inputs changed by the op.
    const bool overwritten = !facts.golden.rank->has_journal && input.target.input->tensor->slot >= 3 &&
                             is_batch_norm(shared_type(op.target.front()->op_type));
    if (overwritten || !input.golden.input->is_read) continue;
    if (facts.pairs.same_producer(*input.target.input, *input.golden.input)) {
      if (check_unseen(facts, findings, op, input, tensor)) continue;
      if (is_from_unknown(facts, *input.target.input)) {
        check_parameter(facts, findings, op, input, tensor);
      } else {
        look_at_change(facts, findings, op, input, tensor);
      }
    } else if (input.target.input->from == kNoOp) {
      check_parameter(facts, findings, op, input, tensor);
    } else {
      check_wiring(facts, findings, op, input, tensor);
    }
  }
}

void check_order(const CompareFacts& facts, StepFindings& findings, ComparedOp& op,
                 const std::vector<PairedInput>& inputs) {
  if (op.kind != OpKind::copy || op.target.size() != 1 || op.golden.size() != 1 || op.outputs.empty()) return;
  if (op.outputs[0].difference->by == ComparedBy::values || op.target[0]->op_type != op.golden[0]->op_type) return;
  for (const PairedInput& input : inputs) {
    if (input.golden.input == nullptr || input.target.input->from == kNoOp) continue;
    const std::uint32_t slot = input.target.input->tensor->slot, theirs = input.golden.input->tensor->slot;
    if (slot == theirs || !facts.pairs.same_producer(*input.target.input, *input.golden.input)) continue;
    findings.add(FindingKind::wiring, op, op.target.front(), false, nullptr,
                 fmt::format("reads as input.{} the tensor that the golden op reads as input.{}", slot, theirs));
    return;
  }
}

const CatalogOp* alone_before(const CompareFacts& facts, const std::vector<PairedInput>& inputs, bool by_shape) {
  for (const PairedInput& input : inputs) {
    const std::uint32_t from = input.target.input->from;
    if (input.golden.input != nullptr || from == kNoOp || facts.pairs.of_target(from) == nullptr) continue;
    const ComparedOp& before = *facts.pairs.of_target(from);
    const bool computes = by_shape || !moves_or_casts(before.kind);
    if (before.golden.empty() && computes) return before.target.front();
  }
  return nullptr;
}

}  // namespace sonde
