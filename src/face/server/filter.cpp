#include "face/server/filter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ground/base/parse_number.h"
#include "ground/base/text.h"
#include "plan/config/nearest.h"
#include "read/catalog/select.h"
#include "read/index/index_schema.h"

namespace sonde::server {
namespace {

constexpr std::size_t kLongestFilter = 4096;

// Words between blanks; a word, or its end, may be in quotes.
Result<std::vector<std::string>> words_of(std::string_view text) {
  std::vector<std::string> words;
  bool in_word = false, in_quotes = false;
  for (const char c : text) {
    if (c == '"') {
      in_quotes = !in_quotes;
      if (!in_word) words.emplace_back();
      in_word = true;
    } else if (c == ' ' && !in_quotes) {
      in_word = false;
    } else {
      if (!in_word) words.emplace_back();
      in_word = true;
      words.back() += c;
    }
  }
  if (in_quotes) return Error{ErrorCode::invalid_argument, "the filter ends inside quotes"};
  return words;
}

template <std::size_t Size>
Result<std::size_t> number_in(const std::array<std::string_view, Size>& words, std::string_view kind,
                              std::string_view word) {
  const auto found = std::ranges::find(words, word);
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  return Error{ErrorCode::invalid_argument,
               fmt::format("filter '{}:{}': expected one of {}", kind, word, fmt::join(words, ", "))};
}

// Empty if the word does not compare a number.
std::optional<Result<NumberCondition>> condition_of(const std::string& word,
                                                    const std::vector<std::string_view>& columns) {
  const std::size_t sign = word.find_first_of("<>=!");
  if (sign == std::string::npos || sign == 0) return std::nullopt;
  NumberCondition condition;
  condition.column = word.substr(0, sign);
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  if (!std::ranges::all_of(condition.column, letter)) return std::nullopt;
  const std::size_t value = word.find_first_not_of("<>=!", sign);
  const std::string_view is = std::string_view(word).substr(sign, value - sign);
  const std::string_view text = value == std::string::npos ? "" : std::string_view(word).substr(value);
  constexpr std::array<std::string_view, 6> kSigns = {"<", "<=", "=", "!=", ">=", ">"};
  const auto found = std::ranges::find(kSigns, is == "==" ? "=" : is);
  if (found == kSigns.end() || !parse_number(text, condition.number)) {
    return Error{ErrorCode::invalid_argument, fmt::format("filter '{}': expected a number, as l2norm>=1e3", word)};
  }
  condition.is = static_cast<NumberCondition::Is>(found - kSigns.begin());
  if (std::ranges::find(columns, condition.column) == columns.end()) {
    return Error{ErrorCode::invalid_argument, fmt::format("filter '{}': there is no number '{}'; known: {}", word,
                                                          condition.column, fmt::join(columns, ", "))};
  }
  return condition;
}

// A word with a colon; false if its kind is not known.
Result<bool> take_kind(std::string_view kind, const std::string& value, Filter& filter) {
  if (kind == "op") {
    Result<NameMatcher> name = NameMatcher::create(value);
    if (!name) return Error{name.error().code, "filter op: " + name.error().message};
    filter.names.push_back(std::move(*name));
  } else if (kind == "type") {
    filter.types.push_back(value);
  } else if (kind == "source") {
    filter.sources.push_back(value);
  } else if (kind == "dtype") {
    filter.dtypes.push_back(value);
  } else if (kind == "parameter") {
    filter.parameters.push_back(value);
  } else if (kind == "phase") {
    const Result<std::size_t> phase = number_in(std::to_array(Words<Phase>::list), kind, value);
    if (!phase) return phase.error();
    filter.phase = static_cast<std::uint8_t>(*phase);
  } else if (kind == "class") {
    const Result<std::size_t> state = number_in(std::to_array(Words<State>::list), kind, value);
    if (!state) return state.error();
    filter.state = static_cast<State>(*state);
  } else if (kind == "side") {
    const Result<std::size_t> side = number_in(std::array<std::string_view, 2>{"output", "input"}, kind, value);
    if (!side) return side.error();
    filter.is_input = *side == 1;
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool NumberCondition::holds(double value) const {
  switch (is) {
    case Is::less:
      return value < number;
    case Is::at_most:
      return value <= number;
    case Is::equal:
      return value == number;
    case Is::not_equal:
      return value != number;
    case Is::at_least:
      return value >= number;
    case Is::more:
      return value > number;
  }
  return false;
}

Result<Filter> Filter::parse(std::string_view text, const std::vector<std::string_view>& numbers) {
  if (text.size() > kLongestFilter) {
    return Error{ErrorCode::invalid_argument, fmt::format("the filter is longer than {} bytes", kLongestFilter)};
  }
  const Result<std::vector<std::string>> words = words_of(text);
  if (!words) return words.error();
  Filter filter;
  for (const std::string& word : *words) {
    const std::size_t colon = word.find(':');
    if (colon != std::string::npos) {
      const Result<bool> taken = take_kind(std::string_view(word).substr(0, colon), word.substr(colon + 1), filter);
      if (!taken) return taken.error();
      if (*taken) continue;
    }
    if (std::optional<Result<NumberCondition>> condition = condition_of(word, numbers)) {
      if (!*condition) return condition->error();
      filter.numbers.push_back(**condition);
    } else {
      filter.patterns.push_back(word);
    }
  }
  return filter;
}

bool Filter::takes_name(const OpName& name) const {
  const auto is_type = [&](const std::string& type) { return same_ignoring_case(type, name.op_type); };
  return std::ranges::all_of(patterns, [&](const auto& p) { return selects(p, name.op_name, name.op_type); }) &&
         std::ranges::all_of(names, [&](const NameMatcher& m) { return m.matches(std::string_view(name.op_name)); }) &&
         std::ranges::all_of(types, is_type);
}

}  // namespace sonde::server
