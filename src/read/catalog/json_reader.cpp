#include "read/catalog/json_reader.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

namespace sonde {
namespace {

constexpr std::size_t kDeepestValue = 200;

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

void append_utf8(std::uint32_t code, std::string& out) {
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
    return;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr unsigned kFirst[] = {0, 0xC0, 0xE0, 0xF0};
  out.push_back(static_cast<char>(kFirst[more] | code >> (6 * more)));
  for (int i = more; i-- > 0;) out.push_back(static_cast<char>(0x80 | (code >> (6 * i) & 0x3F)));
}

}  // namespace

JsonReader::JsonReader(std::string_view text) : text_(text) {
  if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
}

void JsonReader::fail(std::string_view expected) {
  if (failed()) return;
  std::string found = "the end of the file";
  if (at_ < text_.size()) {
    const auto c = static_cast<unsigned char>(text_[at_]);
    found = c > ' ' && c < 0x7F ? fmt::format("'{}'", text_[at_]) : fmt::format("byte {:#04x}", c);
  }
  problem_ = fmt::format("byte {}: {}, where {} was expected", at_, found, expected);
}

void JsonReader::skip_space() {
  while (at_ < text_.size() && is_space(text_[at_])) ++at_;
}

JsonReader::Kind JsonReader::peek() {
  if (failed()) return Kind::none;
  skip_space();
  if (at_ >= text_.size()) return Kind::none;
  switch (text_[at_]) {
    case '{':
      return Kind::object;
    case '[':
      return Kind::array;
    case '"':
      return Kind::text;
    case 't':
    case 'f':
      return Kind::boolean;
    case 'n':
      return Kind::null;
    default:
      return Kind::number;
  }
}

bool JsonReader::enter(Kind kind) {
  if (peek() != kind) return false;
  if (++depth_ > kDeepestValue) {
    fail(fmt::format("no more than {} levels", kDeepestValue));
    return false;
  }
  ++at_;
  is_first_ = true;
  return true;
}

bool JsonReader::leave(char close) {
  if (at_ >= text_.size() || text_[at_] != close) return false;
  ++at_;
  --depth_;
  is_first_ = false;
  return true;
}

// Skips the comma before all but the first; false at the end of the container.
bool JsonReader::next(char open, char close) {
  if (failed()) return false;
  skip_space();
  if (leave(close)) return false;
  if (!is_first_) {
    if (at_ >= text_.size() || text_[at_] != ',') {
      fail(open == '{' ? "',' or '}'" : "',' or ']'");
      return false;
    }
    ++at_;
    skip_space();
  }
  is_first_ = false;
  return true;
}

bool JsonReader::next_key(std::string& key) {
  if (!next('{', '}')) return false;
  key.clear();
  if (at_ >= text_.size() || text_[at_] != '"') {
    fail("a key in quotes");
    return false;
  }
  if (!read_text(&key)) return false;
  skip_space();
  if (at_ >= text_.size() || text_[at_] != ':') {
    fail("':'");
    return false;
  }
  ++at_;
  return true;
}

bool JsonReader::next_item() { return next('[', ']'); }

// From its first quote to after the last.
bool JsonReader::read_text(std::string* out) {
  ++at_;
  while (true) {
    const std::size_t end = text_.find_first_of("\"\\", at_);
    if (end == std::string_view::npos) {
      at_ = text_.size();
      fail("'\"'");
      return false;
    }
    if (out != nullptr) out->append(text_.substr(at_, end - at_));
    at_ = end + 1;
    if (text_[end] == '"') {
      is_first_ = false;
      return true;
    }
    if (!read_escape(out)) return false;
  }
}

bool JsonReader::read_unit(std::uint32_t& unit) {
  const std::string_view digits = text_.substr(std::min(at_, text_.size()), 4);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), unit, 16);
  if (digits.size() != 4 || error != std::errc() || end != digits.data() + 4) {
    fail("four hexadecimal digits");
    return false;
  }
  at_ += 4;
  return true;
}

