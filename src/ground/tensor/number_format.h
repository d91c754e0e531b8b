// NumberFormat: which numbers a floating type has. Types that a tensor may be scaled to need not be types of a dump.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "sonde/dtype.h"

namespace sonde {

struct NumberFormat {
  std::string_view name;  // as PyTorch names it
  double largest;
  double beyond;  // from here on, rounding to the nearest gives no number of the type
  double normal;  // the smallest number with all digits
  double least;   // the smallest number above 0

  // Half of the least: rounded to the nearest even one, which is 0.
  bool loses(double magnitude) const { return magnitude > 0 && magnitude <= least / 2; }
  bool overflows(double magnitude) const { return magnitude >= beyond; }
};

std::span<const NumberFormat> number_formats();
const NumberFormat* number_format(std::string_view name);  // null: there is no such type
const NumberFormat* number_format(DType dtype);            // null: not a floating type

}  // namespace sonde
