// A comparison as an answer.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "ask/compare/compare_layers.h"
#include "ask/compare/compare_words.h"
#include "ask/finding/finding.h"
#include "face/report/catalog_text.h"
#include "face/report/comparison.h"
#include "ground/base/text.h"
#include "read/catalog/dump_tree.h"
#include "read/catalog/slot_text.h"

namespace sonde {
namespace {

// The errors that values or statistics show.
void add_errors(TensorPair& pair, const TensorDifference& difference) {
  pair.relative_error = difference.relative();
  pair.rms_error = difference.rms_error;
  pair.max_error = difference.max_error;
  pair.golden_rms = difference.rms;
  pair.different_non_finite = difference.different_non_finite;
  if (difference.by != ComparedBy::values) return;
  pair.cosine = difference.cosine;
  pair.elements = difference.count;
  pair.mismatches = difference.mismatches;
  pair.worst_index = difference.worst_index;
  pair.worst_value = difference.worst_value;
  pair.worst_golden = difference.worst_golden;
}

TensorPair pair_of(const ComparedTensor& tensor) {
  const TensorDifference& difference = *tensor.difference;
  TensorPair pair;
  pair.side = side_of(*tensor.target);
  pair.slot = tensor.target->slot;
  pair.parameter = tensor.target->parameter;
  pair.dtype = dtype_text(*tensor.target);
  pair.shape.assign(difference.shape.begin(), difference.shape.end());
  pair.golden_shape.assign(difference.golden_shape.begin(), difference.golden_shape.end());
  pair.compared_by = word_of(difference.by);
  pair.equal = difference.equal;
  pair.beyond = tensor.beyond;
  if (tensor.golden != nullptr) pair.golden_slot = tensor.golden->slot;
  pair.problem = difference.problem;
  pair.note = tensor.note;
  if (difference.by == ComparedBy::nothing || difference.by == ComparedBy::checksum) return pair;
  add_errors(pair, difference);
  if (tensor.target->is_input) return pair;
  pair.rounding_rms = tensor.allowance.rounding.rms;
  pair.rounding_max = tensor.allowance.rounding.max;
  pair.propagated_rms = tensor.allowance.propagated.rms;
  pair.propagated_max = tensor.allowance.propagated.max;
  return pair;
}

// The fewest pairs of a step without which the others have the same order in both dumps: those outside a longest increasing
// sequence of places in golden.
std::set<const ComparedOp*> moved_ops(const ComparedStep& step) {
  struct Pair {
    const ComparedOp* op;
    std::size_t before;  // the pair before it in the longest sequence that ends with it
  };
  constexpr std::size_t kFirst = ~std::size_t{0};
  std::vector<Pair> pairs;
  for (const ComparedOp& op : step.ops) {
    const bool has_order = op.how != MatchedBy::values;  // of two implementations
    if (has_order && !op.target.empty() && !op.golden.empty() && !op.target.back()->is_parameter)
      pairs.push_back({&op, kFirst});
  }
  std::ranges::stable_sort(pairs, {}, [](const Pair& pair) { return pair.op->target_index; });
  std::vector<std::size_t> ends;  // of the sequences of each length, the one that ends earliest
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto place = [&](std::size_t pair) { return pairs[pair].op->golden_index; };
    const auto at = std::ranges::lower_bound(ends, place(i), {}, place);
    if (at != ends.begin()) pairs[i].before = *std::prev(at);
    at == ends.end() ? ends.push_back(i) : void(*at = i);
  }
  std::set<const ComparedOp*> moved;
  for (const Pair& pair : pairs) moved.insert(pair.op);
  for (std::size_t i = ends.empty() ? kFirst : ends.back(); i != kFirst; i = pairs[i].before) moved.erase(pairs[i].op);
  return moved;
}

std::vector<std::string> full_names(const std::vector<const CatalogOp*>& ops) {
  std::vector<std::string> names;
  for (const CatalogOp* op : ops) names.emplace_back(op->op_name);
  return names;
}

std::vector<TensorPair> pairs_of(const std::vector<ComparedTensor>& tensors) {
  std::vector<TensorPair> pairs;
  for (const ComparedTensor& tensor : tensors) pairs.push_back(pair_of(tensor));
  return pairs;
}

// Of an answer's part that belongs to a step.
template <typename Part>
void put_in_step(Part& part, const ComparedStep& step) {
  part.rank = step.target->rank->rank;
  part.graph = step.target->step->id.graph;
  part.step = step.target->step->id.number;
}

OperatorPair pair_of(const ComparedStep& step, const ComparedOp& op, bool is_moved) {
  OperatorPair pair;
  put_in_step(pair, step);
  pair.verdict = word_of(op.verdict);
  pair.target = full_names(op.target);
  pair.golden = full_names(op.golden);
  const CatalogOp& named = op.target.empty() ? *op.golden.back() : *op.target.back();
  pair.op_type = named.op_type;
  pair.kind = word_of(op.kind);
  pair.matched_by = word_of(op.how);
  pair.source_file = named.source_file;
  pair.source_line = named.line;
  pair.function = named.function;
  pair.inputs = pairs_of(op.inputs);
  pair.outputs = pairs_of(op.outputs);
  pair.moved = is_moved;
  pair.reason = op.reason;
  if (op.nearest.op != kNoOp) {
    const CompareSide& other = op.target.empty() ? *step.target : *step.golden;
    pair.nearest = other.ops[op.nearest.op].op->op_name;
  }
  return pair;
}

Difference difference_of(const DumpComparison& comparison, const CompareFinding& finding) {
  Difference one;
  put_in_step(one, comparison.steps[finding.step]);
  one.kind = word_of(finding.kind);
  one.op_name = finding.culprit->op_name;
  one.op_type = finding.culprit->op_type;
  one.source_file = finding.culprit->source_file;
  one.source_line = finding.culprit->line;
  one.in_golden = finding.in_golden;
  one.golden = names_of(finding.op->golden);
  one.text = line_of(comparison, finding);
  if (finding.uncertain) one.tags.push_back(DifferenceTag::uncertain);
  if (!finding.op->golden.empty() && !finding.op->target.empty()) {
    one.attributes = attributes_apart(*finding.op->target.back(), *finding.op->golden.back());
  }
  one.factor = finding.factor;
  const ComparedStep& step = comparison.steps[finding.step];
  const CompareSide& own = finding.in_golden ? *step.golden : *step.target;
  SourceTexts sources = sources_of(*own.rank);
  one.code = code_of(*own.rank, *finding.culprit, sources);
  const CatalogOp* golden = finding.in_golden || finding.op->golden.empty() ? nullptr : finding.op->golden.back();
  if (golden != nullptr) {
    SourceTexts golden_sources = sources_of(*step.golden->rank);
    one.golden_code = code_of(*step.golden->rank, *golden, golden_sources);
  }
  if (finding.tensor != nullptr) one.tensor = pair_of(*finding.tensor);
  return one;
}

std::vector<Layer> layers_of(const DumpComparison& comparison) {
  std::vector<Layer> layers;
  for (const LayerLoss& loss : layer_losses(comparison)) {
    Layer& layer = layers.emplace_back();
    put_in_step(layer, comparison.steps[loss.step]);
    layer.layer = loss.layer;
    layer.op_name = loss.op->op_name;
    layer.compared_by = loss.by == ComparedBy::values ? ComparisonBasis::values : ComparisonBasis::statistics;
    layer.introduced = loss.introduced;
    layer.error_in = loss.error_in;
    layer.error_out = loss.error_out;
    layer.signal_to_noise_db = loss.signal_to_noise;
  }
  return layers;
}

GoldenTensor golden_tensor_of(const PlacedGolden& golden) {
  GoldenTensor one;
  one.rank = golden.rank;
  one.graph = golden.step.graph;
  one.step = golden.step.number;
  one.parameter = golden.tensor->parameter;
  one.slot = golden.tensor->slot;
  if (golden.op == nullptr) return one;
  one.op_name = golden.op->op_name;
  one.source_file = golden.op->source_file;
  one.source_line = golden.op->line;
  return one;
}

Correspondence correspondence_of(const DumpComparison& comparison, const RelatedTensor& related) {
  Correspondence one;
  put_in_step(one, comparison.steps[related.step]);
  one.parameter = related.tensor->parameter;
  one.slot = related.tensor->slot;
  one.dtype = dtype_text(*related.tensor);
  one.shape.assign(related.tensor->shape.begin(), related.tensor->shape.end());
  one.relation = related.relation;
  one.golden = related.golden;
  for (const PlacedGolden& golden : related.golden_tensors) one.golden_tensors.push_back(golden_tensor_of(golden));
  if (related.difference != nullptr) one.relative_error = related.difference->relative();
  if (related.op == nullptr) return one;
  one.op_name = related.op->op_name;
  one.source_file = related.op->source_file;
  one.source_line = related.op->line;
  return one;
}

std::string dump_word(const CompareSide& side) {
  return shell_word(rank_of(side.rank->directory).dump.lexically_normal().string());
}

std::string show_command(const CompareSide& side, const CatalogOp& op) {
  const bool with_rank = side.rank->rank != 0;  // without the option `show` takes the first that has the op
  return fmt::format("sonde show {} {}{}", dump_word(side), shell_word(op.op_name),
                     place_options(*side.rank, side.step->id, with_rank));
}

}  // namespace

