// Weights that hold golden elements in another order, as far as statistics show it.
#pragma once

#include <cstdint>
#include <optional>

#include "ask/relations/weight_culprits.h"

namespace sonde {

// By statistics, which do not show the order of joined parts: the golden weights of which `weight` is joined are read by
// golden products of the same data, and what `op` computes of them is none of these products, nor all of them.
std::optional<Culprit> joined_in_another_order(const WeightCulprits& all, std::uint32_t op, std::uint32_t data,
                                               std::uint32_t weight);

// By statistics: `op` chooses rows of the weight by the numbers by which a golden operator chooses rows of the golden one,
// and gives others.
std::optional<Culprit> rows_in_another_order(const WeightCulprits& all, std::uint32_t op, std::uint32_t numbers,
                                             std::uint32_t weight);

// A weight as the golden one is, for one axis of data that have the golden elements along it in another order: `weight`, as
// the gain of a norm, was left behind when what made the data was put in this order.
std::optional<Culprit> left_in_golden_order(const WeightCulprits& all, std::uint32_t op, std::uint32_t data,
                                            std::uint32_t weight);

}  // namespace sonde
