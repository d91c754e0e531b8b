#include <algorithm>
#include <set>

#include "ask/compare/compare_words.h"
#include "face/report/catalog_text.h"
#include "face/report/comparison.h"

namespace sonde {
namespace {

Json json_of_tensor(const ComparedTensor& tensor) {
  const TensorDifference& difference = *tensor.difference;
  Json json = {
      {"side", side_of(*tensor.target)},       {"slot", tensor.target->slot}, {"parameter", tensor.target->parameter},
      {"dtype", dtype_text(*tensor.target)},   {"shape", difference.shape},   {"golden_shape", difference.golden_shape},
      {"compared_by", word_of(difference.by)}, {"equal", difference.equal},   {"beyond", tensor.beyond}};
  if (tensor.golden != nullptr) json["golden_slot"] = tensor.golden->slot;
  if (!difference.problem.empty()) json["problem"] = difference.problem;
  if (!tensor.note.empty()) json["note"] = tensor.note;
  if (difference.by == ComparedBy::nothing || difference.by == ComparedBy::checksum) return json;
  json["relative_error"] = json_of(difference.relative());
  json["rms_error"] = json_of(difference.rms_error);
  json["max_error"] = json_of(difference.max_error);
  json["golden_rms"] = json_of(difference.rms);
  json["different_non_finite"] = difference.different_non_finite;
  if (difference.by == ComparedBy::values) {
    json["cosine"] = json_of(difference.cosine);
    json["elements"] = difference.count;
    json["mismatches"] = difference.mismatches;
    json["worst_index"] = difference.worst_index;
    json["worst_value"] = json_of(difference.worst_value);
    json["worst_golden"] = json_of(difference.worst_golden);
  }
  if (!tensor.target->is_input) {
    json["rounding_rms"] = json_of(tensor.allowance.rounding.rms);
    json["rounding_max"] = json_of(tensor.allowance.rounding.max);
    json["propagated_rms"] = json_of(tensor.allowance.propagated.rms);
    json["propagated_max"] = json_of(tensor.allowance.propagated.max);
  }
  return json;
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
    if (!op.target.empty() && !op.golden.empty() && !op.target.back()->is_parameter) pairs.push_back({&op, kFirst});
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

Json json_of_op(const ComparedStep& step, const ComparedOp& op, bool is_moved) {
  Json json = {{"rank", step.target->rank->rank},
               {"graph", step.target->step->id.graph},
               {"step", step.target->step->id.number},
               {"verdict", word_of(op.verdict)}};
  const auto names = [](const std::vector<const CatalogOp*>& ops) {
    Json list = Json::array();
    for (const CatalogOp* one : ops) list.push_back(one->op_name);
    return list;
  };
  json["target"] = names(op.target);
  json["golden"] = names(op.golden);
  const CatalogOp& named = op.target.empty() ? *op.golden.back() : *op.target.back();
  json["op_type"] = named.op_type;
  json["kind"] = word_of(op.kind);
  json["matched_by"] = word_of(op.how);
  json.update(json_of_source(named));
  if (is_moved) json["moved"] = true;
  if (!op.reason.empty()) json["reason"] = op.reason;
  if (op.nearest.op != kNoOp) {
    const CompareSide& other = op.target.empty() ? *step.target : *step.golden;
    json["nearest"] = other.ops[op.nearest.op].op->op_name;
  }
  json["inputs"] = Json::array();
  for (const ComparedTensor& input : op.inputs) json["inputs"].push_back(json_of_tensor(input));
  json["outputs"] = Json::array();
  for (const ComparedTensor& output : op.outputs) json["outputs"].push_back(json_of_tensor(output));
  return json;
}

}  // namespace

Json json_of(const DumpComparison& comparison, const CompareOptions& options) {
  Json findings = Json::array();
  for (const CompareFinding& finding : comparison.findings) {
    const ComparedStep& step = comparison.steps[finding.step];
    Json one = {{"kind", word_of(finding.kind)},
                {"rank", step.target->rank->rank},
                {"graph", step.target->step->id.graph},
                {"step", step.target->step->id.number},
                {"op_name", finding.culprit->op_name},
                {"op_type", finding.culprit->op_type},
                {"source_file", finding.culprit->source_file},
                {"source_line", finding.culprit->line},
                {"in_golden", finding.in_golden},
                {"golden", names_of(finding.op->golden)},
                {"text", line_of(comparison, finding)}};
    one["tags"] = Json::array();
    if (finding.uncertain) one["tags"].push_back("uncertain");
    if (finding.factor) one["factor"] = *finding.factor;
    if (finding.tensor != nullptr) one["tensor"] = json_of_tensor(*finding.tensor);
    one["attributes"] = finding.op->golden.empty() || finding.op->target.empty()
                            ? std::vector<std::string>()
                            : attributes_apart(*finding.op->target.back(), *finding.op->golden.back());
    findings.push_back(std::move(one));
  }
  const VerdictCounts counts = count_verdicts(comparison);
  Json summary = Json::object();
  for (const OpVerdict verdict : {OpVerdict::identical, OpVerdict::within_tolerance, OpVerdict::propagated,
                                  OpVerdict::introduced, OpVerdict::unmatched, OpVerdict::unknown}) {
    summary[std::string(word_of(verdict))] = counts[static_cast<std::size_t>(verdict)];
  }
  return {{"complete", comparison.complete},
          {"findings", findings},
          {"summary", summary},
          {"rtol", options.tolerance.rtol ? Json(*options.tolerance.rtol) : Json()},
          {"atol", options.tolerance.atol ? Json(*options.tolerance.atol) : Json()},
          {"notes", comparison.notes}};
}

void for_each_op(const DumpComparison& comparison, const std::function<void(const Json&)>& row) {
  for (const ComparedStep& step : comparison.steps) {
    const std::set<const ComparedOp*> moved = moved_ops(step);
    for (const ComparedOp& op : step.ops) row(json_of_op(step, op, moved.contains(&op)));
  }
}

}  // namespace sonde
