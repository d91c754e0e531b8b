#include "ground/contract/json.h"

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

}  // namespace contract
}  // namespace sonde
