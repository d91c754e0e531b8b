#include "ask/relations/weight_culprits.h"

#include <utility>

#include "ask/relations/roots_of_weights.h"

namespace sonde {

WeightCulprits::WeightCulprits(const Pool& of_target, const Pool& of_golden, const RelationJudgement& of)
    : target(of_target),
      golden(of_golden),
      judgement(of),
      roots(roots_of(of_target, of.is_weight)),
      golden_roots(roots_of(of_golden, {})) {}

void WeightCulprits::add(Culprit culprit) {
  if (!culprit.weight || known_.insert(*culprit.weight).second) found.push_back(std::move(culprit));
}

void WeightCulprits::add(std::uint32_t weight, std::uint32_t op, std::string what) {
  Culprit culprit{.op = op, .weight = weight, .golden = {}, .what = std::move(what)};
  if (relation(weight)) culprit.golden = relation(weight).golden();
  add(std::move(culprit));
}

std::string WeightCulprits::name_of(const Relation& relation) const {
  return std::string(golden.tensors[relation.golden()].of.tensor->parameter);
}

std::uint32_t WeightCulprits::first_that_differs() const {
  for (const std::uint32_t op : judgement.target.ops) {
    for (const std::uint32_t output : target.ops[op].outputs) {
      if (target.tensors[output].has_fractions() && !is_good(output)) return op;
    }
  }
  return judgement.target.ops.front();
}

}  // namespace sonde
