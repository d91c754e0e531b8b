// `fc.weight.grad`: the name of the gradient of a parameter.
#pragma once

#include <string>
#include <string_view>

namespace sonde {

inline constexpr std::string_view kGradientName = ".grad";  // after the parameter's name

inline bool is_gradient_name(std::string_view name) { return name.ends_with(kGradientName); }

inline std::string gradient_name(std::string_view parameter) { return std::string(parameter).append(kGradientName); }

// `fc.weight` of its gradient's name, and of its own.
inline std::string_view without_gradient(std::string_view name) {
  if (is_gradient_name(name)) name.remove_suffix(kGradientName.size());
  return name;
}

}  // namespace sonde
