// A document of --json, read back: docs/json/ says what it holds.
#pragma once

#include <fmt/format.h>

#include <limits>
#include <span>

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
  template <typename Object, typename Value>
  void take(const Json& json, Object& object, const Rest<Object, Value>& member);
  template <typename Object>
  void take_members(const Json& json, Object& object);

  // The member, or null; its name follows in the place, as that of an element.
  const Json* enter(const Json& json, std::string_view name, bool left_out);
  const Json& enter(const Json& list, std::size_t i);
  bool is(bool right, std::string_view expected, const Json& json);
  void note_unknown(const Json& object, const std::vector<std::string_view>& known);
  void read_number(const Json& json, double& value);
  void read_whole(const Json& json, std::uint64_t most, std::uint64_t& value);
  void read_text(const Json& json, std::string& value);
  void read_dtype(const Json& json, DType& value);
  void read_truth(const Json& json, bool& value);
  std::size_t word(const Json& json, std::span<const std::string_view> words);  // as many as there are: none of them

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
template <typename Object, typename Value>
void add_name(std::vector<std::string_view>&, const Rest<Object, Value>&) {}
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
  const std::size_t size = place_.size();
  for (std::size_t i = 0; i < json.size(); ++i) {
    read(enter(json, i), values[i]);
    place_.resize(size);
  }
}

template <typename Value>
void JsonReader::read(const Json& json, std::vector<NamedValue<Value>>& values) {
  if (!is(json.is_object(), "an object", json)) return;
  const std::size_t size = place_.size();
  for (const auto& [name, one] : json.items()) {
    place_ += '.' + name;
    values.push_back({name, {}});
    read(one, values.back().value);
    place_.resize(size);
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
    const std::size_t i = word(json, Words<Value>::list);
    if (i < std::size(Words<Value>::list)) value = static_cast<Value>(i);
  } else if constexpr (std::same_as<Value, Json>) {
    value = json;
  } else if constexpr (std::same_as<Value, JsonText>) {
    value.text = text_of_json(json);
  } else if constexpr (std::same_as<Value, double>) {
    read_number(json, value);
  } else if constexpr (std::same_as<Value, DType>) {
    read_dtype(json, value);
  } else if constexpr (std::same_as<Value, Dims>) {
    std::vector<std::int64_t> sizes;
    read(json, sizes);
    value = Dims(sizes);
  } else if constexpr (std::same_as<Value, bool>) {
    read_truth(json, value);
  } else if constexpr (std::unsigned_integral<Value>) {
    std::uint64_t number = 0;
    read_whole(json, std::numeric_limits<Value>::max(), number);
    value = static_cast<Value>(number);
  } else if constexpr (std::integral<Value>) {
    if (is(json.is_number_integer(), "a whole number", json)) value = json.get<Value>();
  } else if constexpr (std::same_as<Value, std::string>) {
    read_text(json, value);
  } else {
    std::string text;
    read_text(json, text);
    value = text;
  }
}

template <typename Object, typename Value>
void JsonReader::take(const Json& json, Object& object, const Member<Object, Value>& member) {
  const std::size_t size = place_.size();
  if (const Json* const found = enter(json, member.name, member.left_out)) read(*found, object.*member.at);
  place_.resize(size);
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

template <typename Object, typename Value>
void JsonReader::take(const Json& json, Object& object, const Rest<Object, Value>& member) {
  std::vector<std::string_view> names;
  add_names<Object>(names);
  Json rest = Json::object();
  for (const auto& [name, one] : json.items()) {
    if (std::ranges::find(names, name) == names.end()) rest[name] = one;
  }
  read(rest, object.*member.at);
}

template <typename Object>
void JsonReader::take_members(const Json& json, Object& object) {
  Members<Object>::each([&](const auto&... member) { (take(json, object, member), ...); });
}

template <typename Object>
void JsonReader::read_object(const Json& json, Object& object, std::vector<std::string_view> others) {
  if (!is(json.is_object(), "an object", json)) return;
  take_members(json, object);
  if constexpr (has_rest<Object>()) return;  // it has them all
  add_names<Object>(others);
  note_unknown(json, others);
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

#include "contract/json_readers.h"  // IWYU pragma: export
