// A document of --json, read back: docs/json/ says what it holds.
#pragma once

#include <fmt/format.h>

#include <limits>

#include "ground/contract/json.h"

namespace sonde {

template <typename Answer>
struct Read {
  Answer answer;
  std::vector<std::string> unknown;  // places of members that this Sonde does not know: a newer one wrote them
};

namespace contract {

// Keeps the place, and the first mistake.
class JsonReader {
 public:
  std::vector<std::string> unknown;
  std::string mistake;  // "findings[0].rank: expected a whole number from 0, found \"x\""

  template <typename Value>
  void read(const Json& json, Value& value);
  template <typename Value>
  void read(const Json& json, std::optional<Value>& value);
  template <typename Value>
  void read(const Json& json, std::vector<Value>& values);
  template <typename Value>
  void read(const Json& json, std::vector<NamedValue<Value>>& values);

 private:
  template <typename Object>
  void read_answer(const Json& json, Object& object);
  template <typename Object>
  void read_object(const Json& json, Object& object, std::vector<std::string_view> others);
  template <typename Object, typename Value>
  void take(const Json& json, Object& object, const Member<Object, Value>& member);
  template <typename Object, typename Value>
  void take(const Json& json, Object& object, const Merged<Object, Value>& member);
  template <typename Object, typename Value>
  void take(const Json& json, Object& object, const Merged<Object, std::optional<Value>>& member);
  template <typename Object>
  void take_members(const Json& json, Object& object);

  bool is(bool right, std::string_view expected, const Json& json);
  void read_number(const Json& json, double& value);
  void read_whole(const Json& json, std::uint64_t most, std::uint64_t& value);
  template <typename Body>
  void at(const std::string& place, const Body& body) {
    const std::size_t size = place_.size();
    place_ += place;
    body();
    place_.resize(size);
  }

