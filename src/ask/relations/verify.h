// Compares a tensor of the target with the golden tensors that it is said to be made of.
#pragma once

#include "ask/relations/relation.h"
#include "ask/relations/views.h"

namespace sonde {

// The largest relative error of two tensors that are related. Weights are copied, not computed.
double tolerance_for(const PoolTensor& target, const PoolTensor& golden);

// Scores with elements that a mask hides: beside their size, whatever differs among the others is nothing.
bool has_hidden(double min, double max);

// `noise`: an error of this norm is none.
bool agree(const Extent& a, const Extent& b, std::uint64_t count, double tolerance, double noise = 0);
bool agree(const TensorPrint& a, const TensorPrint& b, double tolerance);

// Some of the elements: enough to distinguish a wrong order of axes from the right one.
bool agree_in_samples(const PartView& a, const PartView& b, std::int64_t count, double norm, double tolerance);

// Finds the order of axes of one side that gives the elements of the other, and keeps it; false: none does.
bool turn_to_agree(PartView& target, PartView& golden, std::int64_t count, double norm, double tolerance,
                   Relation& relation);

TensorDifference difference_by_statistics(const PoolTensor& target, const PoolTensor& golden);

// As the whole of a golden tensor, in any order of axes: fills kind, order and difference.
bool verify_whole(const Pool& target, std::uint32_t tensor, const Pool& golden, std::uint32_t other, double tolerance,
                  const ForEach& for_each, Relation& into);
// As the parts of `into`: fills the difference; of all parts, even if the first ones differ, with `to_the_end`.
bool verify_parts(const Pool& target, std::uint32_t tensor, const Pool& golden, double tolerance, Relation& into,
                  bool to_the_end = false);
// As the sum of the two parts.
bool verify_sum(const Pool& target, std::uint32_t tensor, const Pool& golden, Relation& into);

// Whether the values are as a map says. The relation then has their difference, else that of what the map says.
struct Checked {
  bool fits = false;
  bool is_known = true;  // false: the two dumps do not show it
  Relation relation = {};
};
Checked check_claim(const Pool& target, std::uint32_t tensor, const Pool& golden, const Relation& claim);

}  // namespace sonde
