// Answers as JSON, and back: one function each way for all of them.
//
//   Json json = json_of(report);                        // without `problems` and `warnings`
//   Json document = document_of(report);                // with them: the document of --json
//   Result<Read<FirstBad>> read = read_json<FirstBad>(document);
//   if (!read->unknown.empty()) warn("a newer Sonde wrote members that this one does not know");
//
// Numbers that JSON cannot express are "nan", "inf", "-inf".
#pragma once

#include <concepts>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "contract/members.h"
#include "ground/base/json.h"
#include "sonde/result.h"

namespace sonde {

Json json_of(double value);
Json json_of(DType dtype);  // null: not known
Json json_of(const Dims& shape);

namespace contract {

template <typename Value>
Json value_json(const Value& value);
template <typename Value>
Json value_json(const std::vector<Value>& values);
template <typename Value>
Json value_json(const std::vector<NamedValue<Value>>& values);

template <typename Value>
Json value_json(const std::optional<Value>& value) {
  return value ? value_json(*value) : Json();
}

template <typename Value>
Json value_json(const std::vector<Value>& values) {
  Json list = Json::array();
  for (const Value& value : values) list.push_back(value_json(value));
  return list;
}

template <typename Value>
Json value_json(const std::vector<NamedValue<Value>>& values) {
  Json object = Json::object();
  for (const NamedValue<Value>& one : values) object[one.name] = value_json(one.value);
  return object;
}

// Out of line, as all that is the same for every member: thousands of them are compiled.
void set(Json& object, std::string_view name, Json value);

template <typename Value>
bool is_empty(const Value& value) {
  if constexpr (requires { value.has_value(); }) {
    return !value.has_value();
  } else if constexpr (requires { value.empty(); }) {
    return value.empty();
  } else if constexpr (std::equality_comparable<Value>) {
    return value == Value();
  } else {
    return false;  // a whole object
  }
}

template <typename Object>
void put_members(Json& json, const Object& object);

template <typename Object, typename Value>
void put(Json& json, const Object& object, const Member<Object, Value>& member) {
  if (member.left_out && is_empty(object.*member.at)) return;
  set(json, member.name, value_json(object.*member.at));
}
template <typename Object, typename Value>
void put(Json& json, const Object& object, const Merged<Object, Value>& member) {
  put_members(json, object.*member.at);
}
template <typename Object, typename Value>
void put(Json& json, const Object& object, const Merged<Object, std::optional<Value>>& member) {
  if (object.*member.at) put_members(json, *(object.*member.at));
}
template <typename Object, typename Value>
void put(Json& json, const Object& object, const Rest<Object, Value>& member) {
  for (const auto& one : object.*member.at) json[one.name] = value_json(one.value);
}

template <typename Object>
void put_members(Json& json, const Object& object) {
  Members<Object>::each([&](const auto&... member) { (put(json, object, member), ...); });
}

template <typename Value>
Json value_json(const Value& value) {
  if constexpr (HasMembers<Value>) {
    Json object = Json::object();
    put_members(object, value);
    if constexpr (Members<Value>::is_answer) {
      object["problems"] = value_json(value.problems);
      object["warnings"] = value.warnings;
    }
    return object;
  } else if constexpr (HasWords<Value>) {
    return Words<Value>::list[static_cast<std::size_t>(value)];
  } else if constexpr (std::same_as<Value, JsonText>) {
    return json_of_text(value.text);
  } else if constexpr (std::same_as<Value, std::filesystem::path>) {
    return value.string();
  } else if constexpr (std::same_as<Value, double> || std::same_as<Value, DType> || std::same_as<Value, Dims>) {
    return json_of(value);
  } else {
    return value;
  }
}

}  // namespace contract

template <HasMembers Value>
Json json_of(const Value& value) {
  Json json = Json::object();
  contract::put_members(json, value);
  return json;
}

template <HasMembers Answer>
requires Members<Answer>::is_answer Json document_of(const Answer& answer) { return contract::value_json(answer); }

}  // namespace sonde

#include "contract/json_writers.h"  // IWYU pragma: export
