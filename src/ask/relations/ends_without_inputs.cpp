#include "ask/relations/ends_without_inputs.h"

#include <fmt/format.h>

#include <algorithm>

#include "ask/compare/compare_words.h"
#include "ask/compare/step_ends.h"
#include "ask/compare/tolerance.h"
#include "ask/relations/regions.h"
#include "ask/relations/search.h"
#include "ask/relations/standings.h"

namespace sonde {
namespace {

bool is_result(const Pool& pool, std::uint32_t tensor) {
  const PoolTensor& own = pool.tensors[tensor];
  return own.op != kNoOp && own.computed == nullptr && own.has_fractions() && own.print.count > 0;
}

// In order. Without inputs every result may be an end: the last one is.
std::vector<std::uint32_t> results_of_forward(const Pool& pool) {
  std::vector<std::uint32_t> results;
  for (std::uint32_t op = 0; op < pool.ops.size(); ++op) {
    for (const std::uint32_t output : pool.ops[op].outputs) {
      if (is_result(pool, output) && pool.is_of_forward(op)) results.push_back(output);
    }
  }
  return results;
}

std::optional<std::uint32_t> last_result(const Pool& pool, const std::vector<std::uint32_t>& results) {
  const bool all = !has_inputs(pool);
  for (std::size_t i = results.size(); i-- > 0;) {
    if (all || is_end(pool, results[i], false, true)) return results[i];
  }
  return std::nullopt;
}

// The golden result that should have been met: behind `golden_op`, of the same size, and not met.
std::optional<std::uint32_t> expected(const Pool& golden, const RelationJudgement& judgement, std::uint32_t golden_op,
                                      std::uint64_t count) {
  for (const std::uint32_t one : results_of_forward(golden)) {
    const bool is_behind = golden_op == kNoOp || golden.tensors[one].op > golden_op;
    if (is_behind && !judgement.met[one] && golden.tensors[one].print.count == count) return one;
  }
  return std::nullopt;
}

// A golden tensor, up to rounding of its own: without inputs nothing explains more.
bool fits(const RelationJudgement& judgement, std::uint32_t tensor) {
  const TensorDifference& difference = judgement.relations[tensor].difference;
  return is_surely_golden(judgement, tensor) && difference.relative() <= kEndRounding * coarser_spacing(difference);
}

// So few numbers as a loss are too few for a relation: one of the golden results is the same.
bool is_golden_number(const Pool& target, std::uint32_t tensor, const Pool& golden) {
  if (!target.tensors[tensor].print.proves_nothing()) return false;
  const std::uint64_t count = target.tensors[tensor].print.count;
  return std::ranges::any_of(results_of_forward(golden), [&](std::uint32_t other) {
    if (golden.tensors[other].print.count != count) return false;
    const TensorDifference difference = difference_from(target, tensor, golden, other);
    return difference.by == ComparedBy::values && difference.different_non_finite == 0 &&
           difference.relative() <= kEndRounding * coarser_spacing(difference);
  });
}

// A few numbers may be a constant of the graph: others first.
std::optional<std::uint32_t> first_behind(const Pool& target, const std::vector<std::uint32_t>& results,
                                          std::uint32_t op) {
  constexpr std::uint64_t kFew = 4;
  std::optional<std::uint32_t> first;
  for (const std::uint32_t one : results) {
    if (op != kNoOp && target.tensors[one].op <= op) continue;
    const TensorPrint& print = target.tensors[one].print;
    if (print.count > kFew && !print.proves_nothing()) return one;
    if (!first) first = one;
  }
  return first;
}

}  // namespace

bool has_inputs(const Pool& pool) {
  return std::ranges::any_of(pool.ops, [](const PoolOp& op) { return !op.inputs.empty(); });
}

bool knows_edges(const Pool& pool) {
  return std::ranges::all_of(pool.steps, [](const auto& side) { return side->rank->has_journal; });
}

namespace {

bool last_result_fits(const Pool& target, const Pool& golden, const RelationJudgement& judgement) {
  const std::optional<std::uint32_t> last = last_result(target, results_of_forward(target));
  return last && (fits(judgement, *last) || is_golden_number(target, *last, golden));
}

// The last results do not fit: the operator in whose result the order of the files shows it first. `nothing_compared` is set
// if the golden run has no result that could be the last one.
std::optional<Culprit> other_end(const Pool& target, const Pool& golden, RelationJudgement& judgement) {
  const std::vector<std::uint32_t> results = results_of_forward(target);
  const std::optional<std::uint32_t> last = last_result(target, results);
  const std::optional<std::uint32_t> golden_last = last_result(golden, results_of_forward(golden));
  if (!last || !golden_last) return std::nullopt;
  if (judgement.met[*golden_last] && !judgement.relations[*last]) return std::nullopt;
  std::optional<std::uint32_t> good;  // the last one that corresponds
  for (const std::uint32_t one : results) {
    if (fits(judgement, one)) good = one;
  }
  const std::uint32_t good_op = good ? target.tensors[*good].op : kNoOp;
  const std::uint32_t golden_op = good ? golden.tensors[judgement.relations[*good].golden()].op : kNoOp;
  const std::optional<std::uint32_t> first = first_behind(target, results, good_op);
  const bool has_counterpart = static_cast<bool>(judgement.relations[*last]) ||
                               expected(golden, judgement, kNoOp, target.tensors[*last].print.count);
  if (!first || !has_counterpart) {
    judgement.nothing_compared = true;
    return std::nullopt;
  }
  Culprit culprit{.op = target.tensors[*first].op, .like = *first, .uncertain = true};
  const Relation& relation = judgement.relations[*first];
  culprit.golden = relation.is_whole() ? std::optional(relation.golden())
                                       : expected(golden, judgement, golden_op, target.tensors[*first].print.count);
  culprit.what = "its result corresponds to nothing in the golden dump, nor do those behind it";
  if (good) culprit.what += fmt::format("; that of {} before it does", target.name_of(*good));
  culprit.what += ", in the order of the operators (which of them read it is in no file)";
  if (!culprit.golden) return culprit;
  const TensorDifference difference = difference_from(target, *first, golden, *culprit.golden);
  if (difference.by == ComparedBy::values) {
    culprit.what += fmt::format("; relative error {:.3g} to the golden one of its size", difference.relative());
  }
  return culprit;
}

}  // namespace

void settle_without_edges(const Pool& target, const Pool& golden, RelationJudgement& judgement) {
  if (knows_edges(target) && knows_edges(golden)) return;
  const bool is_one_step = target.steps.size() == 1 && golden.steps.size() == 1;
  if (!is_one_step && has_inputs(target) && has_inputs(golden)) return;
  const bool is_doubted =
      !judgement.culprits.empty() && judgement.culprits.front().uncertain && !judgement.culprits.front().weight;
  if (!judgement.culprits.empty() && !is_doubted) return;
  if (last_result_fits(target, golden, judgement)) return judgement.culprits.clear();
  if (std::optional<Culprit> end = other_end(target, golden, judgement)) judgement.culprits = {std::move(*end)};
}

void drop_running_statistics(const Pool& target, RelationJudgement& judgement) {
  std::erase_if(judgement.culprits, [&](const Culprit& culprit) {
    if (!culprit.weight) return false;
    const CompareSide& side = *target.steps[target.ops[culprit.op].step];
    return side.may_be_written.contains(std::string_view(target.tensors[*culprit.weight].of.tensor->parameter));
  });
}

}  // namespace sonde
