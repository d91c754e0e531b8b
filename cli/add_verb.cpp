#include "add_verb.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

#include "dump.h"
#include "ground/base/text.h"

namespace sonde {
namespace {

std::vector<std::string> words_of(std::string_view text) {
  const std::vector<std::string_view> words = split(text, '|');
  return {words.begin(), words.end()};
}

// One of the words; `tcp://HOST:PORT` is any text that begins with its scheme.
CLI::Validator member_of(std::string_view choices) {
  const std::vector<std::string> words = words_of(choices);
  if (choices.find("://") == std::string_view::npos) return CLI::IsMember(words);
  const std::string all = fmt::format("{{{}}}", fmt::join(words, ","));
  const auto complaint = [words, all](const std::string& text) -> std::string {
    for (const std::string& word : words) {
      const std::size_t scheme = word.find("://");
      const bool begins = scheme != std::string::npos && text.size() > scheme + 3 &&
                          std::string_view(text).starts_with(std::string_view(word).substr(0, scheme + 3));
      if (text == word || begins) return {};
    }
    return fmt::format("{} not in {}", text, all);
  };
  return CLI::Validator(complaint, all);
}

}  // namespace

void set_facts(CLI::Option& option, const OptionFacts& facts) {
  option.type_name(facts.unit)->required(facts.is_required);
  if (!facts.choices.empty()) option.check(member_of(facts.choices));
  if (const std::string numbers = facts.numbers; !numbers.empty()) {
    option.check([numbers](const std::string& text) { return list_complaint(text, numbers); });
  }
}

void relate_options(CLI::App& verb, const OptionFacts& facts) {
  if (facts.excludes.empty() && facts.needs.empty()) return;
  const std::string_view names = facts.name;
  CLI::Option* option = verb.get_option(std::string(names.substr(names.find(',') + 1)));  // npos + 1 is 0
  for (const std::string& other : words_of(facts.excludes)) option->excludes(verb.get_option(other));
  for (const std::string& other : words_of(facts.needs)) option->needs(verb.get_option(other));
}

}  // namespace sonde
