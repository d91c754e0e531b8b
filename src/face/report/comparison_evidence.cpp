// Inputs and arguments of the operator of a difference, on both sides.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "ask/compare/compare_words.h"
#include "face/report/catalog_text.h"
#include "face/report/comparison.h"
#include "face/report/json.h"
#include "face/report/text.h"
#include "read/measure/slot_values.h"

namespace sonde {
namespace {

std::string slot_of(const ComparedTensor& tensor) {
  std::string text = slot_text(*tensor.target);
  if (!tensor.target->parameter.empty()) text += " " + std::string(tensor.target->parameter);
  return text;
}

std::string input_text(const ComparedTensor& input) {
  const TensorDifference& difference = *input.difference;
  const std::string shape = shape_text(difference.shape, '(', ')');
  std::string text = fmt::format("{} {}: ", slot_of(input), shape);
  if (difference.by == ComparedBy::nothing) {
    const bool is_other_shape = difference.problem.empty() && !difference.same_shape;
    return text + (is_other_shape ? "golden " + shape_text(difference.golden_shape, '(', ')') : difference.problem);
  }
  if (difference.equal) {
    text += "identical";
  } else {
    text += difference_text(FindingKind::data, input);
  }
  // A dimension of 1 more or less counts where the operator combines it with another input.
  const bool have_shapes = input.golden != nullptr && input.target->has_shape && input.golden->has_shape;
  if (have_shapes && difference.same_shape && !(input.target->shape == input.golden->shape)) {
    text += fmt::format("; the golden one has the shape {}", shape_text(input.golden->shape, '(', ')'));
  }
  if (!input.note.empty()) text += "; " + input.note;
  return text;
}

std::string attributes_text(const CatalogOp& op) {
  if (op.attributes == nullptr || op.attributes->empty()) return "";
  std::string text;
  for (const Attribute& attribute : *op.attributes) {
    text += fmt::format("{}{}={}", text.empty() ? "" : "  ", attribute.name, words_of(attribute));
  }
  return text;
}

// Attributes, and the numbers among the inputs that were not compared: MindSpore passes an epsilon as an input.
std::string call_text(const CompareSide& side, const CatalogOp& op, const std::vector<ComparedTensor>& compared) {
  std::string text = attributes_text(op);
  for (const CatalogTensor& tensor : op.tensors) {
    if (!tensor.is_input || !tensor.has_shape || !tensor.shape.empty()) continue;
    const bool is_compared = std::ranges::any_of(
        compared, [&](const ComparedTensor& input) { return input.target == &tensor || input.golden == &tensor; });
    const std::optional<SlotValues> number = is_compared ? std::nullopt : SlotValues::open(*side.rank, tensor);
    if (!number) continue;
    text += fmt::format("{}input.{}={:g}", text.empty() ? "" : "  ", tensor.slot, number->at({}));
  }
  return text;
}

// Ops of one side without a counterpart that make its inputs: for example a pad that the other op does itself.
void add_alone_before(std::vector<std::string>& lines, const ComparedStep& step, const CompareSide& side,
                      std::uint32_t last, std::size_t group_size) {
  constexpr std::size_t kMost = 4;
  std::vector<const CatalogOp*> alone;
  std::uint32_t at = last;
  for (std::size_t i = 0; i < kMost + group_size && !side.ops[at].inputs.empty(); ++i) {
    at = side.ops[at].inputs.front().from;
    if (at == kNoOp) break;
    if (i + 1 < group_size) continue;
    const bool is_alone = std::ranges::any_of(step.ops, [&](const ComparedOp& op) {
      const bool is_it = (&side == step.target.get() ? op.target_index : op.golden_index) == at;
      return is_it && op.verdict == OpVerdict::unmatched;
    });
    if (!is_alone) break;
    alone.push_back(side.ops[at].op);
  }
  const std::string_view before = &side == step.target.get() ? "it" : "the golden one";
  for (auto op = alone.rbegin(); op != alone.rend(); ++op) {
    const std::string called = call_text(side, **op, {});
    if (called.empty()) continue;  // a view
    lines.push_back(fmt::format("before {}, unmatched: {} {}{}, called with {}", before, (*op)->op_type, (*op)->op_name,
                                place_after_comma(**op), called));
  }
}

// How the two operators were called, what else makes the data, and how much they may differ.
void add_calls(std::vector<std::string>& lines, const ComparedStep& step, const CompareFinding& finding) {
  const ComparedOp& op = *finding.op;
  const std::vector<std::string> apart = attributes_apart(*op.target.back(), *op.golden.back());
  for (const std::string& attribute : apart) lines.push_back("called with " + attribute);
  add_alone_before(lines, step, *step.target, op.target_index, op.target.size());
  add_alone_before(lines, step, *step.golden, op.golden_index, op.golden.size());
  const std::string called = call_text(*step.target, *op.target.back(), op.inputs);
  const std::string golden = call_text(*step.golden, *op.golden.back(), op.inputs);
  if (apart.empty() && called != golden) {
    if (!called.empty()) lines.push_back("called with " + called);
    if (!golden.empty()) lines.push_back("golden called with " + golden);
  }
  if (op.kind == OpKind::random && apart.empty())
    lines.emplace_back("it draws random numbers: do both runs begin with the same seed?");
  if (finding.kind != FindingKind::op) return;
  const ComparedTensor& output = *finding.tensor;
  const Allowance& allowance = output.allowance;
  std::string text =
      fmt::format("rounding explains errors up to {:.3g}, rms {:.3g}", allowance.total().max, allowance.total().rms);
  if (allowance.propagated.max > 0)
    text += fmt::format(", of it {:.3g} by errors of its inputs", allowance.propagated.max);
  text += fmt::format("; numbers of {} near 1 are {:.2g} apart", dtype_text(*output.target), allowance.epsilon);
  const auto numbers = static_cast<std::uint64_t>(allowance.reduction);
  if (numbers > 1) text += fmt::format(", and {} make one result", numbers);
  lines.push_back(std::move(text));
}

}  // namespace

std::vector<std::string> evidence_of(const DumpComparison& comparison, const CompareFinding& finding) {
  const ComparedStep& step = comparison.steps[finding.step];
  const ComparedOp& op = *finding.op;
  std::vector<std::string> lines;
  for (const ComparedTensor& input : op.inputs) lines.push_back(input_text(input));
  const bool is_of_output = finding.tensor != nullptr && !finding.tensor->target->is_input;
  if (!is_of_output || op.golden.empty()) return lines;
  lines.push_back(fmt::format("{} {}: {}", slot_of(*finding.tensor),
                              shape_text(finding.tensor->difference->shape, '(', ')'),
                              difference_text(FindingKind::data, *finding.tensor)));
  if (finding.culprit == op.target.back()) add_calls(lines, step, finding);
  return lines;
}

}  // namespace sonde
