#include "ground/contract/json.h"

#include <algorithm>
#include <cmath>

#include "ground/contract/read_json.h"

namespace sonde {

Json json_of(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

Json json_of(DType dtype) { return dtype == DType::undefined ? Json() : Json(info(dtype).lower); }

Json json_of(const Dims& shape) { return Json(shape); }

namespace contract {

void set(Json& object, std::string_view name, Json value) { object[std::string(name)] = std::move(value); }

const Json* JsonReader::enter(const Json& json, std::string_view name, bool left_out) {
  if (!place_.empty()) place_ += '.';
  place_ += name;
  const auto found = json.find(std::string(name));
  if (found != json.end()) return &*found;
  if (!left_out && mistake.empty()) mistake = place_ + ": is missing";
  return nullptr;
}

const Json& JsonReader::enter(const Json& list, std::size_t i) {
  place_ += '[' + std::to_string(i) + ']';
  return list[i];
}

void JsonReader::note_unknown(const Json& object, const std::vector<std::string_view>& known) {
  for (const auto& [name, one] : object.items()) {
    if (std::ranges::find(known, name) == known.end()) unknown.push_back(place_ + (place_.empty() ? "" : ".") + name);
  }
}

bool JsonReader::is(bool right, std::string_view expected, const Json& json) {
  if (right || !mistake.empty()) return right;
  constexpr std::size_t kShown = 60;
  mistake = fmt::format("{}: expected {}, found {:.{}}", place_, expected, text_of_json(json), kShown);
  return false;
}

void JsonReader::read_number(const Json& json, double& value) {
  if (json.is_number()) return void(value = json.get<double>());
  const std::string text = json.is_string() ? json.get<std::string>() : "";
  const double infinity = std::numeric_limits<double>::infinity();
  if (text == "nan") value = std::numeric_limits<double>::quiet_NaN();
  if (text == "inf" || text == "-inf") value = text == "inf" ? infinity : -infinity;
  is(text == "nan" || text == "inf" || text == "-inf", "a number, \"nan\", \"inf\" or \"-inf\"", json);
}

void JsonReader::read_whole(const Json& json, std::uint64_t most, std::uint64_t& value) {
  const bool whole = json.is_number_unsigned() || (json.is_number_integer() && json.get<std::int64_t>() >= 0);
  if (!is(whole && json.get<std::uint64_t>() <= most, fmt::format("a whole number up to {}", most), json)) return;
  value = json.get<std::uint64_t>();
}

std::size_t JsonReader::word(const Json& json, std::span<const std::string_view> words) {
  const auto found = json.is_string() ? std::ranges::find(words, json.get_ref<const std::string&>()) : words.end();
  is(found != words.end(), fmt::format("a word such as '{}'", words[0]), json);
  return static_cast<std::size_t>(found - words.begin());
}

void JsonReader::read_text(const Json& json, std::string& value) {
  if (is(json.is_string(), "a text", json)) value = json.get<std::string>();
}

void JsonReader::read_dtype(const Json& json, DType& value) {
  if (!json.is_null() && is(json.is_string(), "a text or null", json)) value = dtype_from_name(json.get<std::string>());
}

void JsonReader::read_truth(const Json& json, bool& value) {
  if (is(json.is_boolean(), "true or false", json)) value = json.get<bool>();
}

}  // namespace contract
}  // namespace sonde
