#include "plan/config/pattern.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <bitset>
#include <optional>

namespace sonde {
namespace {

constexpr std::size_t kMostBytes = 64 << 10;  // of an expression
constexpr std::int64_t kProgramBytes = 1 << 20;
constexpr int kMostDepth = 100;     // parentheses inside each other
constexpr int kMostRepeats = 1000;  // RE2's own bound for {n,m}

using ByteSet = std::bitset<256>;

template <typename Predicate>
ByteSet set_of(Predicate wanted) {
  ByteSet set;
  for (int byte = 0; byte < 128; ++byte) set[static_cast<std::size_t>(byte)] = wanted(static_cast<char>(byte));
  return set;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_alpha(char c) { return is_upper(c) || is_lower(c); }
bool is_alnum(char c) { return is_alpha(c) || is_digit(c); }
bool is_word(char c) { return is_alnum(c) || c == '_'; }
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_graph(char c) { return c > ' ' && c < '\x7F'; }

// The classes of [[:name:]], d, s and w as libstdc++ knows them too.
std::optional<ByteSet> named_class(std::string_view name) {
  if (name == "alnum") return set_of(is_alnum);
  if (name == "alpha") return set_of(is_alpha);
  if (name == "blank") return set_of([](char c) { return c == ' ' || c == '\t'; });
  if (name == "cntrl") return set_of([](char c) { return c < ' ' || c == '\x7F'; });
  if (name == "digit" || name == "d") return set_of(is_digit);
  if (name == "graph") return set_of(is_graph);
  if (name == "lower") return set_of(is_lower);
  if (name == "print") return set_of([](char c) { return is_graph(c) || c == ' '; });
  if (name == "punct") return set_of([](char c) { return is_graph(c) && !is_alnum(c); });
  if (name == "space" || name == "s") return set_of(is_space);
  if (name == "upper") return set_of(is_upper);
  if (name == "word" || name == "w") return set_of(is_word);
  if (name == "xdigit") return set_of(is_hex);
  return std::nullopt;
}

std::string literal(unsigned char byte) {
  return is_alnum(static_cast<char>(byte)) ? std::string(1, static_cast<char>(byte)) : fmt::format("\\x{:02x}", byte);
}

std::string text_of_set(const ByteSet& set) {
  if (set.none()) return "[^\\x00-\\xff]";
  std::string text = "[";
  for (std::size_t first = 0; first < 256; ++first) {
    if (!set[first]) continue;
    std::size_t last = first;
    while (last < 255 && set[last + 1]) ++last;
    text += fmt::format("\\x{:02x}-\\x{:02x}", first, last);
    first = last;
  }
  return text + "]";
}

std::string utf8(unsigned code) {
  std::string bytes;
  if (code < 0x80) {
    bytes += static_cast<char>(code);
  } else if (code < 0x800) {
    bytes += static_cast<char>(0xC0 | (code >> 6));
    bytes += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    bytes += static_cast<char>(0xE0 | (code >> 12));
    bytes += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    bytes += static_cast<char>(0x80 | (code & 0x3F));
  }
  return bytes;
}

// A recursive descent over ECMA-262's Disjunction, writing RE2 as it goes. The first error ends it.
class Translator {
 public:
  explicit Translator(std::string_view text) : text_(text) {}

  Result<std::string> translate() {
    std::string out = disjunction(0);
    if (!error_ && !done()) fail("')' without '('");
    if (error_) return *error_;
    return out;
  }

 private:
  bool done() const { return at_ >= text_.size() || error_; }
  char peek() const { return text_[at_]; }
  bool next_is(std::string_view expected) const { return text_.substr(at_).starts_with(expected); }
  void fail(std::string what, ErrorCode code = ErrorCode::invalid_argument) {
    if (!error_) error_ = Error{code, fmt::format("{} at character {}", what, at_ + 1)};
  }

  std::string disjunction(int depth);
  std::string term(int depth);
  std::string group(int depth);
  std::string quantified(std::string atom);
  std::string repeat();
  std::string escape();
  std::string bracket();
  void bracket_item(ByteSet& set);
  bool posix_class(ByteSet& set, unsigned char& single, bool& is_single);
  bool class_escape(char letter, ByteSet& set) const;
  std::optional<unsigned> character_escape(bool in_bracket);
  unsigned hex_digits(int count);

  std::string_view text_;
  std::size_t at_ = 0;
  std::optional<Error> error_;
};

std::string Translator::disjunction(int depth) {
  if (depth > kMostDepth) fail(fmt::format("parentheses nested more than {} deep", kMostDepth));
  std::string out;
  while (!done() && peek() != ')') {
    if (peek() == '|') {
      out += text_[at_++];
    } else {
      out += term(depth);
    }
  }
  return out;
}

std::string Translator::term(int depth) {
  const char c = peek();
  if (c == '^' || c == '$' || next_is("\\b") || next_is("\\B")) {
    const std::size_t length = c == '\\' ? 2 : 1;
    std::string assertion(text_.substr(at_, length));
    at_ += length;
    if (!done() && (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{')) {
      fail(fmt::format("'{}' has nothing to repeat", peek()));
    }
    return assertion;
  }
  if (c == '*' || c == '+' || c == '?' || c == '{') {
    fail(fmt::format("'{}' has nothing to repeat", c));
    return {};
  }
  if (c == '(') return group(depth);
  if (c == '[') return quantified(bracket());
  if (c == '\\') return quantified(escape());
  ++at_;
  if (c == '.') return quantified("[^\\x0a\\x0d]");
  return quantified(literal(static_cast<unsigned char>(c)));
}

std::string Translator::group(int depth) {
  if (next_is("(?=") || next_is("(?!")) {
    fail(fmt::format("look-ahead '{}' is not supported (patterns run in linear time)", text_.substr(at_, 3)),
         ErrorCode::unsupported);
    return {};
  }
  const bool plain = next_is("(?:");
  if (!plain && next_is("(?")) {
    fail(fmt::format("'{}' is not part of the ECMAScript grammar", text_.substr(at_, 3)));
    return {};
  }
  at_ += plain ? 3 : 1;
  const std::size_t start = at_;
  const std::string inside = disjunction(depth + 1);
  if (error_) return {};
  if (at_ >= text_.size()) {
    at_ = start - (plain ? 3 : 1);
    fail("'(' is not closed");
    return {};
  }
  ++at_;
  return quantified("(?:" + inside + ")");
}

// Quantifiers may follow each other, as std::regex has it ("x{2}+"); RE2 wants a group between them.
std::string Translator::quantified(std::string atom) {
  bool repeated = false;
  while (!done()) {
    const char c = peek();
    if (c != '*' && c != '+' && c != '?' && c != '{') break;
    const std::string count = c == '{' ? repeat() : std::string(1, text_[at_++]);
    if (error_) return {};
    if (repeated) atom = "(?:" + atom + ")";
    atom += count;
    if (!done() && peek() == '?') ++at_;  // lazy: the same whole texts match
    repeated = true;
    if (atom.size() > 4 * kMostBytes) fail("too many quantifiers");
  }
  return atom;
}

// "{n}", "{n,}" or "{n,m}".
std::string Translator::repeat() {
  const std::size_t start = at_++;
  const auto number = [&]() -> std::optional<int> {
    if (at_ >= text_.size() || !is_digit(peek())) return std::nullopt;
    int value = 0;
    for (; at_ < text_.size() && is_digit(peek()); ++at_) {
      value = std::min(value * 10 + (peek() - '0'), kMostRepeats + 1);
    }
    return value;
  };
  const std::optional<int> low = number();
  const bool comma = low && at_ < text_.size() && peek() == ',';
  if (comma) ++at_;
  const std::optional<int> high = comma ? number() : low;
  if (!low || at_ >= text_.size() || peek() != '}') {
    at_ = start;
    fail("'{' does not begin '{n}', '{n,}' or '{n,m}'");
    return {};
  }
  ++at_;
  if (high && *high < *low) fail(fmt::format("'{}' counts down", text_.substr(start, at_ - start)));
  if (std::max(*low, high.value_or(0)) > kMostRepeats) {
    fail(fmt::format("'{}' repeats more than {} times", text_.substr(start, at_ - start), kMostRepeats),
         ErrorCode::unsupported);
  }
  return std::string(text_.substr(start, at_ - start));
}

bool Translator::class_escape(char letter, ByteSet& set) const {
  const char lower = is_upper(letter) ? static_cast<char>(letter + 32) : letter;
  if (lower != 'd' && lower != 's' && lower != 'w') return false;
  set = *named_class(std::string_view(&lower, 1));
  if (is_upper(letter)) set.flip();
  return true;
}

std::string Translator::escape() {
  ByteSet set;
  if (at_ + 1 < text_.size() && class_escape(text_[at_ + 1], set)) {
    at_ += 2;
    return text_of_set(set);
  }
  const std::optional<unsigned> code = character_escape(false);
  if (!code) return {};
  if (*code < 0x80) return literal(static_cast<unsigned char>(*code));
  std::string out = "(?:";
  for (const char byte : utf8(*code)) out += literal(static_cast<unsigned char>(byte));
  return out + ")";
}

// The character that an escape means; moves past it.
std::optional<unsigned> Translator::character_escape(bool in_bracket) {
  if (at_ + 1 >= text_.size()) {
    fail("'\\' at the end escapes nothing");
    return std::nullopt;
  }
  const char c = text_[at_ + 1];
  if (c >= '1' && c <= '9') {
    fail(fmt::format("back-reference '\\{}' is not supported (patterns run in linear time)", c),
         ErrorCode::unsupported);
    return std::nullopt;
  }
  at_ += 2;
  switch (c) {
    case '0':
      return 0U;
    case 't':
      return '\t';
    case 'n':
      return '\n';
    case 'v':
      return '\v';
    case 'f':
      return '\f';
    case 'r':
      return '\r';
    case 'x':
      return hex_digits(2);
    case 'u':
      return hex_digits(4);
    case 'c':
      if (at_ < text_.size() && is_alpha(peek())) return static_cast<unsigned>(text_[at_++]) & 0x1FU;
      break;
    case 'b':
      if (in_bracket) return '\b';
      break;
    default:
      break;
  }
  if (is_alnum(c)) {
    at_ -= 2;
    fail(fmt::format("'\\{}' is not an escape of the ECMAScript grammar", c));
    return std::nullopt;
  }
  return static_cast<unsigned char>(c);
}

unsigned Translator::hex_digits(int count) {
  unsigned value = 0;
  for (int i = 0; i < count; ++i) {
    if (at_ >= text_.size() || !is_hex(peek())) {
      fail(fmt::format("{} hexadecimal digits are needed", count));
      return 0;
    }
    const char c = text_[at_++];
    value = value * 16 + static_cast<unsigned>(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  return value;
}

std::string Translator::bracket() {
  const std::size_t start = at_++;
  const bool negated = !done() && peek() == '^';
  if (negated) ++at_;
  ByteSet set;
  while (!done() && peek() != ']') bracket_item(set);
  if (error_) return {};
  if (at_ >= text_.size()) {
    at_ = start;
    fail("'[' is not closed");
    return {};
  }
  ++at_;
  if (negated) set.flip();
  return text_of_set(set);
}

// "[:alpha:]", "[=a=]" or "[.a.]" inside brackets. False when there is none here.
bool Translator::posix_class(ByteSet& set, unsigned char& single, bool& is_single) {
  if (!next_is("[:") && !next_is("[=") && !next_is("[.")) return false;
  const char kind = text_[at_ + 1];
  const std::string end = std::string(1, kind) + "]";
  const std::size_t close = text_.find(end, at_ + 2);
  if (close == text_.npos) {
    fail(fmt::format("'[{}' is not closed", kind));
    return true;
  }
  const std::string_view name = text_.substr(at_ + 2, close - at_ - 2);
  is_single = kind != ':' && name.size() == 1;
  if (is_single) {
    single = static_cast<unsigned char>(name[0]);
  } else if (const std::optional<ByteSet> named = named_class(name); kind == ':' && named) {
    set = *named;
  } else {
    fail(fmt::format("'[{0}{1}{0}]' is not a character class", kind, name));
  }
  at_ = close + 2;
  return true;
}

// One character, class, or range.
void Translator::bracket_item(ByteSet& set) {
  const auto one = [&](unsigned char& single) -> bool {  // false: a whole class was added
    ByteSet found;
    bool is_single = false;
    if (posix_class(found, single, is_single)) {
      set |= found;
      return is_single;
    }
    if (peek() != '\\') {
      single = static_cast<unsigned char>(text_[at_++]);
      return true;
    }
    if (at_ + 1 < text_.size() && class_escape(text_[at_ + 1], found)) {
      at_ += 2;
      set |= found;
      return false;
    }
    const std::size_t start = at_;
    const std::optional<unsigned> code = character_escape(true);
    if (!code) return false;
    if (*code > 0x7F) {
      at_ = start;
      fail("only ASCII characters may be escaped by number inside '[]'", ErrorCode::unsupported);
    }
    single = static_cast<unsigned char>(*code);
    return true;
  };

  unsigned char low = 0;
  const std::size_t start = at_;
  if (!one(low) || error_) return;
  set.set(low);
  if (at_ + 1 >= text_.size() || peek() != '-' || text_[at_ + 1] == ']') return;
  ++at_;
  unsigned char high = 0;
  if (!one(high) || high < low) {
    const std::string_view range = text_.substr(start, at_ - start);
    fail(fmt::format("'{}' is not a range", range));
    return;
  }
  for (unsigned byte = low; byte <= high; ++byte) set.set(byte);
}

}  // namespace

Result<std::string> ecmascript_to_re2(std::string_view expression) {
  if (expression.size() > kMostBytes) {
    return Error{ErrorCode::unsupported,
                 fmt::format("a pattern may have {} bytes, this one has {}", kMostBytes, expression.size())};
  }
  return Translator(expression).translate();
}

Result<Pattern> Pattern::compile(std::string_view expression) {
  Result<std::string> translated = ecmascript_to_re2(expression);
  if (!translated) return translated.error();
  re2::RE2::Options options(re2::RE2::Latin1);  // bytes, as std::regex sees them
  options.set_log_errors(false);
  options.set_max_mem(kProgramBytes);
  options.set_never_capture(true);
  auto program = std::make_shared<const re2::RE2>(*translated, options);
  if (!program->ok()) return Error{ErrorCode::unsupported, "cannot compile the pattern: " + program->error()};
  return Pattern(std::move(program));
}

bool Pattern::matches(std::string_view text) const {
  return re2::RE2::FullMatch(re2::StringPiece(text.data(), text.size()), *program_);
}

}  // namespace sonde
