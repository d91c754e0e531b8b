#include "face/server/redact.h"

#include <fmt/format.h>

#include "face/server/ask.h"
#include "ground/base/text.h"
#include "read/operators/op_family.h"

namespace sonde::server {
namespace {

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
  for (const std::string_view field : fields_in(name, '/')) out += '/' + part(field);
  return out.substr(1);
}

std::string Redactor::type(std::string_view op_type) {
  if (op_type.empty() || kind_of(op_type) != OpKind::other) return std::string(op_type);
  return fmt::format("type{}", types_.try_emplace(std::string(op_type), types_.size() + 1).first->second);
}

std::string Redactor::text(Privacy privacy, const std::string& text) {
  if (text == kLoss) return text;
  switch (privacy) {
    case Privacy::rank:
      return rank(text);
    case Privacy::type:
      return type(text);
    case Privacy::name:
      return name(text);
    case Privacy::word:
      return text;
    default:
      return text == "nan" || text == "inf" || text == "-inf" ? text : "";  // numbers
  }
}

Json Redactor::value(std::string_view member, const Json& value) {
  const Privacy privacy = privacy_of(member);
  if (value.is_string()) return text(privacy, value.get<std::string>());
  if (value.is_array()) {
    Json list = Json::array();
    if (privacy == Privacy::emptied) return list;
    for (const Json& entry : value) list.push_back(this->value(member, entry));
    return list;
  }
  if (!value.is_object()) return privacy == Privacy::zero ? Json(0) : value;
  Json object = Json::object();
  if (privacy == Privacy::emptied) return object;
  for (const auto& [name, entry] : value.items()) {
    if (privacy_of(name) != Privacy::left_out) object[name] = this->value(name, entry);
  }
  return object;
}

}  // namespace sonde::server
