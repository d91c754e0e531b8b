#include "plan/config/kernels.h"

#include <fmt/format.h>

#include <unordered_set>

#include "plan/config/diagnostics.h"
#include "plan/config/pattern.h"
#include "plan/config/selector.h"

namespace sonde {
namespace {

constexpr std::size_t kMostPatterns = 1000;  // each may take 1 MiB and is tried on every name

std::string without_quotes_and_spaces(std::string text) {
  std::erase_if(text, [](char c) { return c == '"' || c == ' '; });
  return text;
}

// MindSpore takes the entry's JSON text, so a backslash arrives doubled. In a pattern that is a
// plain mistake (`\.` can never match there) and is not repeated here.
std::string entry_text(const JsonValue& value) {
  if (value.is(JsonValue::Kind::string)) {
    std::string plain = without_quotes_and_spaces(value.text);
    if (kind_of_entry(plain) == EntryKind::regex) return plain;
  }
  return without_quotes_and_spaces(compact(value));
}

}  // namespace

std::vector<std::string> read_kernels(const JsonMember& member, const std::string& path, bool used, Release rules,
                                      Diagnostics& diagnostics) {
  std::vector<std::string> entries;
  if (!member.value.is(JsonValue::Kind::array)) {
    diagnostics.error(
        member.value.line, path,
        fmt::format("found {}; allowed: an array of operator names, types or name-regex(...)", spelled(member.value)));
    return entries;
  }
  std::unordered_set<std::string> seen;
  std::size_t patterns = 0;
  for (std::size_t i = 0; i < member.value.items.size(); ++i) {
    const JsonValue& item = member.value.items[i];
    std::string entry = entry_text(item);
    if (entry.empty()) continue;
    const std::string key = fmt::format("{}[{}]", path, i);
    if (!seen.insert(entry).second) {
      if (used) diagnostics.warning(item.line, key, fmt::format("{} is listed twice", in_quotes(entry)));
      continue;
    }
    if (used && !item.is(JsonValue::Kind::string)) {
      diagnostics.warning(item.line, key,
                          fmt::format("found {}, not a string; read as {}", spelled(item), in_quotes(entry)));
    }
    if (used && rules <= Release::v2_0 && kind_of_entry(entry) != kind_of_entry(entry, rules)) {
      diagnostics.warning(item.line, key,
                          fmt::format("found {}; MindSpore {} reads it as {}", in_quotes(entry), info(rules).name,
                                      kind_of_entry(entry, rules) == EntryKind::op_name ? "a full name" : "a type"));
    }
    if (used && kind_of_entry(entry, rules) == EntryKind::regex) {
      if (++patterns > kMostPatterns) {
        diagnostics.error(item.line, key,
                          fmt::format("found more than {0} name-regex entries; allowed: {0}, each may hold several "
                                      "expressions joined by '|'",
                                      kMostPatterns));
        break;
      }
      if (const Result<Pattern> pattern = Pattern::compile(expression_of(entry)); !pattern) {
        diagnostics.error(item.line, key,
                          fmt::format("found {}; bad regular expression: {}; allowed: ECMAScript "
                                      "without look-ahead and back-references",
                                      in_quotes(entry), pattern.error().message));
      }
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace sonde
