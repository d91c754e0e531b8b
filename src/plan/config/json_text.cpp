// JSON values and strings as text: for messages, and as MindSpore sees the entries of `kernels`.
#include <fmt/format.h>

#include "plan/config/json.h"
#include "plan/config/printable.h"

namespace sonde {
namespace {

constexpr std::size_t kShown = 60;  // bytes of a value that a message repeats

// A string as nlohmann writes it: quotes, backslashes and control characters escaped, everything else as it is.
std::string escaped(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  return out + '"';
}

}  // namespace

std::string in_quotes(std::string_view text) { return '"' + printable(text, kShown) + '"'; }

std::string spelled(const JsonValue& value) {
  switch (value.kind) {
    case JsonValue::Kind::null:
      return "null";
    case JsonValue::Kind::boolean:
      return value.boolean ? "true" : "false";
    case JsonValue::Kind::unsigned_integer:
    case JsonValue::Kind::negative_integer:
    case JsonValue::Kind::floating:
      return printable(value.text, kShown);
    case JsonValue::Kind::string:
      return in_quotes(value.text);
    case JsonValue::Kind::array:
      return value.items.empty() ? "[]" : "an array";
    case JsonValue::Kind::object:
      return value.members.empty() ? "{}" : "an object";
  }
  return "";
}

std::string compact(const JsonValue& value) {
  std::string out;
  switch (value.kind) {
    case JsonValue::Kind::string:
      return escaped(value.text);
    case JsonValue::Kind::array:
      for (const JsonValue& item : value.items) out += (out.empty() ? "" : ",") + compact(item);
      return "[" + out + "]";
    case JsonValue::Kind::object:
      for (const JsonMember& member : value.members) {
        out += (out.empty() ? "" : ",") + escaped(member.key) + ":" + compact(member.value);
      }
      return "{" + out + "}";
    default:
      return spelled(value);
  }
}

}  // namespace sonde
