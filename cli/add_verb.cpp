#include "add_verb.h"

#include "dump.h"
#include "ground/base/text.h"

namespace sonde {
namespace {

std::vector<std::string> words_of(std::string_view text) {
  const std::vector<std::string_view> words = split(text, '|');
  return {words.begin(), words.end()};
}

}  // namespace

void set_facts(CLI::Option& option, const OptionFacts& facts) {
  option.type_name(facts.unit)->required(facts.is_required);
  if (!facts.choices.empty()) option.check(CLI::IsMember(words_of(facts.choices)));
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
