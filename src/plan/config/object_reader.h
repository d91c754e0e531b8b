// ObjectReader: takes typed values from one JSON object and reports errors with line and key.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "plan/config/json.h"

namespace sonde {
class Diagnostics;

class ObjectReader {
 public:
  // `name` is the object's own key. All must outlive the reader. A value that is not an object reads as an empty one.
  ObjectReader(const JsonValue& object, std::string_view name, Diagnostics& diagnostics)
      : object_(object), name_(name), diagnostics_(diagnostics) {}

  // The member, or null; need() reports an absent one as an error that says what it should hold.
  const JsonMember* find(std::string_view key) const { return object_.find(key); }
  const JsonMember* need(std::string_view key, std::string_view allowed);

  // The member's value; nullopt when the key is absent, or when the value has another type (an
  // error). `allowed` ends the message: "found true; allowed: 0, 1".
  std::optional<std::uint64_t> number(std::string_view key, std::string_view allowed);
  std::optional<std::string> string(std::string_view key, std::string_view allowed);
  std::optional<bool> boolean(std::string_view key);
  // The index of the string in `words`; anything else is an error that lists them.
  std::optional<std::size_t> word(std::string_view key, std::span<const std::string_view> words);

  // MindSpore keeps 32 bits of an unsigned integer: 4294967297 is 1. So do we, with a warning.
  std::optional<std::uint64_t> number32(std::string_view key, std::string_view allowed);

  // "found VALUE; allowed: ALLOWED" at the member's value.
  void refuse(const JsonMember& member, std::string_view allowed);
  void error(const JsonMember& member, std::string message);
  void warning(const JsonMember& member, std::string message);
  std::string path_of(std::string_view key) const;  // "common_dump_settings.iteration"

 private:
  const JsonValue& object_;
  std::string_view name_;
  Diagnostics& diagnostics_;
};

}  // namespace sonde
