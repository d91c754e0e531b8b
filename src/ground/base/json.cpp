#include "ground/base/json.h"

#include <algorithm>

template class nlohmann::basic_json<nlohmann::ordered_map>;

namespace sonde {

Json json_of_text(std::string_view text) { return Json::parse(text, nullptr, false); }

Json json_of_text_with_comments(std::string_view text) { return Json::parse(text, nullptr, false, true); }

std::size_t where_not_json(std::string_view text) {
  try {
    [[maybe_unused]] const Json json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    return error.byte > 0 ? std::min(error.byte - 1, text.size()) : 0;
  }
  return text.size();
}

std::string text_of_json(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

bool is_nested_too_deeply(std::string_view text, std::size_t most) {
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

Json json_of_others(std::string_view text) {
  return is_nested_too_deeply(text) ? Json(Json::value_t::discarded) : json_of_text(text);
}

}  // namespace sonde
