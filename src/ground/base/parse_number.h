// Parses a text that consists of one number.
#pragma once

#include <charconv>
#include <string_view>
#include <system_error>

namespace sonde {

// Decimal; signed types accept a minus; floating-point types also accept "nan", "inf" and exponents. Returns false and
// leaves `out` unchanged for anything else: an empty text, spaces, a plus, trailing characters, a number too large.
template <typename Number>
bool parse_number(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

// The same, but accepts digits only.
template <typename Number>
bool parse_digits(std::string_view text, Number& out) {
  return !text.starts_with('-') && parse_number(text, out);
}

}  // namespace sonde
