// The command line of a verb, from its options in contract/questions/.
#pragma once

#include <CLI/CLI.hpp>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "ground/contract/option.h"

namespace sonde {

// The facts that an option of every type has.
void set_facts(CLI::Option& option, const OptionFacts& facts);
// `excludes` and `needs`, once all options are there.
void relate_options(CLI::App& verb, const OptionFacts& facts);

template <typename Value>
inline constexpr bool is_list_of_values = false;
template <typename Value>
inline constexpr bool is_list_of_values<std::vector<Value>> = true;

// The number that an option may have, or must have.
template <typename Value>
struct NumberOf {
  using Type = Value;
};
template <typename Value>
struct NumberOf<std::optional<Value>> {
  using Type = Value;
};

template <typename Command, typename Owner, typename Value>
void add_option(CLI::App& verb, Command& command, const Option<Owner, Value>& option) {
  const OptionFacts& facts = option.facts;
  Value& value = command.*option.at;
  using Number = typename NumberOf<Value>::Type;
  if constexpr (std::is_same_v<Value, bool>) {
    verb.add_flag(facts.name, value, facts.help);
  } else {
    CLI::Option& added = *verb.add_option(facts.name, value, facts.help);
    set_facts(added, facts);
    if constexpr (is_list_of_values<Value>) {
      const bool is_named = facts.name[0] == '-';
      if (is_named) added.take_all()->allow_extra_args(false);
      if (facts.separator != '\0') added.delimiter(facts.separator);
      if (facts.words != 0) added.expected(1, facts.words);
    } else if constexpr (std::is_unsigned_v<Number>) {
      const Number most = facts.most != 0 ? static_cast<Number>(facts.most) : std::numeric_limits<Number>::max();
      added.check(CLI::Range(static_cast<Number>(facts.least), most).description(""));
    }
  }
}

// Adds the verb, which calls `run(command)` and sets the exit status.
template <typename Command, typename Run>
void add_verb(CLI::App& app, int& exit_status, Run run) {
  using Verb = Options<Command>;
  auto command = std::make_shared<Command>();
  CLI::App* verb = app.add_subcommand(Verb::verb, Verb::help);
  Verb::each([&](const auto&... option) { (add_option(*verb, *command, option), ...); });
  Verb::each([&](const auto&... option) { (relate_options(*verb, option.facts), ...); });
  verb->footer(Verb::footer);
  verb->callback([command, run, &exit_status] { exit_status = run(*command); });
}

template <typename Command>
void add_verb(CLI::App& app, int& exit_status, int (*run)(const Command&)) {
  add_verb<Command>(app, exit_status, [run](Command& command) { return run(command); });
}

}  // namespace sonde