  std::string place_;
};

template <typename Type>
void add_names(std::vector<std::string_view>& names);

template <typename Object, typename Value>
void add_name(std::vector<std::string_view>& names, const Member<Object, Value>& member) {
  names.push_back(member.name);
}
template <typename Object, typename Value>
void add_name(std::vector<std::string_view>& names, const Merged<Object, Value>&) {
  add_names<Value>(names);
}
template <typename Object, typename Value>
void add_name(std::vector<std::string_view>& names, const Merged<Object, std::optional<Value>>&) {
  add_names<Value>(names);
}
template <typename Type>
void add_names(std::vector<std::string_view>& names) {
  Members<Type>::each([&](const auto&... member) { (add_name(names, member), ...); });
}

template <typename Value>
void JsonReader::read(const Json& json, std::optional<Value>& value) {
  value.reset();
  if (!json.is_null()) read(json, value.emplace());
}

template <typename Value>
void JsonReader::read(const Json& json, std::vector<Value>& values) {
  if (!is(json.is_array(), "a list", json)) return;
  values.resize(json.size());
  for (std::size_t i = 0; i < json.size(); ++i) {
    at(fmt::format("[{}]", i), [&] { read(json[i], values[i]); });
  }
}

template <typename Value>
void JsonReader::read(const Json& json, std::vector<NamedValue<Value>>& values) {
  if (!is(json.is_object(), "an object", json)) return;
  for (const auto& [name, one] : json.items()) {
    values.push_back({name, {}});
    at("." + name, [&, &value = one] { read(value, values.back().value); });
  }
}

template <typename Value>
void JsonReader::read(const Json& json, Value& value) {
  if constexpr (HasMembers<Value>) {
    if constexpr (Members<Value>::is_answer) {
      read_answer(json, value);
    } else {
      read_object(json, value, {});
    }
  } else if constexpr (HasWords<Value>) {
    constexpr auto& words = Words<Value>::list;
    for (std::size_t i = 0; json.is_string() && i < std::size(words); ++i) {
      if (words[i] == json.get_ref<const std::string&>()) return void(value = static_cast<Value>(i));
    }
    is(false, fmt::format("a word such as '{}'", words[0]), json);
  } else if constexpr (std::same_as<Value, Json>) {
    value = json;
  } else if constexpr (std::same_as<Value, JsonText>) {
    value.text = text_of_json(json);
  } else if constexpr (std::same_as<Value, double>) {
    read_number(json, value);
  } else if constexpr (std::same_as<Value, DType>) {
    if (!json.is_null() && is(json.is_string(), "a text or null", json))
      value = dtype_from_name(json.get<std::string>());
  } else if constexpr (std::same_as<Value, Dims>) {
    std::vector<std::int64_t> sizes;
    read(json, sizes);
    value = Dims(sizes);
  } else if constexpr (std::same_as<Value, bool>) {
    if (is(json.is_boolean(), "true or false", json)) value = json.get<bool>();
  } else if constexpr (std::unsigned_integral<Value>) {
    std::uint64_t number = 0;
    read_whole(json, std::numeric_limits<Value>::max(), number);
    value = static_cast<Value>(number);
  } else if constexpr (std::integral<Value>) {
    if (is(json.is_number_integer(), "a whole number", json)) value = json.get<Value>();
  } else if (is(json.is_string(), "a text", json)) {
    value = json.get<std::string>();
  }
}

template <typename Object, typename Value>
void JsonReader::take(const Json& json, Object& object, const Member<Object, Value>& member) {
  const auto found = json.find(std::string(member.name));
  at(fmt::format("{}{}", place_.empty() ? "" : ".", member.name), [&] {
    if (found != json.end()) return read(*found, object.*member.at);
    if (!member.left_out && mistake.empty()) mistake = place_ + ": is missing";
  });
}
template <typename Object, typename Value>
void JsonReader::take(const Json& json, Object& object, const Merged<Object, Value>& member) {
  take_members(json, object.*member.at);
}
template <typename Object, typename Value>
void JsonReader::take(const Json& json, Object& object, const Merged<Object, std::optional<Value>>& member) {
  std::vector<std::string_view> names;
  add_names<Value>(names);
  for (const std::string_view name : names) {
    if (json.contains(std::string(name))) return take_members(json, (object.*member.at).emplace());
  }
}

template <typename Object>
void JsonReader::take_members(const Json& json, Object& object) {
  Members<Object>::each([&](const auto&... member) { (take(json, object, member), ...); });
}

template <typename Object>
void JsonReader::read_object(const Json& json, Object& object, std::vector<std::string_view> others) {
  if (!is(json.is_object(), "an object", json)) return;
  take_members(json, object);
  add_names<Object>(others);
  for (const auto& [name, one] : json.items()) {
    if (std::ranges::find(others, name) == others.end()) unknown.push_back(place_ + (place_.empty() ? "" : ".") + name);
  }
}

template <typename Object>
void JsonReader::read_answer(const Json& json, Object& object) {
  read_object(json, object, {"problems", "warnings", "error"});
  if (!mistake.empty()) return;
  take(json, object, Member{"problems", &Object::problems});
  take(json, object, Member{"warnings", &Object::warnings});
}

}  // namespace contract

// Fails with `corrupt` where a member is missing or of another type; the message names its place. A document with `error`
// fails with that message.
template <HasMembers Answer>
Result<Read<Answer>> read_json(const Json& document) {
  if constexpr (Members<Answer>::is_answer) {
    if (document.is_object() && document.contains("error") && document["error"].is_object()) {
      return Error{ErrorCode::not_found, document["error"].value("message", "the call failed")};
    }
  }
  Read<Answer> read;
  contract::JsonReader reader;
  reader.read(document, read.answer);
  if (!reader.mistake.empty()) return Error{ErrorCode::corrupt, reader.mistake};
  read.unknown = std::move(reader.unknown);
  return read;
}

}  // namespace sonde
