#include "ask/relations/relations.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "ask/compare/compare_words.h"
#include "ask/relations/blame.h"
#include "ask/relations/carried_data.h"
#include "ask/relations/other_way.h"
#include "ask/relations/parts_of_batch.h"
#include "ask/relations/search.h"
#include "ask/relations/two_implementations.h"
#include "ask/unsharded/unsharded.h"
#include "ground/base/shape.h"
#include "read/operators/op_nature.h"
#include "read/operators/op_questions.h"
#include "sonde/dtype.h"

namespace sonde {
namespace {

// Other batches have nothing in common but weights and constants.
bool mostly_relate(const DumpComparison& related) {
  std::size_t results = 0, found = 0;
  for (const RelatedTensor& tensor : related.relations) {
    if (tensor.op == nullptr || tensor.op->is_parameter || tensor.relation == RelationKind::constant) continue;
    ++results;
    found += tensor.relation == RelationKind::none ? 0 : 1;
  }
  return 2 * found > results;
}

// Nearly all parameters of the first step are in the golden run: those of later ones follow from updates.
bool weights_relate(const DumpComparison& related) {
  std::size_t all = 0, found = 0;
  for (const RelatedTensor& tensor : related.relations) {
    if (tensor.step != 0 || tensor.op != nullptr || !tensor.tensor->parameter.is_parameter()) continue;
    ++all;
    found += tensor.relation == RelationKind::none ? 0 : 1;
  }
  return all > 0 && 5 * found >= 4 * all;
}

// Everything that the comparison's pointers refer to.
struct Kept {
  Pool target, golden;
  MapClaims claims;
  RelationJudgement judgement;
  // Weights that correspond to nothing.
  std::deque<ComparedTensor> shown;
  std::deque<TensorDifference> nothing;
};

class Builder {
 public:
  Builder(std::shared_ptr<Kept> kept, DumpComparison& into)
      : kept_(std::move(kept)),
        target_(kept_->target),
        golden_(kept_->golden),
        judged_(kept_->judgement),
        into_(into) {}

  void build() {
    for (const auto& side : target_.steps) {
      ComparedStep& step = into_.steps.emplace_back();
      step.target = side;
      step.golden = golden_.steps.front();
    }
    ops_.resize(target_.ops.size());
    for (std::uint32_t i = 0; i < target_.ops.size(); ++i) add_op(i);
    add_golden_alone();
    for (const Culprit& culprit : judged_.culprits) add_finding(culprit);
    add_relations();
    into_.correspondence = summary();
    into_.owner = kept_;
  }

 private:
  void add_relations() {
    for (std::uint32_t i = 0; i < target_.tensors.size(); ++i) {
      const PoolTensor& own = target_.tensors[i];
      if (judged_.standings[i] == Standing::unknown) continue;
      RelatedTensor& one = into_.relations.emplace_back();
      one.step = own.step;
      one.tensor = own.of.tensor;
      if (own.op != kNoOp) one.op = &target_.catalog_op(own.op);
      const Relation& relation = judged_.relations[i];
      one.relation = relation.kind;
      if (!relation) continue;
      one.golden = relation_text(relation, golden_);
      one.golden_tensors = golden_tensors_of(relation);
      one.difference = &relation.difference;
    }
  }

  std::vector<PlacedGolden> golden_tensors_of(const Relation& relation) const {
    constexpr std::size_t kMost = 8;  // as its text names
    std::vector<PlacedGolden> all;
    for (const RelationPart& part : relation.parts) {
      const PoolTensor& golden = golden_.tensors[part.golden];
      if (std::ranges::find(all, golden.of.tensor, &PlacedGolden::tensor) != all.end()) continue;
      if (all.size() == kMost) break;
      const CompareSide& side = *golden_.steps[golden.step];
      all.push_back({.rank = side.rank->rank,
                     .step = side.step->id,
                     .tensor = golden.of.tensor,
                     .op = golden.op == kNoOp ? nullptr : &golden_.catalog_op(golden.op)});
    }
    return all;
  }

