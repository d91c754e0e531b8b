// The later effects of a difference: whether results differ at the end, or the two sides agree again.
#pragma once

#include "ask/compare/compare_facts.h"

namespace sonde {

struct LaterEffect {
  bool stays() const { return lasts || !heals; }
  bool lasts = false, heals = false;  // a result differs at the end; somewhere the two agree again
  bool built_otherwise = false;       // an op on the way has no counterpart, or one of several ops
};
// Follows the readers until they agree again.
LaterEffect effect_of(const CompareFacts& facts, const CompareFinding& finding);

// Two runs in one half type: what `op` reads and what it gives are further apart than rounding and the
// errors seen before it explain.
bool is_changed_by_addition(const CompareFacts& facts, const ComparedOp& op, const ComparedTensor& read);
// All ops without a counterpart are on one side.
bool is_one_side_longer(const CompareFacts& facts, bool in_golden);

bool is_comparable(const ComparedTensor& tensor);  // by more than a checksum that differs
bool is_in_another_layout(const CompareFacts& facts, std::string_view parameter);
bool is_in_another_layout(const CompareFacts& facts, const CompareFinding& finding);
// It updates a parameter that the other side keeps in another layout: what it reads and leaves differs.
bool reads_other_layouts(const CompareFacts& facts, std::uint32_t optimizer_op);
// One of the two reads parameters that the other does not have: a norm without its affine part.
bool reads_other_parameters(const CompareFacts& facts, const ComparedOp& op);

}  // namespace sonde
