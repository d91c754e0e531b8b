// Evidence from the values of one op of a sharded run, without a golden op.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "ask/compare/compare_side.h"

namespace sonde {

// Of these ops: the first that makes NaN or infinity of finite inputs.
std::optional<std::uint32_t> first_not_finite(const CatalogRank& rank, const CompareSide& side,
                                              const std::set<std::uint32_t>& ops);

// The op, and those that made what it reads.
std::set<std::uint32_t> with_makers(const CompareSide& side, std::uint32_t op);

// It copies, sends or receives, in one piece or several.
bool only_moves(const CompareOp& op);

// A tensor of the program that it reads, as recorded; numbers and parameters are none.
bool reads_value(const CompareInput& input);

// It puts several tensors together (`cat`, `stack`): some may differ and the others not.
bool puts_together(const CompareOp& op);

// Whether its result is its input times the factor: as of the division of a loss by the number of micro-batches.
bool scales_by(double factor, const CatalogRank& rank, const CompareOp& op);

// So many times the golden tensor, as near as gradients come that were exchanged in a half type. Nothing: by values the two
// have no factor, or they have statistics alone.
std::optional<double> near_factor_between(const TensorDifference& difference);

}  // namespace sonde