  ComparedTensor compared(std::uint32_t tensor) const {
    const Relation& relation = judged_.relations[tensor];
    ComparedTensor one;
    one.target = target_.tensors[tensor].of.tensor;
    one.golden = golden_.tensors[relation.golden()].of.tensor;
    one.difference = &relation.difference;
    one.beyond = judged_.standings[tensor] == Standing::beyond;
    if (relation.kind != RelationKind::same) one.note = relation_text(relation, golden_);
    return one;
  }

  // The record of the reader: its maker calls the tensor an output.
  const CatalogTensor* read_as(std::uint32_t op, std::size_t input) const {
    const PoolOp& own = target_.ops[op];
    for (const CompareInput& read : target_.op(op).inputs) {
      if (read.tensor->slot == own.slots[input]) return read.tensor;
    }
    return target_.tensors[own.inputs[input]].of.tensor;
  }

  OpVerdict verdict_of(const ComparedOp& op) const {
    const auto any = [&](const auto& is) { return std::ranges::any_of(op.outputs, is); };
    if (op.outputs.empty()) return OpVerdict::unmatched;
    if (any([](const ComparedTensor& output) { return output.beyond; })) return OpVerdict::propagated;
    const bool equal = !any([](const ComparedTensor& output) { return !output.difference->equal; });
    return equal ? OpVerdict::identical : OpVerdict::within_tolerance;
  }

  void add_op(std::uint32_t number) {
    const PoolOp& own = target_.ops[number];
    ComparedStep& step = into_.steps[own.step];
    ComparedOp& op = step.ops.emplace_back();
    ops_[number] = &op;
    op.target_index = own.index;
    op.target = {target_.op(number).op};
    op.kind = target_.op(number).kind;
    for (std::size_t i = 0; i < own.inputs.size(); ++i) {
      if (!judged_.relations[own.inputs[i]]) continue;
      op.inputs.push_back(compared(own.inputs[i]));
      op.inputs.back().target = read_as(number, i);
    }
    for (const std::uint32_t output : own.outputs) {
      const Relation& relation = judged_.relations[output];
      if (!relation) continue;
      op.outputs.push_back(compared(output));
      step.largest_relative = std::max(step.largest_relative, relation.difference.relative());
      for (const RelationPart& part : relation.parts) add_golden(op, part.golden);
    }
    if (!op.golden.empty()) op.how = MatchedBy::values;
    op.verdict = verdict_of(op);
    if (op.golden.empty() && op.verdict != OpVerdict::unmatched) {
      op.outputs.clear();  // it is golden data or a golden parameter
      op.verdict = OpVerdict::unmatched;
    }
    if (op.verdict == OpVerdict::unmatched) op.nearest.why = "its values are in no golden tensor";
  }

  void add_golden(ComparedOp& op, std::uint32_t tensor) {
    const std::uint32_t maker = golden_.tensors[tensor].op;
    if (maker == kNoOp) return;
    const CatalogOp* golden = golden_.op(maker).op;
    if (std::ranges::find(op.golden, golden) == op.golden.end()) op.golden.push_back(golden);
  }

  void add_golden_alone() {
    for (std::uint32_t i = 0; i < golden_.ops.size(); ++i) {
      const auto& outputs = golden_.ops[i].outputs;
      if (std::ranges::any_of(outputs, [&](std::uint32_t output) { return judged_.met[output] != 0; })) continue;
      ComparedOp& op = into_.steps.front().ops.emplace_back();
      op.golden = {golden_.op(i).op};
      op.kind = golden_.op(i).kind;
      op.verdict = OpVerdict::unmatched;
      op.nearest.why = "its values are in no tensor of the target";
    }
  }

