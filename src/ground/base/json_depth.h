// A limit for JSON that others wrote: copying, comparing and printing a nested value takes stack for each level.
#pragma once

#include <cstddef>
#include <string_view>

namespace sonde {

inline constexpr std::size_t kJsonDepth = 64;  // as of configurations (config/json.h)

// True if objects and arrays lie deeper in each other than that. `text` need not be JSON.
inline bool is_nested_too_deeply(std::string_view text, std::size_t most = kJsonDepth) {
  std::size_t depth = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text) {
      if (c == '\\') ++i;
      if (c == '"') in_text = false;
    } else if (c == '"') {
      in_text = true;
    } else if (c == '[' || c == '{') {
      if (++depth > most) return true;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

// The value of `text`; discarded if it is not JSON, or too deep. `Json` is one of nlohmann's.
template <typename Json>
Json json_of_others(std::string_view text) {
  return is_nested_too_deeply(text) ? Json(Json::value_t::discarded) : Json::parse(text, nullptr, false);
}

}  // namespace sonde
