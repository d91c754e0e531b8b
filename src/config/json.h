// JSON with line numbers: a document as a tree of values that know where in the file they stand.
//
//   JsonDocument document = parse_json(text, diagnostics);
//   if (document.root) ... document.root->find("dump_mode")->line
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sonde {
class Diagnostics;

struct JsonLimits {
  std::size_t bytes = 4 << 20;   // a configuration file is a page or two; 4 MiB holds 50,000 operator names
  std::size_t depth = 64;        // objects and arrays inside each other
  std::size_t values = 1 << 18;  // each costs about 200 bytes of memory
};

struct JsonMember;

struct JsonValue {
  enum class Kind : std::uint8_t { null, boolean, unsigned_integer, negative_integer, floating, string, array, object };

  Kind kind = Kind::null;
  std::size_t line = 0;  // 1-based line of the value's first token
  bool boolean = false;
  std::uint64_t number = 0;         // unsigned_integer only
  std::string text;                 // string: its value, unescaped; number: as it is spelled in the file
  std::vector<JsonValue> items;     // array
  std::vector<JsonMember> members;  // object, in file order, each key once: the last one counts

  bool is(Kind other) const { return kind == other; }
  const JsonMember* find(std::string_view key) const;  // null when absent, or when this is no object
};

struct JsonMember {
  std::string key;
  std::size_t line = 0;  // of the key
  JsonValue value;
};

// Parses one JSON value. What is wrong goes to `diagnostics` (a syntax error with its line and
// column; a repeated key, or text after the value, as a warning) and makes the result empty when it
// is an error. A byte order mark is skipped.
std::optional<JsonValue> parse_json(std::string_view text, Diagnostics& diagnostics, const JsonLimits& limits = {});

// The value as a user would recognise it in a message: `"3"`, `true`, `an array`, … at most about 60 bytes, printable.
std::string spelled(const JsonValue& value);
// The value as compact JSON text, strings unescaped as little as needed; what MindSpore sees of a `kernels` entry.
std::string compact(const JsonValue& value);
// The same in double quotes, about 60 bytes.
std::string in_quotes(std::string_view text);

}  // namespace sonde
