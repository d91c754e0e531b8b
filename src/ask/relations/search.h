// Finds for each tensor of the target the golden tensors that it is made of, by values alone.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ask/relations/relation.h"

namespace sonde {

class Search {
 public:
  Search(const Pool& target, const Pool& golden, const Threads& threads);
  ~Search();

  // Of a tensor of the target; also notes which golden tensors it corresponds to.
  Relation find(std::uint32_t tensor);
  // Notes those of a relation that is known.
  void note(const Relation& relation);
  // By golden tensor: a tensor of the target corresponds to it, or to a part of it.
  const std::vector<char>& met() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The same but for places where the golden tensor has -inf and the target a large negative number: a mask.
bool same_but_for_mask(const Pool& target, std::uint32_t tensor, const Pool& golden, std::uint32_t other);

// Each element is that of the other, as far as rounding goes.
bool have_same_values(const Pool& target, std::uint32_t tensor, const Pool& golden, std::uint32_t other);

// The two as flat vectors, in the best order of axes: the correlation of up to some thousand elements. 0 if they have
// different numbers of elements or no values.
double likeness_of(const Pool& target, std::uint32_t tensor, const Pool& golden, std::uint32_t other);

// Of the two in that order of axes. They have the same number of elements, and values.
TensorDifference difference_from(const Pool& target, std::uint32_t tensor, const Pool& golden, std::uint32_t other);

}  // namespace sonde
