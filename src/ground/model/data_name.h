// The names of tensors that no operator of a step made: parameters have the program's names; all else is data of the
// program (`data-3`), or left over from an earlier step (`carried-1`).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sonde {

enum class NameKind : std::uint8_t { none, parameter, data, carried };

inline constexpr std::string_view kDataName = "data-", kCarriedName = "carried-";  // and a number

inline NameKind kind_of_name(std::string_view name) {
  if (name.empty()) return NameKind::none;
  if (name.starts_with(kDataName)) return NameKind::data;
  return name.starts_with(kCarriedName) ? NameKind::carried : NameKind::parameter;
}

// The name of a tensor, and what it names: looked at once, where the tensor is read from a dump.
struct TensorName : std::string_view {
  NameKind kind = NameKind::none;

  TensorName() = default;
  TensorName(std::string_view name) : std::string_view(name), kind(kind_of_name(name)) {}
  std::string_view or_if_empty(std::string_view other) const { return empty() ? other : std::string_view(*this); }
  bool is_parameter() const { return kind == NameKind::parameter; }  // or a gradient, or a state of an optimizer
};

inline std::string data_name(std::uint64_t number) { return std::string(kDataName) + std::to_string(number); }
inline std::string carried_name(std::uint64_t number) { return std::string(kCarriedName) + std::to_string(number); }

}  // namespace sonde
