// visit: the one switch over types of elements.
//
//   const double first = visit(view.dtype, [&]<typename Element>(Element) -> double {
//     if constexpr (std::same_as<Element, NoNumber>) return 0;
//     else return static_cast<double>(Element::number(load<typename Element::Stored>(view.data)));
//   });
#pragma once

#include <cstdint>

#include "ground/tensor/small_floats.h"
#include "sonde/dtype.h"

namespace sonde {

// Kinds of elements: how one lies in memory, and the number that it is.
template <typename T>
struct Plain {
  using Stored = T;
  static T number(T stored) { return stored; }
};
struct Boolean {
  using Stored = std::uint8_t;
  static std::uint8_t number(Stored stored) { return stored != 0 ? 1 : 0; }
};
struct Float16 {
  using Stored = std::uint16_t;
  static float number(Stored bits) { return float16_to_float(bits); }
};
struct Bfloat16 {
  using Stored = std::uint16_t;
  static float number(Stored bits) { return bfloat16_to_float(bits); }
};
template <DType dtype>
struct Float8 {
  using Stored = std::uint8_t;
  static float number(Stored code) { return kFloat8Values<dtype>[code]; }
};
struct NoNumber {};  // complex types, and those without numbers

// The type of the real and the imaginary part; other types unchanged.
constexpr DType part_of(DType dtype) {
  switch (dtype) {
    case DType::complex32:
      return DType::float16;
    case DType::complex64:
      return DType::float32;
    case DType::complex128:
      return DType::float64;
    default:
      return dtype;
  }
}

// Calls f with the kind of the type's elements.
template <typename Function>
decltype(auto) visit(DType dtype, Function&& f) {
  switch (dtype) {
    case DType::bool8:
      return f(Boolean());
    case DType::int8:
    case DType::qint8:
      return f(Plain<std::int8_t>());
    case DType::int16:
      return f(Plain<std::int16_t>());
    case DType::int32:
    case DType::qint32:
      return f(Plain<std::int32_t>());
    case DType::int64:
      return f(Plain<std::int64_t>());
    case DType::uint8:
    case DType::quint8:
      return f(Plain<std::uint8_t>());
    case DType::uint16:
      return f(Plain<std::uint16_t>());
    case DType::uint32:
      return f(Plain<std::uint32_t>());
    case DType::uint64:
      return f(Plain<std::uint64_t>());
    case DType::float16:
      return f(Float16());
    case DType::bfloat16:
      return f(Bfloat16());
    case DType::float32:
      return f(Plain<float>());
    case DType::float64:
      return f(Plain<double>());
    case DType::float8_e4m3fn:
      return f(Float8<DType::float8_e4m3fn>());
    case DType::float8_e5m2:
      return f(Float8<DType::float8_e5m2>());
    case DType::float8_e4m3fnuz:
      return f(Float8<DType::float8_e4m3fnuz>());
    case DType::float8_e5m2fnuz:
      return f(Float8<DType::float8_e5m2fnuz>());
    case DType::float8_e8m0fnu:
      return f(Float8<DType::float8_e8m0fnu>());
    default:
      return f(NoNumber());
  }
}

}  // namespace sonde
