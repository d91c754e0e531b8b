#include "server/redact.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "operators/op_family.h"
#include "server/ask.h"

namespace sonde::server {
namespace {

template <std::size_t Size>
bool is_in(const std::array<std::string_view, Size>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Words of a short list, which Sonde chose.
constexpr std::array<std::string_view, 16> kWords = {
    "class", "side", "phase",   "dtype",  "kind",  "severity",   "tags",  "verdict",
    "state", "role", "version", "layout", "ended", "saved_data", "index", "compared_by"};
constexpr std::array<std::string_view, 17> kNames = {
    "row",  "op_name",   "scope",  "parameter", "worst_op",    "previous", "next",    "under",   "name",
    "path", "same_line", "target", "golden",    "absorbed_by", "nearest",  "reaches", "suspects"};
constexpr std::array<std::string_view, 8> kLists = {"attributes", "lines",    "stack",    "notes",
                                                    "warnings",   "problems", "evidence", "limits"};
// Elements of tensors, hashes of them, and places in files.
constexpr std::array<std::string_view, 8> kLeftOut = {"numbers", "worst_value", "worst_golden", "md5",
                                                      "sha1",    "arguments",   "key",          "tensor_file"};
constexpr std::string_view kLoss = "the loss";

}  // namespace

Json Redactor::redacted(const Json& answer) { return value("", answer); }

std::string Redactor::rank(std::string_view rank) {
  const std::size_t digits = rank.find_first_not_of("0123456789");
  if (digits == std::string_view::npos) return std::string(rank);
  return fmt::format("{} of {}", rank.substr(0, digits), part(rank.substr(digits)));
}

std::string Redactor::part(std::string_view part) {
  if (part.empty() || part == kParameterScope) return std::string(part);
  const std::size_t end = part.rfind("-op");
  if (end != std::string_view::npos && end > 0 &&
      part.find_first_not_of("0123456789", end + 3) == std::string_view::npos) {
    return type(part.substr(0, end)) + std::string(part.substr(end));
  }
  return fmt::format("n{}", parts_.try_emplace(std::string(part), parts_.size() + 1).first->second);
}

std::string Redactor::name(std::string_view name) {
  std::string out;
  for (std::size_t begin = 0;;) {
    const std::size_t end = name.find('/', begin);
    out += part(name.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return out;
    out += '/';
    begin = end + 1;
  }
}

std::string Redactor::type(std::string_view op_type) {
  if (op_type.empty() || kind_of(op_type) != OpKind::other) return std::string(op_type);
  return fmt::format("type{}", types_.try_emplace(std::string(op_type), types_.size() + 1).first->second);
}

std::string Redactor::text(std::string_view member, const std::string& text) {
  if (text == kLoss) return text;
  if (member == "rank") return rank(text);
  if (member == "op_type") return type(text);
  if (is_in(kNames, member)) return name(text);
  if (text == "nan" || text == "inf" || text == "-inf") return text;  // numbers
  return is_in(kWords, member) ? text : "";
}

Json Redactor::value(std::string_view member, const Json& value) {
  if (value.is_string()) return text(member, value.get<std::string>());
  if (value.is_array()) {
    Json list = Json::array();
    if (is_in(kLists, member)) return list;
    for (const Json& entry : value) list.push_back(this->value(member, entry));
    return list;
  }
  if (!value.is_object()) return member == "source_line" ? Json(0) : value;
  Json object = Json::object();
  for (const auto& [name, entry] : value.items()) {
    if (!is_in(kLeftOut, name)) object[name] = this->value(name, entry);
    if (name == "numbers" || name == "arguments") object[name] = Json::object();
  }
  return object;
}

}  // namespace sonde::server