std::vector<NextCommand> next_commands(const DumpComparison& comparison, const CompareOptions& options) {
  if (comparison.findings.empty()) return {};
  const CompareFinding& first = comparison.findings.front();
  const ComparedStep& step = comparison.steps[first.step];
  std::vector<NextCommand> all;
  const auto has_side = [](const std::shared_ptr<CompareSide>& side) {
    return side != nullptr && side->rank != nullptr;
  };
  if (!first.op->target.empty() && has_side(step.target))
    all.push_back(next_command(
        NextKind::target_op, show_command(*step.target, first.in_golden ? *first.op->target.back() : *first.culprit)));
  if (!first.op->golden.empty() && has_side(step.golden))
    all.push_back(next_command(
        NextKind::golden_op, show_command(*step.golden, first.in_golden ? *first.culprit : *first.op->golden.back())));
  if (!has_side(step.target) || !has_side(step.golden)) return all;
  const std::string target = dump_word(*step.target), golden = dump_word(*step.golden);
  all.push_back(
      next_command(NextKind::all_ops, fmt::format("sonde compare {} {}{} --all", target, golden, options.part_words)));
  all.push_back(next_command(NextKind::browser_of_both, fmt::format("sonde serve {} {} --open", target, golden)));
  return all;
}

Comparison answer_of(const DumpComparison& comparison, const CompareOptions& options) {
  Comparison answer;
  answer.complete = comparison.complete;
  for (const CompareFinding& finding : comparison.findings) {
    answer.findings.push_back(difference_of(comparison, finding));
  }
  if (!answer.findings.empty()) answer.findings[0].evidence = evidence_of(comparison, comparison.findings[0]);
  const VerdictCounts counts = count_verdicts(comparison);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    answer.summary.push_back({std::string(word_of(static_cast<OpVerdict>(i))), counts[i]});
  }
  options.tolerance.put_into(answer);
  answer.next_commands = next_commands(comparison, options);
  answer.notes = comparison.notes;
  answer.joined = comparison.joined;
  answer.layers = layers_of(comparison);
  std::vector<Correspondence> relations;
  for (const RelatedTensor& related : comparison.relations) {
    relations.push_back(correspondence_of(comparison, related));
  }
  if (!relations.empty()) answer.relations = std::move(relations);
  answer.warnings = comparison.notes;
  return answer;
}

void for_each_op(const DumpComparison& comparison, const std::function<void(OperatorPair&&)>& take) {
  for (const ComparedStep& step : comparison.steps) {
    const std::set<const ComparedOp*> moved = moved_ops(step);
    for (const ComparedOp& op : step.ops) take(pair_of(step, op, moved.contains(&op)));
  }
}

}  // namespace sonde