  void add_finding(const Culprit& culprit) {
    ComparedOp& op = *ops_[culprit.op];
    CompareFinding& finding = into_.findings.emplace_back();
    finding.step = target_.ops[culprit.op].step;
    finding.op = &op;
    finding.culprit = op.target.back();
    finding.place = culprit.op;
    // Statistics show no cuts and no order of elements.
    finding.uncertain =
        culprit.uncertain || !target_.has_values() || !golden_.has_values() || &culprit != &judged_.culprits.front();
    op.verdict = OpVerdict::introduced;
    if (culprit.weight) {
      finding.kind = FindingKind::parameter;
      finding.tensor = input_of(culprit.op, *culprit.weight);
      finding.name = "parameter " + std::string(target_.tensors[*culprit.weight].of.tensor->parameter);
      finding.what = culprit.what;
    } else {
      finding.kind = FindingKind::inserted;
      finding.what = words_of(culprit);
    }
    op.reason = finding.what;
  }

  // The slot that reads the weight; a tensor is shown although it corresponds to nothing.
  const ComparedTensor* input_of(std::uint32_t number, std::uint32_t weight) {
    const std::vector<std::uint32_t>& inputs = target_.ops[number].inputs;
    const auto at = std::ranges::find(inputs, weight);
    const CatalogTensor* wanted = at == inputs.end() ? target_.tensors[weight].of.tensor
                                                     : read_as(number, static_cast<std::size_t>(at - inputs.begin()));
    for (const ComparedTensor& input : ops_[number]->inputs) {
      if (input.target == wanted) return &input;
    }
    ComparedTensor& shown = kept_->shown.emplace_back();
    shown.target = wanted;
    TensorDifference& nothing = kept_->nothing.emplace_back();
    nothing.shape = wanted->shape;
    nothing.problem = "corresponds to nothing";
    shown.difference = &nothing;
    return &shown;
  }

  std::string words_of(const Culprit& culprit) const {
    std::string text = "its result corresponds to nothing in the golden dump, although what it reads does";
    if (!culprit.what.empty()) {
      text = culprit.what;
    } else if (!culprit.group.empty()) {
      text = "its result corresponds to nothing in the golden dump" + others_of(culprit);
    }
    if (!culprit.golden) return text;
    const PoolTensor& golden = golden_.tensors[*culprit.golden];
    const bool is_like_another = culprit.like && target_.tensors[*culprit.like].op != culprit.op;
    text += golden.op == kNoOp ? fmt::format("; golden {}", golden_.name_of(*culprit.golden)) : result_of(golden.op);
    text += is_like_another ? " is like that of " + named(target_.tensors[*culprit.like].op) : " is like it";
    return text + error_text(culprit);
  }

  std::string result_of(std::uint32_t golden) const {
    const CatalogOp& op = golden_.catalog_op(golden);
    return fmt::format("; the result of golden {} {}, {}", op.op_type, op.op_name, place_text(op));
  }

  // "matmul net.py:66"
  std::string named(std::uint32_t target) const {
    const CatalogOp& op = target_.catalog_op(target);
    return fmt::format("{} {}", op.op_type, place_text(op));
  }

  std::string others_of(const Culprit& culprit) const {
    std::vector<std::uint32_t> others = culprit.group;
    std::erase(others, culprit.op);
    if (others.empty()) return "";
    const std::string count =
        others.size() == 1 ? "another operator" : fmt::format("{} other operators", others.size());
    std::string text = ", nor do those of " + count + " that may be meant: ";
    constexpr std::size_t kMost = 12;
    const std::size_t first = others.size() > kMost ? others.size() - kMost : 0;
    for (std::size_t i = first; i < others.size(); ++i) text += (i > first ? ", " : "") + named(others[i]);
    return text;
  }

  // How far the result is from the golden one that is like it.
  std::string error_text(const Culprit& culprit) const {
    if (!culprit.like || (!culprit.what.empty() && !culprit.shows_error)) return "";
    const TensorDifference difference = difference_from(target_, *culprit.like, golden_, *culprit.golden);
    if (difference.by != ComparedBy::values) return "";
    const bool has_wrong_inputs = !culprit.group.empty();
    return fmt::format(": relative error {:.3g}{}", difference.relative(),
                       has_wrong_inputs ? "; what it reads differs, too" : "");
  }

