#include "ask/relations/complements.h"

#include <algorithm>
#include <vector>

#include "read/measure/values.h"

namespace sonde {

bool is_opposite_of_any(const Pool& target, std::uint32_t tensor, const Pool& golden) {
  const PoolTensor& own = target.tensors[tensor];
  if (!is_flag(own)) return false;
  const PoolValues values = target.values_of(tensor);
  if (!values) return false;
  const std::vector<double> mine = all_values(values.view());
  for (std::uint32_t i = 0; i < golden.tensors.size(); ++i) {
    const PoolTensor& other = golden.tensors[i];
    const bool may_be = is_flag(other) && other.computed == nullptr && other.print.count == own.print.count;
    // Their sums are the numbers of what is true.
    if (!may_be || own.print.whole.sum + other.print.whole.sum != static_cast<double>(own.print.count)) continue;
    const PoolValues theirs = golden.values_of(i);
    if (theirs && std::ranges::equal(mine, all_values(theirs.view()), {}, [](double value) { return 1 - value; }))
      return true;
  }
  return false;
}

}  // namespace sonde
