#include "ground/tensor/number_format.h"

#include <algorithm>
#include <limits>

namespace sonde {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// IEEE 754 for 16 bits and more. 8 bits: "FP8 Formats for Deep Learning" (Micikevicius and others, 2022); *fnuz: "8-bit
// Numerical Formats for Deep Neural Networks" (Noune and others, 2022). 4 bits: OCP Microscaling Formats 1.0.
constexpr NumberFormat kFormats[] = {
    {"float64", std::numeric_limits<double>::max(), kInfinity, std::numeric_limits<double>::min(),
     std::numeric_limits<double>::denorm_min()},
    {"float32", 0x1.fffffep127, 0x1.ffffffp127, 0x1p-126, 0x1p-149},
    {"bfloat16", 0x1.fep127, 0x1.ffp127, 0x1p-126, 0x1p-133},
    {"float16", 0x1.ffcp15, 0x1.ffep15, 0x1p-14, 0x1p-24},
    {"float8_e5m2", 57344, 61440, 0x1p-14, 0x1p-16},
    {"float8_e5m2fnuz", 57344, 61440, 0x1p-15, 0x1p-17},
    {"float8_e4m3fn", 448, 0x1.d000000000001p8, 0x1p-6, 0x1p-9},  // 464 lies in the middle, and 448 is even
    {"float8_e4m3fnuz", 240, 248, 0x1p-7, 0x1p-10},
    {"float4_e2m1fn", 6, 7, 1, 0.5},
};

}  // namespace

std::span<const NumberFormat> number_formats() { return kFormats; }

const NumberFormat* number_format(std::string_view name) {
  const auto found = std::ranges::find(kFormats, name, &NumberFormat::name);
  return found == std::ranges::end(kFormats) ? nullptr : &*found;
}

const NumberFormat* number_format(DType dtype) { return number_format(info(dtype).lower); }

}  // namespace sonde
