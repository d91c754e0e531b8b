#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "msaccucmp.h"

namespace sonde::msaccucmp {
namespace {

using Takes = Option::Takes;

// -1, -0.5, -.5: a number, which argparse does not read as an option.
bool is_negative_number(std::string_view word) {
  word.remove_prefix(1);
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  const std::size_t dot = word.find('.');
  const std::string_view whole = word.substr(0, dot);
  const std::string_view rest = dot == std::string_view::npos ? "" : word.substr(dot + 1);
  if (!std::ranges::all_of(whole, is_digit) || !std::ranges::all_of(rest, is_digit)) return false;
  return dot == std::string_view::npos ? !whole.empty() : !rest.empty();
}

std::string named(const Option& option) { return fmt::format("{}", fmt::join(option.names, "/")); }

}  // namespace

Arguments::Arguments(std::span<const Option> options, std::span<const std::string> words)
    : options_(options), words_(words) {
  std::vector<std::string> strangers;
  for (std::size_t at = 0; at < words_.size() && problem_.empty() && !asks_for_help_;) {
    const std::string& word = words_[at++];
    if (!is_option_word(word)) {
      strangers.push_back(word);
      continue;
    }
    if (word == "-h" || (word.size() > 2 && std::string_view("--help").starts_with(word))) {
      asks_for_help_ = true;
      continue;
    }
    std::string given_value;
    bool has_given_value = false;
    const Option* option = find(word, given_value, has_given_value);
    if (option != nullptr) {
      take_option(*option, has_given_value, given_value, at);
    } else if (problem_.empty()) {
      strangers.push_back(word);
    }
  }
  if (asks_for_help_ || !problem_.empty()) return;
  check();
  if (problem_.empty() && !strangers.empty()) {
    problem_ = fmt::format("unrecognized arguments: {}", fmt::join(strangers, " "));
  }
}

bool Arguments::is_option_word(const std::string& word) const {
  if (word.size() < 2 || word[0] != '-' || is_negative_number(word)) return false;
  const std::string name = word.substr(0, word.find('='));
  const bool is_known = std::ranges::any_of(options_, [&](const Option& option) {
    return std::ranges::find(option.names, std::string_view(name)) != option.names.end();
  });
  return is_known || word.find(' ') == std::string::npos;
}

// The option that `word` names, in full or shortened. Null, with a problem, if several fit; null, without one, if none
// does.
const Option* Arguments::find(const std::string& word, std::string& given_value, bool& has_given_value) {
  const std::size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  const auto give = [&](std::string value) {
    given_value = std::move(value);
    has_given_value = true;
  };
  struct Match {
    const Option* option;
    std::string_view name;
    bool is_glued;  // `-dFILE`
  };
  std::vector<Match> matches;
  for (const Option& option : options_) {
    for (const std::string_view known : option.names) {
      if (known == word || known == name) {
        if (known == name && equals != std::string::npos) give(word.substr(equals + 1));
        return &option;
      }
      const bool is_glued = !word.starts_with("--") && known.size() == 2 && word.starts_with(known);
      if (is_glued || known.starts_with(name)) matches.push_back({&option, known, is_glued});
    }
  }
  if (matches.empty()) return nullptr;
  if (matches.size() > 1) {
    std::vector<std::string_view> names;
    for (const Match& match : matches) names.push_back(match.name);
    problem_ = fmt::format("ambiguous option: {} could match {}", word, fmt::join(names, ", "));
    return nullptr;
  }
  if (matches[0].is_glued) {
    give(word.substr(2));
  } else if (equals != std::string::npos) {
    give(word.substr(equals + 1));
  }
  return matches[0].option;
}

void Arguments::take_option(const Option& option, bool has_given_value, const std::string& given_value,
                            std::size_t& at) {
  std::vector<std::string> values;
  if (has_given_value && option.takes == Takes::nothing) {
    problem_ = fmt::format("argument {}: ignored explicit argument '{}'", named(option), given_value);
    return;
  }
  if (has_given_value) values.push_back(given_value);
  const auto more = [&] { return at < words_.size() && !is_option_word(words_[at]); };
  if (option.takes == Takes::value && values.empty() && more()) values.push_back(words_[at++]);
  while (option.takes == Takes::values && !has_given_value && more()) values.push_back(words_[at++]);
  if (option.takes != Takes::nothing && values.empty()) {
    problem_ = fmt::format("argument {}: expected {}", named(option),
                           option.takes == Takes::values ? "at least one argument" : "one argument");
    return;
  }
  for (const std::string& value : values) {
    if (option.choices.empty() || std::ranges::find(option.choices, value) != option.choices.end()) continue;
    problem_ = fmt::format("argument {}: invalid choice: '{}' (choose from {})", named(option), value,
                           fmt::join(option.choices, ", "));
    return;
  }
  values_[&option] = std::move(values);
}

void Arguments::check() {
  std::vector<std::string> missing;
  for (const Option& option : options_) {
    if (option.required && !values_.contains(&option)) missing.push_back(named(option));
  }
  if (!missing.empty()) {
    problem_ = fmt::format("the following arguments are required: {}", fmt::join(missing, ", "));
  }
}

bool Arguments::has(std::string_view name) const {
  return std::ranges::any_of(values_, [&](const auto& entry) {
    return std::ranges::find(entry.first->names, name) != entry.first->names.end();
  });
}

std::vector<std::string> Arguments::values(std::string_view name) const {
  for (const auto& [option, values] : values_) {
    if (std::ranges::find(option->names, name) != option->names.end()) return values;
  }
  return {};
}

std::string Arguments::value(std::string_view name, std::string_view otherwise) const {
  const std::vector<std::string> all = values(name);
  return all.empty() ? std::string(otherwise) : all.back();
}

}  // namespace sonde::msaccucmp
