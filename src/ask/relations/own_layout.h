// Tensors of the target in a layout of its own, which no golden tensor has: they hold golden rows among others, as experts
// that all tokens run through, or rows of several golden tensors, as those of one window.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ask/relations/blame.h"

namespace sonde {

class OwnLayout {
 public:
  OwnLayout(const Pool& target, const Pool& golden, const RelationJudgement& judgement);

  // The results of the operator are golden as far as the golden run has them: each row, or all rows of a golden tensor that
  // corresponds to nothing else. What it reads corresponds, too, or is of an operator that is excused; else most of its
  // rows are golden.
  bool has(std::uint32_t op, const std::vector<char>& is_excused) const;
  // No golden tensor that corresponds to nothing may be a view of it.
  bool is_own(std::uint32_t tensor) const;

 private:
  struct Rows;

  bool may_misplace(std::uint32_t op) const;
  bool turns_all(std::uint32_t op) const;
  bool reads_known(std::uint32_t op, const std::vector<char>& is_excused) const;
  bool consists_of_golden(std::uint32_t tensor) const;
  // All rows of a golden tensor that makes up this share of it.
  bool holds_golden(std::uint32_t tensor, double least_share) const;
  const Rows* golden_rows() const;

  const Pool& target_;
  const Pool& golden_;
  const RelationJudgement& judgement_;
  const bool has_values_;
  std::vector<std::uint32_t> free_;  // golden tensors of the region that correspond to nothing
  mutable std::shared_ptr<const Rows> golden_rows_;
  mutable std::uint64_t left_ = 1 << 23;  // elements of the target that are looked at before it takes too long
};

}  // namespace sonde
