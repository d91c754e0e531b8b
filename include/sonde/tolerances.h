// Bounds that the user gives, in place of those that rounding explains.
#pragma once

#include <optional>
#include <string_view>

namespace sonde {

// Empty: derived for each operator.
struct Tolerances {
  std::optional<double> rtol, atol;  // relative and absolute

  // Their names, everywhere.
  static constexpr std::string_view kRelative = "rtol", kAbsolute = "atol";

  bool given() const { return rtol || atol; }
  double relative() const { return rtol.value_or(0); }
  double absolute() const { return atol.value_or(0); }
  // Into an answer that says what was given.
  template <typename Answer>
  void put_into(Answer& answer) const {
    answer.rtol = rtol;
    answer.atol = atol;
  }
  // The largest error of a value of this size.
  double of(double size) const { return absolute() + relative() * size; }
};

}  // namespace sonde
