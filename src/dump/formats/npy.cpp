#include "dump/formats/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstring>

#include "ground/tensor/small_floats.h"

namespace sonde {
namespace {

constexpr std::size_t kNpyAlign = 64;

const std::array<float, 256>* float8_table(DType dtype) {
  switch (dtype) {
    case DType::float8_e4m3fn:
      return &kFloat8Values<DType::float8_e4m3fn>;
    case DType::float8_e5m2:
      return &kFloat8Values<DType::float8_e5m2>;
    case DType::float8_e4m3fnuz:
      return &kFloat8Values<DType::float8_e4m3fnuz>;
    case DType::float8_e5m2fnuz:
      return &kFloat8Values<DType::float8_e5m2fnuz>;
    case DType::float8_e8m0fnu:
      return &kFloat8Values<DType::float8_e8m0fnu>;
    default:
      return nullptr;
  }
}

void put(std::byte* out, std::size_t index, float value) {
  std::memcpy(out + index * sizeof value, &value, sizeof value);
}

std::uint16_t half_word(const std::byte* in, std::size_t index) {
  std::uint16_t word = 0;
  std::memcpy(&word, in + index * sizeof word, sizeof word);
  return word;
}

// The dictionary of the header, `shape` being its tuple without parentheses.
std::string dictionary(std::string_view descr, std::string_view shape) {
  return fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
}

std::string framed(const std::string& text) {
  constexpr std::size_t kFixed = 6 + 2 + 1;  // magic, version, newline
  const bool long_form = kFixed + 2 + text.size() > 0xFFFF;
  const std::size_t length_bytes = long_form ? 4 : 2;
  // Adds a full 64 bytes if the size is already aligned, as the originals do.
  const std::size_t padding = kNpyAlign - (kFixed + length_bytes + text.size()) % kNpyAlign;
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

}  // namespace

std::string npy_header(DType dtype, std::span<const std::int64_t> shape, bool raw_bfloat16) {
  const bool raw = dtype == DType::bfloat16 && raw_bfloat16;
  const std::string_view descr = raw ? std::string_view("<E2") : info(dtype).npy;
  if (descr.empty()) return {};
  std::string sizes;
  for (const std::int64_t size : shape) sizes.append(std::to_string(size)).append(",");
  return framed(dictionary(descr, sizes));
}

std::string numpy_header(DType dtype, std::span<const std::int64_t> shape) {
  constexpr std::size_t kGrownDigits = 21;
  const std::string_view descr = info(dtype).npy;
  if (descr.empty()) return {};
  const std::string sizes = fmt::format("{}{}", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  const std::size_t room = shape.empty() ? 0 : kGrownDigits - std::to_string(shape[0]).size();
  return framed(dictionary(descr, sizes) + std::string(room, ' '));
}

bool npy_needs_widening(DType dtype, bool raw_bfloat16) {
  if (dtype == DType::bfloat16) return !raw_bfloat16;
  return dtype == DType::complex32 || float8_table(dtype) != nullptr;
}

void widen_for_npy(DType dtype, const std::byte* in, std::size_t elements, std::byte* out) {
  if (dtype == DType::bfloat16) {
    for (std::size_t i = 0; i < elements; ++i) put(out, i, bfloat16_to_float(half_word(in, i)));
  } else if (dtype == DType::complex32) {
    for (std::size_t i = 0; i < elements * 2; ++i) put(out, i, float16_to_float(half_word(in, i)));
  } else if (const auto* table = float8_table(dtype)) {
    for (std::size_t i = 0; i < elements; ++i) {
      put(out, i, (*table)[std::to_integer<std::size_t>(in[i])]);
    }
  }
}

}  // namespace sonde
