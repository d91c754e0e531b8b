#include "dump/formats/cann_elements.h"

#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "dump/formats/cann_types.h"

namespace sonde {
namespace {

enum Number : std::int32_t {
  kUndefined = 0,
  kDualSubInt8 = 14,
  kDualSubUint8 = 15,
  kQint16 = 19,
  kQuint16 = 22,
  kInt4 = 28,
  kUint1 = 29,
  kInt2 = 30,
  kUint2 = 31,
  kHifloat8 = 33,
  kFloat6E3m2 = 37,
  kFloat6E2m3 = 38,
  kFloat4E2m1 = 39,
  kFloat4E1m2 = 40,
};

constexpr float scaled(float value, int power) {
  for (; power > 0; --power) value *= 2;
  for (; power < 0; ++power) value /= 2;
  return value;
}

// Sign, exponent, fraction; every code is a finite number.
constexpr float small_float(unsigned code, int exponent_bits, int fraction_bits, int bias) {
  const int exponent = static_cast<int>(code >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = static_cast<int>(code) & ((1 << fraction_bits) - 1);
  const int significand = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
  const float value = scaled(static_cast<float>(significand), (exponent == 0 ? 1 : exponent) - bias - fraction_bits);
  return (code >> (exponent_bits + fraction_bits) & 1U) != 0 ? -value : value;
}

// HiFloat8: after the sign, a prefix gives the number of exponent bits: 11 four, 10 three, 01 two, 001 one, 0001 none.
// The exponent is a sign and a magnitude whose highest bit is left out. The rest is the fraction. 0000: a denormal.
constexpr float hifloat8(unsigned code) {
  const bool negative = (code & 0x80) != 0;
  const unsigned rest = code & 0x7F;
  const auto signed_value = [&](float value) { return negative ? -value : value; };
  if (rest == 0x6F) return signed_value(std::numeric_limits<float>::infinity());
  if (rest < 0x08) {
    if (rest == 0) return negative ? std::numeric_limits<float>::quiet_NaN() : 0.0F;
    return signed_value(scaled(1, static_cast<int>(rest) - 23));
  }
  int exponent_bits = 0, prefix_bits = 4;  // 0001
  if (rest >= 0x60) {
    exponent_bits = 4, prefix_bits = 2;
  } else if (rest >= 0x40) {
    exponent_bits = 3, prefix_bits = 2;
  } else if (rest >= 0x20) {
    exponent_bits = 2, prefix_bits = 2;
  } else if (rest >= 0x10) {
    exponent_bits = 1, prefix_bits = 3;
  }
  const int fraction_bits = 7 - prefix_bits - exponent_bits;
  const int fraction = static_cast<int>(rest) & ((1 << fraction_bits) - 1);
  int exponent = 0;
  if (exponent_bits > 0) {
    const int field = static_cast<int>(rest >> fraction_bits) & ((1 << exponent_bits) - 1);
    const int half = 1 << (exponent_bits - 1);
    exponent = half + (field & (half - 1));
    if ((field & half) != 0) exponent = -exponent;
  }
  return signed_value(scaled(static_cast<float>((1 << fraction_bits) + fraction), exponent - fraction_bits));
}

template <typename Value, std::size_t kCodes, typename Decode>
constexpr std::array<Value, kCodes> make_table(Decode decode) {
  std::array<Value, kCodes> table = {};
  for (unsigned code = 0; code < kCodes; ++code) table[code] = decode(code);
  return table;
}

constexpr auto kHifloat8Values = make_table<float, 256>(hifloat8);
constexpr auto kE3m2Values = make_table<float, 64>([](unsigned code) { return small_float(code, 3, 2, 3); });
constexpr auto kE2m3Values = make_table<float, 64>([](unsigned code) { return small_float(code, 2, 3, 1); });
constexpr auto kE2m1Values = make_table<float, 16>([](unsigned code) { return small_float(code, 2, 1, 1); });
constexpr auto kE1m2Values = make_table<float, 16>([](unsigned code) { return small_float(code, 1, 2, 1); });
constexpr auto kInt4Values = make_table<std::int8_t, 16>(
    [](unsigned code) { return static_cast<std::int8_t>(static_cast<int>(code) - (code >= 8 ? 16 : 0)); });
constexpr auto kInt2Values = make_table<std::int8_t, 4>(
    [](unsigned code) { return static_cast<std::int8_t>(static_cast<int>(code) - (code >= 2 ? 4 : 0)); });
constexpr auto kUint2Values =
    make_table<std::uint8_t, 4>([](unsigned code) { return static_cast<std::uint8_t>(code); });

// Codes of log2(kCodes) bits, the first in the lowest bits; a code may lie in two bytes.
template <typename Value, std::size_t kCodes>
void look_up(const std::array<Value, kCodes>& table, const std::byte* data, std::uint64_t first, std::uint64_t count,
             std::byte* out) {
  constexpr unsigned kBits = std::countr_zero(kCodes);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t bit = (first + i) * kBits;
    const unsigned shift = bit % 8;
    unsigned code = std::to_integer<unsigned>(data[bit / 8]) >> shift;
    if (shift + kBits > 8) code |= std::to_integer<unsigned>(data[bit / 8 + 1]) << (8 - shift);
    const Value value = table[code & (kCodes - 1)];
    std::memcpy(out + i * sizeof value, &value, sizeof value);
  }
}

void spread_bits(const std::byte* data, std::uint64_t first, std::uint64_t count, std::byte* out) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t bit = first + i;
    out[i] = data[bit / 8] >> (7 - bit % 8) & std::byte{1};
  }
}

}  // namespace

