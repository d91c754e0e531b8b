// JSON with line numbers: a document as a tree of values with their positions in the file.
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
  std::string text;                 // string: its value, unescaped; number: its text in the file
  std::vector<JsonValue> items;     // array
  std::vector<JsonMember> members;  // object, in file order, each key once: the last one counts

  bool is(Kind other) const { return kind == other; }
  const JsonMember* find(std::string_view key) const;  // null if absent, or if this is not an object
};

struct JsonMember {
  std::string key;
  std::size_t line = 0;  // of the key
  JsonValue value;
};

// Parses one JSON value. Problems go to `diagnostics` (a syntax error with its line and
// column; a repeated key, or text after the value, as a warning); an error makes the result
// empty. A byte order mark is skipped.
std::optional<JsonValue> parse_json(std::string_view text, Diagnostics& diagnostics, const JsonLimits& limits = {});

// The value for a message, recognisable for the user: `"3"`, `true`, `an array`, … at most about 60 bytes, printable.
std::string spelled(const JsonValue& value);
// The value as compact JSON text, with as few escapes as possible, as MindSpore sees a `kernels` entry.
std::string compact(const JsonValue& value);
// The same in double quotes, about 60 bytes.
std::string in_quotes(std::string_view text);

}  // namespace sonde
