// Tensors for tests: random elements of any dtype with special values mixed in, and views over them.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "ground/stats/statistics.h"

namespace sonde::sample {

// A view and its memory.
struct Tensor {
  DType dtype = DType::float32;
  std::vector<std::byte> memory;
  std::size_t offset = 0;  // bytes from the start of memory to the first element
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;

  TensorView view() const {
    TensorView view;
    view.dtype = dtype;
    view.data = memory.data() + offset;
    view.shape = shape;
    view.strides = strides;
    return view;
  }
};

inline std::vector<std::int64_t> c_strides(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

template <typename T>
Tensor of(DType dtype, const std::vector<T>& values) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.memory.resize(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(tensor.memory.data(), values.data(), tensor.memory.size());
  tensor.shape = {static_cast<std::int64_t>(values.size())};
  tensor.strides = {1};
  return tensor;
}

inline Tensor floats(const std::vector<float>& values) { return of(DType::float32, values); }
inline Tensor doubles(const std::vector<double>& values) { return of(DType::float64, values); }

// The kind of elements. `bits` is any bit pattern, so NaN and infinity of every kind; `ordinary` has none.
enum class Mix { ordinary, bits, denormal, one_special };

inline bool is_float(DType dtype) { return dtype >= DType::float16 && dtype <= DType::float8_e8m0fnu; }

// Bits above the fraction of a format, which limit its exponent.
struct FloatBits {
  unsigned bytes;
  unsigned fraction_bits;
  unsigned exponent_bits;
};

inline FloatBits float_bits(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return {2, 10, 5};
    case DType::bfloat16:
      return {2, 7, 8};
    case DType::float32:
      return {4, 23, 8};
    case DType::float64:
      return {8, 52, 11};
    case DType::float8_e4m3fn:
    case DType::float8_e4m3fnuz:
      return {1, 3, 4};
    case DType::float8_e8m0fnu:
      return {1, 0, 8};
    default:
      return {1, 2, 5};
  }
}

inline std::uint64_t float_code(DType dtype, Mix mix, std::mt19937_64& random) {
  const FloatBits format = float_bits(dtype);
  const std::uint64_t bits = random();
  if (mix == Mix::bits) return bits;
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << format.fraction_bits) - 1);
  const std::uint64_t sign = dtype == DType::float8_e8m0fnu ? 0 : bits >> 63;
  const std::uint64_t bias = (std::uint64_t{1} << (format.exponent_bits - 1)) - 1;
  const std::uint64_t spread = bias < 16 ? bias : 16;
  std::uint64_t exponent = bias - spread / 2 + (bits >> 52 & 0x7FF) % spread;
  if (mix == Mix::denormal) exponent = 0;
  const bool zero = (bits >> 40) % 16 == 0 && dtype != DType::float8_e8m0fnu;
  std::uint64_t code = zero ? 0 : exponent << format.fraction_bits | fraction;
  // A negative zero is NaN in formats without a negative zero.
  const bool no_negative_zero = dtype == DType::float8_e4m3fnuz || dtype == DType::float8_e5m2fnuz;
  if (sign != 0 && !(code == 0 && no_negative_zero)) {
    code |= std::uint64_t{1} << (8 * format.bytes - 1);
  }
  return code;
}

// `bytes` of elements of `dtype`.
inline std::vector<std::byte> elements(DType dtype, std::size_t count, Mix mix, std::mt19937_64& random) {
  const std::size_t item_bytes = info(dtype).item_bytes;
  std::vector<std::byte> bytes(count * item_bytes);
  const std::size_t special = count > 0 ? random() % count : 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t code = random();
    if (is_float(dtype)) {
      const bool any = mix == Mix::one_special && i == special;
      code = float_code(dtype, any ? Mix::bits : mix == Mix::one_special ? Mix::ordinary : mix, random);
    } else if (dtype == DType::bool8) {
      code &= 1;
    } else if (mix == Mix::ordinary) {
      code = static_cast<std::uint64_t>(static_cast<std::int64_t>(code % 23) - 11);
    } else if (mix == Mix::one_special) {  // the extremes of the type, which overflow first
      const std::uint64_t lowest = std::uint64_t{1} << (8 * item_bytes - 1);
      code = i % 2 == 0 ? lowest : i % 3 == 0 ? lowest - 1 : ~std::uint64_t{0};
    }
    const std::uint64_t words[2] = {code, code * 3};  // an element has sixteen bytes at most
    std::memcpy(bytes.data() + i * item_bytes, words, item_bytes);
  }
  return bytes;
}

inline Tensor contiguous(DType dtype, std::vector<std::int64_t> shape, Mix mix, std::mt19937_64& random) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.strides = c_strides(shape);
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  tensor.shape = std::move(shape);
  tensor.memory = elements(dtype, static_cast<std::size_t>(count), mix, random);
  return tensor;
}

// The copy in C order, made the plain way: one element at a time, by its index.
inline Tensor naive_copy(const TensorView& view) {
  Tensor copy;
  copy.dtype = view.dtype;
  copy.shape.assign(view.shape.begin(), view.shape.end());
  copy.strides = c_strides(copy.shape);
  const std::size_t item_bytes = info(view.dtype).item_bytes;
  const auto count = static_cast<std::int64_t>(view.elements());
  copy.memory.resize(static_cast<std::size_t>(count) * item_bytes);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i;
    std::int64_t at = 0;
    for (std::size_t d = view.shape.size(); d-- > 0;) {
      at += rest % view.shape[d] * view.strides[d];
      rest /= view.shape[d];
    }
    std::memcpy(copy.memory.data() + i * item_bytes, view.data + at * static_cast<std::int64_t>(item_bytes),
                item_bytes);
  }
  return copy;
}

// The statistics bit by bit, so that -0 differs from 0.
inline std::array<std::uint64_t, 11> bits_of(const Statistics& of) {
  const auto bits = [](double value) {
    std::uint64_t word;
    std::memcpy(&word, &value, sizeof word);
    return word;
  };
  return {of.count,          of.nan_count,      of.positive_inf_count, of.negative_inf_count,
          of.positive_count, of.negative_count, of.zero_count,         bits(of.max),
          bits(of.min),      bits(of.sum),      bits(of.sum_squares)};
}

inline std::vector<DType> dtypes_with_statistics() {
  std::vector<DType> dtypes;
  for (const DTypeInfo& row : all_dtypes()) {
    if (row.has_statistics) dtypes.push_back(row.dtype);
  }
  return dtypes;
}

}  // namespace sonde::sample

namespace sonde {

inline constexpr float kInf = std::numeric_limits<float>::infinity();

// The name of a test that runs for every type.
inline std::string name_of(const testing::TestParamInfo<DType>& tested) {
  return std::string(info(tested.param).lower);
}

}  // namespace sonde