bool JsonReader::read_escape(std::string* out) {
  constexpr std::string_view kLetters = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
  const char letter = at_ < text_.size() ? text_[at_] : '\0';
  if (const std::size_t known = kLetters.find(letter); letter != '\0' && known != std::string_view::npos) {
    if (out != nullptr) out->push_back(kMeant[known]);
    ++at_;
    return true;
  }
  if (letter != 'u') {
    fail("an escape");
    return false;
  }
  ++at_;
  std::uint32_t code = 0;
  if (!read_unit(code)) return false;
  if (code >= 0xD800 && code < 0xDC00 && text_.substr(at_, 2) == "\\u") {
    at_ += 2;
    std::uint32_t low = 0;
    if (!read_unit(low)) return false;
    const bool is_pair = low >= 0xDC00 && low < 0xE000;
    code = is_pair ? 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00) : 0xFFFD;
  }
  if (code >= 0xD800 && code < 0xE000) code = 0xFFFD;
  if (out != nullptr) append_utf8(code, *out);
  return true;
}

bool JsonReader::take_text(std::string& out) {
  if (peek() != Kind::text) return false;
  out.clear();
  return read_text(&out);
}

bool JsonReader::take_word(std::string_view word) {
  if (!text_.substr(at_).starts_with(word)) return false;
  at_ += word.size();
  return true;
}

std::string_view JsonReader::number_text() {
  const std::size_t end = std::min(text_.find_first_not_of("+-.0123456789eE", at_), text_.size());
  return text_.substr(at_, end - at_);
}

bool JsonReader::take_number(double& out) {
  if (peek() != Kind::number) return false;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (take_word("NaN")) {
    out = std::numeric_limits<double>::quiet_NaN();
  } else if (take_word("Infinity")) {
    out = kInfinity;
  } else if (take_word("-Infinity")) {
    out = -kInfinity;
  } else {
    const std::string_view text = number_text();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    const bool out_of_range = error == std::errc::result_out_of_range;
    if ((error != std::errc() && !out_of_range) || end != text.data() + text.size()) {
      fail("a value");
      return false;
    }
    if (out_of_range)
      out = text.find("e-") != std::string_view::npos ? 0 : text.front() == '-' ? -kInfinity : kInfinity;
    at_ += text.size();
  }
  return true;
}

bool JsonReader::take_integer(std::int64_t& out) {
  if (peek() != Kind::number) return false;
  const std::string_view text = number_text();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  at_ += text.size();
  return true;
}

bool JsonReader::take_boolean(bool& out) {
  if (peek() != Kind::boolean) return false;
  out = take_word("true");
  if (out || take_word("false")) return true;
  fail("a value");
  return false;
}

bool JsonReader::take_null() {
  if (peek() != Kind::null) return false;
  if (take_word("null")) return true;
  fail("a value");
  return false;
}

void JsonReader::skip() {
  std::size_t open = 0;
  std::string kinds;  // of the containers that are open
  do {
    switch (peek()) {
      case Kind::object:
        if (enter_object()) kinds.push_back('{');
        break;
      case Kind::array:
        if (enter_array()) kinds.push_back('[');
        break;
      case Kind::text:
        read_text(nullptr);
        break;
      case Kind::boolean: {
        bool ignored = false;
        take_boolean(ignored);
        break;
      }
      case Kind::null:
        take_null();
        break;
      case Kind::number: {
        double ignored = 0;
        take_number(ignored);
        break;
      }
      case Kind::none:
        fail("a value");
        break;
    }
    open = kinds.size();
    while (open > 0 && !failed()) {  // to the next value, out of levels that end here
      skip_space();
      const bool in_object = kinds.back() == '{';
      if (leave(in_object ? '}' : ']')) {
        kinds.pop_back();
        open = kinds.size();
        continue;
      }
      std::string ignored;
      if (in_object ? next_key(ignored) : next_item()) break;
    }
  } while (open > 0 && !failed());
}

void JsonReader::back_to(Place place) {
  at_ = place.at;
  depth_ = place.depth;
  is_first_ = place.is_first;
}

}  // namespace sonde
