// Biases that the target lost, or adds to the product with another part than the golden run.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "ask/relations/weight_culprits.h"

namespace sonde {

class BiasesApart {
 public:
  explicit BiasesApart(WeightCulprits& all) : all_(all) {}

  // Those that are read before `first`, the first operator that differs.
  void find_before(std::uint32_t first) {
    find_lost_siblings(first);
    find_lost_biases(first);
  }
  // Of one that `op` reads: true if it is to blame.
  bool add_lost_sibling(std::uint32_t op, std::uint32_t weight);
  bool add_of_another_part(std::uint32_t op, std::uint32_t data, std::uint32_t bias);
  bool add_beside_another(std::uint32_t op, std::uint32_t bias);
  bool add_of_other_sums(std::uint32_t op, std::uint32_t data, std::uint32_t bias);

 private:
  void find_lost_biases(std::uint32_t first);
  void find_lost_siblings(std::uint32_t first);
  bool lacks_bias(std::uint32_t tensor) const;
  bool is_in_golden_order(std::uint32_t weight) const;
  bool are_read_together(std::uint32_t a, std::uint32_t b) const;

  const Relation& relation(std::uint32_t weight) const { return judgement_.relations[weight]; }
  bool is_good(std::uint32_t tensor) const { return all_.is_good(tensor); }
  std::string name_of(const Relation& relation) const { return all_.name_of(relation); }
  void add(std::uint32_t weight, std::uint32_t op, std::string what) { all_.add(weight, op, std::move(what)); }

  WeightCulprits& all_;
  const Pool& target_ = all_.target;
  const Pool& golden_ = all_.golden;
  const RelationJudgement& judgement_ = all_.judgement;
  const std::vector<std::uint32_t>& roots_ = all_.roots;
};

}  // namespace sonde
