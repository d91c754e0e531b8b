#include "store/npy.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "sonde/tensor.h"

namespace sonde {
namespace {

constexpr std::size_t kAlign = 64;

// The small floating types differ only in these. `finite_only`: no infinities; `unsigned_zero`: the
// bit pattern of -0 is the only NaN.
struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  bool finite_only;
  bool unsigned_zero;
};

float decode(unsigned bits, const SmallFloat& format) {
  const unsigned mantissa_mask = (1U << format.mantissa_bits) - 1;
  const unsigned exponent_mask = (1U << format.exponent_bits) - 1;
  const unsigned sign_bit = 1U << (format.exponent_bits + format.mantissa_bits);
  const unsigned mantissa = bits & mantissa_mask;
  const unsigned exponent = (bits >> format.mantissa_bits) & exponent_mask;
  const float sign = (bits & sign_bit) != 0 ? -1.0F : 1.0F;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  if (format.unsigned_zero && bits == sign_bit) return kNan;
  if (!format.unsigned_zero && exponent == exponent_mask) {
    if (!format.finite_only) {
      return mantissa == 0 ? sign * std::numeric_limits<float>::infinity()
                           : std::copysign(kNan, sign);
    }
    if (mantissa == mantissa_mask) return std::copysign(kNan, sign);
  }
  const unsigned implicit = exponent == 0 ? 0 : mantissa_mask + 1;
  const int power =
      (exponent == 0 ? 1 : static_cast<int>(exponent)) - format.bias - format.mantissa_bits;
  return sign * std::ldexp(static_cast<float>(mantissa + implicit), power);
}

using Table = std::array<float, 256>;

Table table_of(const SmallFloat& format) {
  Table table{};
  for (unsigned i = 0; i < table.size(); ++i) table[i] = decode(i, format);
  return table;
}

Table exponent_table() {  // float8_e8m0fnu: a power of two, 255 is NaN
  Table table{};
  for (int i = 0; i < 255; ++i) table[static_cast<std::size_t>(i)] = std::ldexp(1.0F, i - 127);
  table[255] = std::numeric_limits<float>::quiet_NaN();
  return table;
}

const Table* float8_table(DType dtype) {
  static const Table e4m3fn = table_of({4, 3, 7, true, false});
  static const Table e5m2 = table_of({5, 2, 15, false, false});
  static const Table e4m3fnuz = table_of({4, 3, 8, true, true});
  static const Table e5m2fnuz = table_of({5, 2, 16, true, true});
  static const Table e8m0fnu = exponent_table();
  switch (dtype) {
    case DType::float8_e4m3fn:
      return &e4m3fn;
    case DType::float8_e5m2:
      return &e5m2;
    case DType::float8_e4m3fnuz:
      return &e4m3fnuz;
    case DType::float8_e5m2fnuz:
      return &e5m2fnuz;
    case DType::float8_e8m0fnu:
      return &e8m0fnu;
    default:
      return nullptr;
  }
}

void put(std::byte* out, std::size_t index, float value) {
  std::memcpy(out + index * sizeof value, &value, sizeof value);
}

unsigned half_word(const std::byte* in, std::size_t index) {
  std::uint16_t word = 0;
  std::memcpy(&word, in + index * sizeof word, sizeof word);
  return word;
}

std::string dictionary(std::string_view descr, std::span<const std::int64_t> shape) {
  std::string text = "{'descr': '";
  text.append(descr).append("', 'fortran_order': False, 'shape': (");
  for (const std::int64_t size : shape) text.append(std::to_string(size)).append(",");
  return text.append("), }");
}

}  // namespace

std::string npy_header(DType dtype, std::span<const std::int64_t> shape, bool raw_bfloat16) {
  const bool raw = dtype == DType::bfloat16 && raw_bfloat16;
  const std::string_view descr = raw ? std::string_view("<E2") : info(dtype).npy;
  if (descr.empty()) return {};
  const std::string text = dictionary(descr, shape);
  constexpr std::size_t kFixed = 6 + 2 + 1;  // magic, version, newline
  const bool long_form = kFixed + 2 + text.size() > 0xFFFF;
  const std::size_t length_bytes = long_form ? 4 : 2;
  // A full 64 when already aligned: so does the original.
  const std::size_t padding = kAlign - (kFixed + length_bytes + text.size()) % kAlign;
  std::string header("\x93NUMPY");
  header.push_back(long_form ? '\2' : '\1');
  header.push_back('\0');
  std::size_t stored = text.size() + padding + 1;
  for (std::size_t i = 0; i < length_bytes; ++i, stored >>= 8) {
    header.push_back(static_cast<char>(stored & 0xFF));
  }
  header.append(text).append(padding, ' ').push_back('\n');
  return header;
}

bool npy_needs_widening(DType dtype, bool raw_bfloat16) {
  if (dtype == DType::bfloat16) return !raw_bfloat16;
  return dtype == DType::complex32 || float8_table(dtype) != nullptr;
}

void widen_for_npy(DType dtype, const std::byte* in, std::size_t elements, std::byte* out) {
  if (dtype == DType::bfloat16) {
    for (std::size_t i = 0; i < elements; ++i) {
      put(out, i, std::bit_cast<float>(static_cast<std::uint32_t>(half_word(in, i)) << 16));
    }
  } else if (dtype == DType::complex32) {
    constexpr SmallFloat kHalf{5, 10, 15, false, false};
    for (std::size_t i = 0; i < elements * 2; ++i) put(out, i, decode(half_word(in, i), kHalf));
  } else if (const Table* table = float8_table(dtype)) {
    for (std::size_t i = 0; i < elements; ++i) {
      put(out, i, (*table)[std::to_integer<std::size_t>(in[i])]);
    }
  }
}

}  // namespace sonde
