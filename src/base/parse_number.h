// A number that is the whole of a text.
#pragma once

#include <charconv>
#include <string_view>
#include <system_error>

namespace sonde {

// Decimal, for a signed type with or without a minus; of a floating-point type also "nan", "inf" and exponents. False, and
// `out` as it was, for anything else: an empty text, spaces, a plus, digits followed by something, a number too large.
template <typename Number>
bool parse_number(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

// The same of digits alone.
template <typename Number>
bool parse_digits(std::string_view text, Number& out) {
  return !text.starts_with('-') && parse_number(text, out);
}

}  // namespace sonde