std::optional<CannElements> cann_elements(std::int32_t data_type) {
  switch (data_type) {
    case kUndefined:
    case kDualSubInt8:
      return CannElements{DType::int8, 8, false};
    case kDualSubUint8:
      return CannElements{DType::uint8, 8, false};
    case kQint16:
      return CannElements{DType::int16, 16, false};
    case kQuint16:
      return CannElements{DType::uint16, 16, false};
    case kInt4:
      return CannElements{DType::int8, 4, true};
    case kUint1:
      return CannElements{DType::uint8, 1, true};
    case kInt2:
      return CannElements{DType::int8, 2, true};
    case kUint2:
      return CannElements{DType::uint8, 2, true};
    case kHifloat8:
      return CannElements{DType::float32, 8, true};
    case kFloat6E3m2:
    case kFloat6E2m3:
      return CannElements{DType::float32, 6, true};
    case kFloat4E2m1:
    case kFloat4E1m2:
      return CannElements{DType::float32, 4, true};
    default:
      break;
  }
  const DType dtype = dtype_of_cann(data_type);
  if (dtype == DType::undefined) return std::nullopt;
  return CannElements{dtype, static_cast<std::uint8_t>(info(dtype).item_bytes * 8), false};
}

void decode_cann(std::int32_t data_type, const std::byte* data, std::uint64_t first, std::uint64_t count,
                 std::byte* out) {
  switch (data_type) {
    case kInt4:
      return look_up(kInt4Values, data, first, count, out);
    case kUint1:
      return spread_bits(data, first, count, out);
    case kInt2:
      return look_up(kInt2Values, data, first, count, out);
    case kUint2:
      return look_up(kUint2Values, data, first, count, out);
    case kHifloat8:
      return look_up(kHifloat8Values, data, first, count, out);
    case kFloat6E3m2:
      return look_up(kE3m2Values, data, first, count, out);
    case kFloat6E2m3:
      return look_up(kE2m3Values, data, first, count, out);
    case kFloat4E2m1:
      return look_up(kE2m1Values, data, first, count, out);
    case kFloat4E1m2:
      return look_up(kE1m2Values, data, first, count, out);
    default:
      return;
  }
}

}  // namespace sonde