  std::string summary() const {
    std::array<std::size_t, 7> counts{};
    std::size_t all = 0;
    for (std::uint32_t i = 0; i < target_.tensors.size(); ++i) {
      if (judged_.standings[i] == Standing::unknown) continue;
      ++all;
      ++counts[static_cast<std::size_t>(judged_.relations[i].kind)];
    }
    const auto count = [&](RelationKind kind) { return counts[static_cast<std::size_t>(kind)]; };
    std::string text = fmt::format("two implementations: {} of {} target tensors correspond ({} equal up to shape",
                                   all - count(RelationKind::none), all, count(RelationKind::same));
    for (const RelationKind kind :
         {RelationKind::permuted, RelationKind::joined, RelationKind::cut, RelationKind::sum, RelationKind::constant}) {
      if (count(kind) > 0) text += fmt::format(", {} {}", count(kind), word_of(kind));
    }
    text += ")";
    if (count(RelationKind::none) > 0 && judged_.culprits.empty()) {
      text += fmt::format("; {} have no counterpart and reach no result that differs", count(RelationKind::none));
    }
    return text;
  }

  std::shared_ptr<Kept> kept_;
  const Pool& target_;
  const Pool& golden_;
  const RelationJudgement& judged_;
  DumpComparison& into_;
  std::vector<ComparedOp*> ops_;  // by operator of the target's pool
};

// The two have other weights: structure is all that can be compared. A weight that holds more than the golden one, such as
// a norm, is not wrong: what its operator reads besides may be.
void say_that_weights_differ(const std::string& weights, DumpComparison& into) {
  for (CompareFinding& finding : into.findings) {
    if (finding.kind == FindingKind::parameter) finding.uncertain = true;
  }
  into.notes.insert(into.notes.begin(), weights);
}

void count_up(const Kept& kept, DumpComparison& into) {
  for (std::size_t i = 0; i < kept.target.tensors.size(); ++i) {
    const Relation& relation = kept.judgement.relations[i];
    if (relation) ++into.compared_tensors;
  }
  const auto add_notes = [&](const std::vector<std::string>& lines) {
    into.notes.insert(into.notes.end(), lines.begin(), lines.end());
  };
  add_notes(kept.claims.not_there);
  add_notes(kept.judgement.contradictions);
  for (const Pool* pool : {&kept.target, &kept.golden}) {
    into.unreadable.insert(into.unreadable.end(), pool->unreadable.begin(), pool->unreadable.end());
  }
}

// A map is tried without a search, which needs more of the tensors.
void judge(Kept& kept, const Threads& threads, const RelationMap* map) {
  if (map != nullptr) {
    kept.target.read_shapes(threads);
    kept.golden.read_shapes(threads);
    kept.claims = claims_of(*map, kept.target, kept.golden);
    if (std::optional<RelationJudgement> by_map = judge_by_map(kept.target, kept.golden, threads, kept.claims)) {
      kept.judgement = std::move(*by_map);
      return;
    }
  }
  for (Pool* pool : {&kept.target, &kept.golden}) {
    pool->read(threads);
    drop_padded_buffers(*pool);
  }
  // Where both have as many steps, these belong together one by one.
  const std::size_t steps = kept.target.steps.size(), golden_steps = kept.golden.steps.size();
  if (steps != golden_steps) join_carried_data(steps > golden_steps ? kept.target : kept.golden);
  kept.judgement = judge_relations(kept.target, kept.golden, threads, map == nullptr ? nullptr : &kept.claims);
  ask_the_other_way(kept.target, kept.golden, threads, kept.judgement);
}

// Null: structure is all that can be compared. `weights`: why, where the two have others.
Result<std::unique_ptr<DumpComparison>> compare_by_values(const Catalog& target, const Catalog& golden,
                                                          const CompareOptions& options, std::string& weights) {
  if (const Status known = check_part(target, options.part); !known) return known.error();
  auto related = std::make_unique<DumpComparison>();
  DumpComparison& comparison = *related;
  const Threads threads(options.threads);
  auto kept = std::make_shared<Kept>(Kept{Pool(target, options.part, *comparison.families),
                                          Pool(golden, options.part, *comparison.families),
                                          {},
                                          {},
                                          {},
                                          {}});
  if (kept->target.ops.empty() || kept->golden.ops.empty()) return std::unique_ptr<DumpComparison>();
  judge(*kept, threads, options.map.get());
  const RelationJudgement& judged = kept->judgement;
  if (judged.weights_are_others) {
    weights = fmt::format("the weights are not the same: {} of {} correspond", judged.related_weights, judged.weights);
    return std::unique_ptr<DumpComparison>();
  }
  Builder(kept, comparison).build();
  count_up(*kept, comparison);
  if (options.keeps_map) {
    comparison.map = map_of(kept->target, kept->golden, judged.relations, judged.culprits.empty());
  }
  if (judged.nothing_corresponds) {
    comparison.left_out.push_back(
        fmt::format("nothing corresponds: {} of {} parameters are in both", judged.related_weights, judged.weights));
  }
  if (judged.nothing_compared && judged.culprits.empty()) {
    const bool has_values = kept->target.has_values() && kept->golden.has_values();
    comparison.left_out.push_back(
        fmt::format("the results: none of the target {} a golden one, or the size of one that differs{}",
                    has_values ? "has the values of" : "has the statistics of", has_values ? "" : "; record tensors"));
  }
  conclude(target, golden, options, comparison);
  return related;
}

}  // namespace

Result<DumpComparison> compare_programs(const Catalog& target, const Catalog& golden, const CompareOptions& options) {
  const bool are_implementations = are_two_implementations(target, golden, options);
  std::string weights;
  if (are_implementations) {
    Result<std::unique_ptr<DumpComparison>> related = compare_by_values(target, golden, options, weights);
    if (!related) return related.error();
    if (*related != nullptr) return std::move(**related);
  }
  Result<DumpComparison> runs = compare_runs(target, golden, options);
  if (!runs) return runs;
  if (!weights.empty()) say_that_weights_differ(weights, *runs);
  if (are_implementations) return runs;
  name_in_parts_of_batch(target, golden, options, *runs);
  const bool is_given = !options.names.empty() || options.golden_part;  // how the two belong together
  // Two implementations with many operators alike: where their order leaves a doubt, values decide.
  const bool is_doubted = !runs->findings.empty() && runs->findings.front().uncertain;
  const bool is_joined = target.ranks.size() != golden.ranks.size();  // a rank alone has no golden counterpart
  // Another tool's dump of another framework has no lines, and inputs as the step left them.
  const bool is_foreign_port = !runs->findings.empty() && are_of_two_frameworks(target, golden) &&
                               !(has_journals(target) && has_journals(golden));
  const bool is_unsettled = is_foreign_port || (is_doubted && !have_names_in_common(target, golden));
  if (!is_given && !is_joined && is_unsettled) {
    Result<std::unique_ptr<DumpComparison>> related = compare_by_values(target, golden, options, weights);
    const bool is_known = related && *related != nullptr && (*related)->complete;
    const bool explains = is_known && !(*related)->findings.empty() && weights_relate(**related);
    if (explains || (is_known && is_foreign_port && mostly_relate(**related))) return std::move(**related);
  }
  if (!is_given && runs->findings.empty() && !runs->complete && have_other_lengths(target, golden)) {
    Result<std::unique_ptr<DumpComparison>> related = compare_by_values(target, golden, options, weights);
    if (related && *related != nullptr && (*related)->complete && mostly_relate(**related)) return std::move(**related);
  }
  return runs;
}

}  // namespace sonde
