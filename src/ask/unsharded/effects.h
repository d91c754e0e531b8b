// Whether the difference of a golden op's result reaches the end of the step, or an update.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "ask/unsharded/whole_step.h"

namespace sonde {

class EffectSearch {
 public:
  explicit EffectSearch(const WholeStep& step);

  // Its parts differ from it, and not in a way that other steps show to be harmless.
  bool differs(std::uint32_t golden) const;
  bool has_effect(std::uint32_t golden) const;

 private:
  bool hides_by_size(std::uint32_t reader, std::uint32_t golden) const;
  bool may_heal_in_optimizer(std::uint32_t golden) const;
  bool leaves_other_update(std::uint32_t golden) const;
  bool chooses_from_others(std::uint32_t golden) const;
  bool is_update(std::uint32_t golden) const;

  const WholeStep& step_;
  const CompareSide& golden_;
  std::vector<std::vector<std::uint32_t>> readers_;  // of the values, by golden op
  std::vector<bool> of_gradients_;                   // by golden op: it is computed from what the backward pass gives
  std::set<std::uint64_t> read_later_;               // sequence numbers of golden ops: by the step behind this one
};

}  // namespace sonde
