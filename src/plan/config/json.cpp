#include "plan/config/json.h"

#include <fmt/format.h>

#include <iterator>
#include <unordered_map>
#include <utility>

#include "ground/base/json.h"
#include "plan/config/diagnostics.h"
#include "plan/config/printable.h"

namespace sonde {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// An input iterator that knows the lexer's position: nlohmann's SAX interface has no positions.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *furthest_ = ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) { return a.at_ == b.at_; }
  friend bool operator!=(const CountingIterator& a, const CountingIterator& b) { return !(a == b); }

 private:
  const char* at_;
  const char** furthest_;
};

// Receives nlohmann's events and builds the tree. A handler that returns false ends the parse.
class Builder {
 public:
  Builder(std::string_view text, const JsonLimits& limits, Diagnostics& diagnostics)
      : text_(text), limits_(limits), diagnostics_(diagnostics), furthest_(text.data()) {}

  const char** furthest() { return &furthest_; }
  std::size_t read() const { return static_cast<std::size_t>(furthest_ - text_.data()); }
  JsonValue take_root() { return std::move(root_); }
  std::size_t line();

  bool null() { return scalar(JsonValue::Kind::null) != nullptr; }
  bool boolean(bool value);
  bool number_integer(std::int64_t value);
  bool number_unsigned(std::uint64_t value);
  bool number_float(double, const std::string& spelling);
  bool string(std::string& value);
  bool binary(Json::binary_t&) { return false; }  // JSON text has none
  bool start_object(std::size_t) { return open(JsonValue::Kind::object); }
  bool start_array(std::size_t) { return open(JsonValue::Kind::array); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name);
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& what);

 private:
  // An object or array whose end has not been seen. It is moved into its parent when it is
  // complete, so that no pointer into a growing vector is kept.
  struct Open {
    JsonValue value;
    std::string key;  // object: of the member being read
    std::size_t key_line = 0;
    std::unordered_map<std::string, std::size_t> places;  // object: key -> index in value.members
  };

  JsonValue* scalar(JsonValue::Kind kind);
  JsonValue* place(JsonValue value);
  bool open(JsonValue::Kind kind);
  bool close();

  std::string_view text_;
  const JsonLimits& limits_;
  Diagnostics& diagnostics_;
  const char* furthest_;
  std::size_t counted_ = 0;  // bytes of text_ whose newlines are in line_
  std::size_t line_ = 1;
  std::size_t values_ = 0;
  JsonValue root_;
  std::vector<Open> stack_;
};

// The line of the token just read. The last byte read is not counted: it belongs to the token, or
// it is the one byte that the lexer had to look at to know that a number is over.
std::size_t Builder::line() {
  const std::size_t end = read() > 0 ? read() - 1 : 0;
  for (; counted_ < end; ++counted_) line_ += text_[counted_] == '\n' ? 1 : 0;
  return line_;
}

// Puts a finished value where it belongs and returns its place, valid until the next event.
JsonValue* Builder::place(JsonValue value) {
  if (stack_.empty()) {
    root_ = std::move(value);
    return &root_;
  }
  Open& parent = stack_.back();
  if (parent.value.is(JsonValue::Kind::array)) {
    parent.value.items.push_back(std::move(value));
    return &parent.value.items.back();
  }
  std::vector<JsonMember>& members = parent.value.members;
  const auto [entry, is_new] = parent.places.try_emplace(parent.key, members.size());
  if (is_new) {
    members.push_back({std::move(parent.key), parent.key_line, std::move(value)});
    return &members.back().value;
  }
  JsonMember& member = members[entry->second];
  diagnostics_.warning(parent.key_line, parent.key,
                       fmt::format("repeated key, also on line {}; the last one counts", member.line));
  member.line = parent.key_line;
  member.value = std::move(value);
  return &member.value;
}

JsonValue* Builder::scalar(JsonValue::Kind kind) {
  if (++values_ > limits_.values) {
    diagnostics_.error(line(), "", fmt::format("more than {} values; is this a configuration file?", limits_.values));
    return nullptr;
  }
  JsonValue value;
  value.kind = kind;
  value.line = line();
  return place(std::move(value));
}

bool Builder::boolean(bool value) {
  JsonValue* placed = scalar(JsonValue::Kind::boolean);
  if (placed != nullptr) placed->boolean = value;
  return placed != nullptr;
}

