// Magnitudes: what the elements of one tensor are without their signs, and how many of them a type would lose.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ground/tensor/number_format.h"
#include "read/catalog/catalog.h"
#include "sonde/answers.h"
#include "sonde/tensor.h"

namespace sonde {

// Of one type. Empty: statistics do not show it.
struct LostElements {
  bool overflows = false;
  std::optional<std::uint64_t> overflow_count, underflow_count, subnormal_count;
};

struct Magnitudes {
  bool from_values = false;
  std::uint64_t elements = 0, infinite_count = 0;
  std::optional<double> largest{};       // of the finite ones
  std::optional<double> least{};         // above 0
  std::vector<LostElements> as_types{};  // as many as there are formats
};

Magnitudes magnitudes_of(const TensorView& view, std::span<const NumberFormat* const> formats, HeadroomScale scale);
// As far as statistics go.
Magnitudes magnitudes_of(const KnownStatistics& statistics, std::span<const NumberFormat* const> formats,
                         HeadroomScale scale);

}  // namespace sonde
