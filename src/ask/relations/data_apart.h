// Data that operators of the target read with what corresponds, and golden ones do not: other rows, another part of a
// tensor, its elements in another order.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ask/relations/blame.h"
#include "ask/relations/own_layout.h"

namespace sonde {

// Not a view of all elements.
bool chooses(const Pool& pool, std::uint32_t op);

class DataApart {
 public:
  struct Of {
    const Region& region;  // of the target
    const std::vector<std::uint32_t>&roots, &golden_roots;
    const OwnLayout& own_layout;
  };
  DataApart(const Pool& target, const Pool& golden, const RelationJudgement& judgement, const Of& of)
      : target_(target),
        golden_(golden),
        judgement_(judgement),
        region_(of.region),
        roots_(of.roots),
        golden_roots_(of.golden_roots),
        own_layout_(of.own_layout),
        has_values_(target.has_values() && golden.has_values()) {}

  // A product or a look-up that reads what corresponds, but not to what the golden one with this weight reads: the
  // operator that made the data.
  std::optional<Culprit> read_with_weights() const;
  // The operator that moved what the culprit reads into an order that is not golden. Also further back, as far as
  // tensors differ or have golden elements in another order.
  std::optional<Culprit> moved_before(const Culprit& culprit) const;
  // The culprit reads what is inside of a golden operator, where the golden run goes on with the result of that one.
  std::optional<Culprit> read_from_inside(const Culprit& culprit) const;
  // What `op` reads, such as heads, is golden in another order of axes: the operator that put it so. Uncertain: axes of one
  // size may lie otherwise on purpose.
  std::optional<Culprit> put_in_another_order(std::uint32_t op) const;

  // The golden operator of the same kind reads other values: the operator that chose those of the target.
  std::optional<Culprit> chosen_otherwise(const Culprit& culprit) const;

 private:
  bool is_good(std::uint32_t tensor) const;
  bool is_plain(std::uint32_t tensor) const;
  bool looks_up(std::uint32_t op) const;
  bool is_maker(std::uint32_t op, std::uint32_t data) const;
  std::optional<Culprit> golden_data_of(std::uint32_t op, std::uint32_t data, std::uint32_t golden_weight) const;
  std::optional<Culprit> weight_of_these_data(std::uint32_t op, std::uint32_t data, std::uint32_t weight) const;
  bool looks_up_others(std::uint32_t op, std::uint32_t numbers) const;
  bool is_in_another_order(std::uint32_t tensor) const;
  std::uint32_t mover_before(std::uint32_t op) const;
  std::uint32_t first_irregular(std::uint32_t op) const;
  bool reads_irregular(std::uint32_t op) const;
  std::uint32_t golden_root(std::uint32_t tensor) const;
  std::optional<Culprit> gives_other_part(std::uint32_t tensor) const;
  std::optional<Culprit> wrongly_moved(std::uint32_t op) const;
  std::optional<Culprit> computed_of_another(std::uint32_t tensor, const std::vector<std::uint32_t>& golden_ops) const;
  std::optional<Culprit> table_of_another(std::uint32_t op, std::uint32_t golden_op) const;
  bool reads_same(const std::vector<std::uint32_t>& golden_ops, std::uint32_t tensor) const;
  std::uint32_t chooser_of(std::uint32_t op) const;
  bool is_turned(std::uint32_t tensor) const;
  std::uint32_t first_turned(std::uint32_t op) const;
  std::vector<std::int64_t> golden_shape(const Relation& relation) const;
  bool repeats_one_head(std::uint32_t tensor) const;
  bool is_regular(std::uint32_t tensor) const;

  const Pool& target_;
  const Pool& golden_;
  const RelationJudgement& judgement_;
  const Region& region_;
  const std::vector<std::uint32_t>&roots_, &golden_roots_;
  const OwnLayout& own_layout_;
  const bool has_values_;
};

}  // namespace sonde
