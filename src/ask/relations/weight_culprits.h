// The weights that are to blame, as they are found: by which operator each is read, and what is wrong with it.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "ask/relations/blame.h"

namespace sonde {

struct WeightCulprits {
  // Of a judgement whose regions are known.
  WeightCulprits(const Pool& target, const Pool& golden, const RelationJudgement& judgement);

  // A weight is to blame once. Without one, an operator that moves what is read with it is.
  void add(Culprit culprit);
  void add(std::uint32_t weight, std::uint32_t op, std::string what);

  const Relation& relation(std::uint32_t tensor) const { return judgement.relations[tensor]; }
  bool is_good(std::uint32_t tensor) const { return judgement.standings[tensor] == Standing::good; }
  std::string name_of(const Relation& relation) const;
  // The first operator of the target's region. Indices do not count: they are often made in another way.
  std::uint32_t first_that_differs() const;

  const Pool& target;
  const Pool& golden;
  const RelationJudgement& judgement;
  const std::vector<std::uint32_t> roots, golden_roots;
  std::vector<Culprit> found;

 private:
  std::set<std::uint32_t> known_;
};

}  // namespace sonde
