// JSON as values, by nlohmann's library. A reader, a writer and the values themselves take a compiler seconds: json.cpp has
// them for all files.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

extern template class nlohmann::basic_json<nlohmann::ordered_map>;

namespace sonde {

using Json = nlohmann::ordered_json;  // members keep their order

// The value of a text; discarded if it is not JSON.
Json json_of_text(std::string_view text);
Json json_of_text_with_comments(std::string_view text);
// The first byte that is not JSON; the text's size where it ends too early.
std::size_t where_not_json(std::string_view text);

// The text of a value, on one line or indented. Bytes that are not UTF-8, as a path may have, become U+FFFD.
std::string text_of_json(const Json& json, int indent = -1);

// A limit for JSON that others wrote: copying, comparing and printing a nested value takes stack for each level.
inline constexpr std::size_t kJsonDepth = 64;  // as of configurations (config/json.h)

// True if objects and arrays lie deeper in each other than that. `text` need not be JSON.
bool is_nested_too_deeply(std::string_view text, std::size_t most = kJsonDepth);

// The value of a text; discarded if it is not JSON, or too deep.
Json json_of_others(std::string_view text);

}  // namespace sonde
