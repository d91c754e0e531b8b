// Pictures of a tensor: its maps side by side, the histogram of its values; and of tensors of one name through the
// steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "face/plot/canvas.h"
#include "sonde/tensor.h"

namespace sonde {

struct MapOptions {
  bool each_by_itself = false;  // shades from the least to the greatest value of each map, not of all shown maps
  std::size_t most = 64;        // maps to show: the first ones
};

// The last two dimensions are a map, the others count the maps; NaN and infinities have colours of their own. If a
// picture cannot show each element, several share a pixel, which shows their mean, or one of them that is not finite.
// Fails with `invalid_argument` for tensors of fewer than two dimensions or without elements.
Result<Canvas> draw_maps(const TensorView& view, const std::string& title, const MapOptions& options);

// Bars of equal width over the finite values, and one bar for NaN and each infinity. Fails without elements.
Result<Canvas> draw_histogram(const TensorView& view, const std::string& title, std::size_t bins);

// One value at one step; empty: not known.
struct TrendPoint {
  std::uint64_t step = 0;
  std::optional<double> value;
};
struct TrendLine {
  std::string name;  // of a rank, where there are several; else empty
  std::vector<TrendPoint> points;
};
struct TrendPanel {
  std::string name;  // "max"
  std::vector<TrendLine> lines;
};
// One panel below the other, each with its own scale.
Canvas draw_trend(const std::vector<TrendPanel>& panels, const std::string& title);

}  // namespace sonde