// nlohmann calls this for every number with a minus sign and no fraction, "-0" included.
bool Builder::number_integer(std::int64_t value) {
  JsonValue* placed = scalar(JsonValue::Kind::negative_integer);
  if (placed != nullptr) placed->text = value == 0 ? "-0" : std::to_string(value);
  return placed != nullptr;
}

bool Builder::number_unsigned(std::uint64_t value) {
  JsonValue* placed = scalar(JsonValue::Kind::unsigned_integer);
  if (placed == nullptr) return false;
  placed->number = value;
  placed->text = std::to_string(value);
  return true;
}

bool Builder::number_float(double, const std::string& spelling) {
  JsonValue* placed = scalar(JsonValue::Kind::floating);
  if (placed != nullptr) placed->text = spelling;
  return placed != nullptr;
}

bool Builder::string(std::string& value) {
  JsonValue* placed = scalar(JsonValue::Kind::string);
  if (placed != nullptr) placed->text = std::move(value);
  return placed != nullptr;
}

bool Builder::open(JsonValue::Kind kind) {
  if (stack_.size() >= limits_.depth) {
    diagnostics_.error(line(), "", fmt::format("objects and arrays are nested more than {} deep", limits_.depth));
    return false;
  }
  if (++values_ > limits_.values) {
    diagnostics_.error(line(), "", fmt::format("more than {} values; is this a configuration file?", limits_.values));
    return false;
  }
  Open opened;
  opened.value.kind = kind;
  opened.value.line = line();
  stack_.push_back(std::move(opened));
  return true;
}

bool Builder::close() {
  JsonValue value = std::move(stack_.back().value);
  stack_.pop_back();
  place(std::move(value));
  return true;
}

bool Builder::key(std::string& name) {
  stack_.back().key = std::move(name);
  stack_.back().key_line = line();
  return true;
}

// nlohmann's text is "[json.exception.parse_error.101] parse error at line 3, column 9: REASON";
// only the reason is kept, because its line is that of the byte after the token.
bool Builder::parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& what) {
  std::string_view reason = what.what();
  const std::size_t bracket = reason.find("] ");
  if (bracket != reason.npos) reason.remove_prefix(bracket + 2);
  const std::size_t colon = reason.find(": ");
  if (reason.starts_with("parse error") && colon != reason.npos) reason.remove_prefix(colon + 2);
  const std::size_t at = line();
  const std::size_t newline = text_.substr(0, read() > 0 ? read() - 1 : 0).rfind('\n');
  const std::size_t column = read() - (newline == text_.npos ? 0 : newline + 1);
  const std::string shown = printable(reason, 400);
  diagnostics_.error(at, "",
                     read() == 0 ? "the file is empty; a JSON object is needed"
                                 : fmt::format("not valid JSON at column {}: {}", column, shown));
  return false;
}

void warn_of_trailing_text(Builder& builder, std::string_view text, Diagnostics& diagnostics) {
  const std::size_t start = text.find_first_not_of(std::string_view(" \t\r\n\0", 5), builder.read());
  if (start == text.npos) return;
  std::size_t line = 1;
  for (const char c : text.substr(0, start)) line += c == '\n' ? 1 : 0;
  diagnostics.warning(line, "",
                      fmt::format("{} after the end of the JSON value is ignored", in_quotes(text.substr(start))));
}

}  // namespace

const JsonMember* JsonValue::find(std::string_view key) const {
  for (const JsonMember& member : members) {
    if (member.key == key) return &member;
  }
  return nullptr;
}

std::optional<JsonValue> parse_json(std::string_view text, Diagnostics& diagnostics, const JsonLimits& limits) {
  if (text.size() > limits.bytes) {
    diagnostics.error(0, "", fmt::format("{} bytes; a configuration file may have {}", text.size(), limits.bytes));
    return std::nullopt;
  }
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  Builder builder(text, limits, diagnostics);
  const char* const begin = text.data();
  const bool parsed = Json::sax_parse(CountingIterator(begin, builder.furthest()),
                                      CountingIterator(begin + text.size(), builder.furthest()), &builder,
                                      Json::input_format_t::json, /*strict=*/false);
  if (!parsed) return std::nullopt;
  warn_of_trailing_text(builder, text, diagnostics);
  return builder.take_root();
}

}  // namespace sonde
