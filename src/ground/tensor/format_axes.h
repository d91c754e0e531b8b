// The grammar of CANN's formats: the axis, or the part of an axis, that each stored dimension stands for.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ground/tensor/format.h"

namespace sonde {

// The axes of an image or a weight; of a matrix, `n` is all leading dimensions together, `h` its rows, `w` its columns.
enum class Axis : std::uint8_t { n, c, d, h, w };
inline constexpr std::size_t kAxes = 5;
using AxisSizes = std::array<std::int64_t, kAxes>;

// One factor of a stored dimension: a whole axis, the block of an axis, or the element of the block.
struct AxisPart {
  enum class Kind : std::uint8_t { whole, block, element };
  Axis axis = Axis::n;
  Kind kind = Kind::whole;
};

struct FormatAxes {
  enum class Family : std::uint8_t { image, matrix };
  Format format = Format::nd;
  Family family = Family::image;
  std::vector<std::vector<AxisPart>> dims;  // widest first

  bool has_blocks() const;
  bool has(Axis axis) const;
};

// Empty for formats without a rule. FRACTAL_Z_C04 is a separate case and not included.
const FormatAxes* axes_of(Format format);

}  // namespace sonde
