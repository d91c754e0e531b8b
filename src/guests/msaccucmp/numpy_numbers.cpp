#include "guests/msaccucmp/numpy_numbers.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstring>

#include "ground/tensor/visit.h"

namespace sonde::msaccucmp {
namespace {

enum class Kind : std::uint8_t { boolean, whole, unsigned_whole, floating };
// A NumPy type: the kind of its values, and its size in bytes.
struct Type {
  Kind kind = Kind::floating;
  int bytes = 8;
};

Type type_of(DType dtype) {
  if (is_complex(dtype) && dtype != DType::complex32) return {Kind::floating, 8};
  return visit(dtype, []<typename Element>(Element) -> Type {
    if constexpr (std::same_as<Element, Boolean>) {
      return {Kind::boolean, 1};
    } else if constexpr (std::same_as<Element, Float16>) {
      return {Kind::floating, 2};
    } else if constexpr (requires { typename Element::Stored; }) {
      using Number = decltype(Element::number({}));
      const Kind kind = std::is_floating_point_v<Number> ? Kind::floating
                        : std::is_signed_v<Number>       ? Kind::whole
                                                         : Kind::unsigned_whole;
      return {kind, static_cast<int>(sizeof(Number))};
    } else {
      return {Kind::floating, 4};
    }
  });
}

// NumPy's promotion.
Type common(Type a, Type b) {
  if (a.kind == Kind::boolean) return b;
  if (b.kind == Kind::boolean) return a;
  if (a.kind == b.kind) return {a.kind, std::max(a.bytes, b.bytes)};
  if (a.kind == Kind::floating || b.kind == Kind::floating) {
    const Type real = a.kind == Kind::floating ? a : b, whole = a.kind == Kind::floating ? b : a;
    const int needed = whole.bytes == 1 ? 2 : whole.bytes == 2 ? 4 : 8;
    return {Kind::floating, std::max(real.bytes, needed)};
  }
  const int wide = (a.kind == Kind::unsigned_whole ? a : b).bytes * 2;
  const int bytes = std::max(wide, (a.kind == Kind::whole ? a : b).bytes);
  return bytes > 8 ? Type{Kind::floating, 8} : Type{Kind::whole, bytes};
}

template <typename T>
T load(const Array& array, std::int64_t index) {
  T value;
  std::memcpy(&value, array.data + static_cast<std::size_t>(index) * info(array.dtype).item_bytes, sizeof value);
  return value;
}

template <typename T>
T element(const Array& array, std::int64_t index) {
  return visit(part_of(array.dtype), [&]<typename Element>(Element) -> T {
    if constexpr (std::same_as<Element, NoNumber>) {
      return T{};
    } else {
      return static_cast<T>(Element::number(load<typename Element::Stored>(array, index)));
    }
  });
}

// To the nearest float16, ties to even.
double rounded_to_half(double value) {
  const double magnitude = std::abs(value);
  if (!(magnitude < 65520)) return std::isnan(value) ? value : std::copysign(HUGE_VAL, value);
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent - 11, -24));
  return std::nearbyint(value / unit) * unit;
}

}  // namespace

template <typename T>
ElementError ElementErrors::of_integers(const ElementErrors& self, std::int64_t index) {
  using Bits = std::make_unsigned_t<T>;
  const T left = element<T>(self.left_, index), right = element<T>(self.right_, index);
  const auto magnitude = [](T value) {
    return value < 0 ? static_cast<T>(static_cast<Bits>(0 - static_cast<Bits>(value))) : value;
  };
  const T difference = static_cast<T>(static_cast<Bits>(static_cast<Bits>(left) - static_cast<Bits>(right)));
  const auto absolute = static_cast<double>(magnitude(difference));
  return {static_cast<double>(left), static_cast<double>(right), absolute,
          absolute / static_cast<double>(magnitude(right))};
}

ElementError ElementErrors::of_half(const ElementErrors& self, std::int64_t index) {
  const auto left = element<double>(self.left_, index), right = element<double>(self.right_, index);
  const double absolute = std::abs(rounded_to_half(left - right));
  return {left, right, absolute, rounded_to_half(absolute / std::abs(right))};
}

ElementError ElementErrors::of_float(const ElementErrors& self, std::int64_t index) {
  const auto left = element<float>(self.left_, index), right = element<float>(self.right_, index);
  const float absolute = std::abs(left - right), relative = absolute / std::abs(right);
  return {left, right, absolute, relative};
}

ElementError ElementErrors::of_double(const ElementErrors& self, std::int64_t index) {
  const auto left = element<double>(self.left_, index), right = element<double>(self.right_, index);
  const double absolute = std::abs(left - right);
  return {left, right, absolute, absolute / std::abs(right)};
}

ElementErrors::ElementErrors(const Array& left, const Array& right)
    : left_(left), right_(right), are_bools_(left.dtype == DType::bool8 && right.dtype == DType::bool8) {
  const Type type = common(type_of(left.dtype), type_of(right.dtype));
  if (type.kind == Kind::floating || type.kind == Kind::boolean) {
    compute_ = type.bytes == 2 ? of_half : type.bytes == 4 ? of_float : of_double;
  } else if (type.kind == Kind::whole) {
    compute_ = type.bytes == 1   ? of_integers<std::int8_t>
               : type.bytes == 2 ? of_integers<std::int16_t>
               : type.bytes == 4 ? of_integers<std::int32_t>
                                 : of_integers<std::int64_t>;
  } else {
    compute_ = type.bytes == 1   ? of_integers<std::uint8_t>
               : type.bytes == 2 ? of_integers<std::uint16_t>
               : type.bytes == 4 ? of_integers<std::uint32_t>
                                 : of_integers<std::uint64_t>;
  }
}

}  // namespace sonde::msaccucmp
