// Questions about the operators and tensors of the region where two implementations differ: some of them may be right,
// although nothing golden corresponds to them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "ask/relations/blame.h"
#include "ask/relations/own_layout.h"
#include "ask/relations/standings.h"

namespace sonde {

class RegionFacts {
 public:
  RegionFacts(const Pool& target, const Pool& golden, const RelationJudgement& judgement);

  const Region& region() const { return region_; }  // of the target
  const OwnLayout& own_layout() const { return own_layout_; }
  // By tensor: the weight that it is a view of; kNoOp: none.
  const std::vector<std::uint32_t>& roots() const { return roots_; }
  const std::vector<std::uint32_t>& golden_roots() const { return golden_roots_; }
  // Golden tensors with so many elements that correspond to nothing: what the target should have made.
  const std::vector<std::uint32_t>& missed_of_size(std::uint64_t count) const;

  // The operator depends on what the program reads, with weights or without. Masks and distances do not.
  bool is_of_data(std::uint32_t op) const { return from_data_[op] != 0; }
  bool is_of_batch(std::uint32_t op) const { return from_batch_[op] != 0; }
  bool is_good(std::uint32_t tensor) const { return !is_bad(judgement_.standings[tensor]); }
  bool is_plain(std::uint32_t tensor) const { return !target_.tensors[tensor].has_fractions(); }
  // Of golden tensors: perhaps not those that it should read.
  bool reads_parts(std::uint32_t op) const;
  // A part of a sum, or its negative, which has no counterpart although nothing is wrong.
  bool is_excused(std::uint32_t op) const;
  // It corresponds, or was chosen or moved from what does.
  bool is_known(std::uint32_t tensor) const;
  // All that it reads corresponds, or is as good.
  bool reads_known(std::uint32_t op) const;
  // Scores of attention, which the golden run computes inside of an operator, or a mask: they may be right.
  bool is_inside(std::uint32_t op) const;
  // A weight that corresponds to nothing, where the golden run has none that is missing: it computes what is in it.
  bool is_own_table(std::uint32_t tensor) const;
  // Whole numbers, also as another type.
  bool is_of_numbers(std::uint32_t tensor) const;
  // Also one that only this side has, such as a pad.
  bool shows_alone(std::uint32_t op) const;
  // One that chooses elements, or makes indices or constants, has other numbers although nothing is wrong.
  bool shows(std::uint32_t op) const;
  // A golden operator of the same kind has a result of the same size, and not this one.
  bool golden_computes_such(std::uint32_t op) const;
  // An operator of the golden region of the same type gives as many integers.
  bool golden_makes_such(std::uint32_t tensor) const;
  // The golden tensor of the region that the output is most like.
  std::optional<std::uint32_t> like(std::uint32_t op, std::uint32_t output) const;
  bool is_like_any(std::uint32_t op) const;
  // Numbers that are right are put among others in a way that the golden run does not need: behind it, something computes.
  bool places_in_own_layout(std::uint32_t op) const;

 private:
  void gather_missed();
  bool reads_weight(std::uint32_t op) const;
  bool grows_over_steps(std::uint32_t op) const;
  bool gives_scores(std::uint32_t op) const;
  bool chooses_other_rows(std::uint32_t op) const;
  bool is_soft(std::uint32_t tensor) const;
  bool golden_chooses_such(std::uint32_t tensor) const;
  double bonus(std::uint32_t op, std::uint32_t other) const;

  const Pool& target_;
  const Pool& golden_;
  const RelationJudgement& judgement_;
  const OwnLayout own_layout_;
  const Region region_;
  const std::vector<std::uint32_t> roots_, golden_roots_;
  const bool has_values_;
  const std::vector<char> from_data_, from_batch_;              // by operator of the target
  std::map<std::uint64_t, std::vector<std::uint32_t>> missed_;  // by number of elements, in order
};

}  // namespace sonde
