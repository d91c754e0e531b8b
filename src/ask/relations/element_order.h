// The order of a tensor's elements after views and transpositions, where statistics are all that is known of them.
#pragma once

#include <optional>
#include <vector>

#include "ask/relations/pool.h"

namespace sonde {

struct ElementOrder {
  std::uint32_t root = 0;                   // the tensor that was moved
  std::vector<std::int64_t> elements = {};  // of the root, in the order of the moved tensor
  std::uint32_t first = kNoOp;  // the first operator that moved it, a view only where no other does; kNoOp: none
};

// Nothing: an operator on the way does more than to view or to exchange axes, or the tensor is large.
std::optional<ElementOrder> element_order_of(const Pool& pool, std::uint32_t tensor);

// It joins parts or moves them along an axis, such as `cat` and `roll`: not rows that indices choose.
bool puts_in_order(const Pool& pool, std::uint32_t op);

}  // namespace sonde
