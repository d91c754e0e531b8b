#include "ground/model/attribute.h"

#include <fmt/format.h>

#include <iterator>
#include <string_view>

namespace sonde {
namespace {

// The text form of a value of each kind. A list is its elements in brackets.
struct AttributeStyle {
  std::string_view boolean, integer, real, text;
  bool words;  // true and false, not 1 and 0
};
constexpr AttributeStyle kPlain{"{}", "{}", "{}", "{}", true};
constexpr AttributeStyle kIr{"Bool({})", "I64({})", "F64({})", "\"{}\"", false};

std::string boolean_text(const AttributeStyle& style, std::int64_t value) {
  const std::string_view word = value != 0 ? "true" : "false";
  if (style.words) return std::string(word);
  return fmt::format(fmt::runtime(style.boolean), value != 0 ? 1 : 0);
}

template <typename Values, typename Write>
std::string list_text(const Values& values, Write write) {
  std::string text = "[";
  for (const auto& value : values) {
    if (text.size() > 1) text += ", ";
    text += write(value);
  }
  return text + "]";
}

std::string written(const Attribute& attribute, const AttributeStyle& style) {
  const auto boolean = [&](std::int64_t value) { return boolean_text(style, value); };
  const auto integer = [&](std::int64_t value) { return fmt::format(fmt::runtime(style.integer), value); };
  const auto real = [&](double value) { return fmt::format(fmt::runtime(style.real), value); };
  switch (attribute.kind) {
    case AttributeKind::none:
      break;
    case AttributeKind::boolean:
      return boolean(attribute.integers.at(0));
    case AttributeKind::integer:
      return integer(attribute.integers.at(0));
    case AttributeKind::real:
      return real(attribute.reals.at(0));
    case AttributeKind::text:
      return fmt::format(fmt::runtime(style.text), attribute.text);
    case AttributeKind::booleans:
      return list_text(attribute.integers, boolean);
    case AttributeKind::integers:
      return list_text(attribute.integers, integer);
    case AttributeKind::reals:
      return list_text(attribute.reals, real);
  }
  return "None";
}

}  // namespace

std::string text_of(const Attribute& attribute) { return written(attribute, kPlain); }

std::string words_of(const Attribute& attribute) {
  constexpr std::string_view kReductions[] = {"none", "mean", "sum"};
  const bool is_number = attribute.name == "reduction" && attribute.kind == AttributeKind::integer;
  const std::int64_t number = is_number ? attribute.integers.at(0) : -1;
  return number >= 0 && number < std::ssize(kReductions) ? std::string(kReductions[number]) : text_of(attribute);
}

std::string ir_text_of(const Attribute& attribute) { return written(attribute, kIr); }

}  // namespace sonde
