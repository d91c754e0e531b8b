// The command line of a verb, from its options in contract/questions/.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "ground/contract/option.h"
#include "remote.h"

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

inline void add_texts(std::string& value, std::vector<std::string*>& texts) { texts.push_back(&value); }
inline void add_texts(std::vector<std::string>& value, std::vector<std::string*>& texts) {
  for (std::string& text : value) texts.push_back(&text);
}
template <typename Value>
void add_texts(Value&, std::vector<std::string*>&) {}  // a number, or a path of this machine

// The values of the options for which `holds(facts)`.
template <typename Command, typename Holds>
std::vector<std::string*> texts_of(Command& command, const Holds& holds) {
  std::vector<std::string*> texts;
  const auto look = [&](const auto& option) {
    if (holds(option.facts)) add_texts(command.*option.at, texts);
  };
  Options<Command>::each([&](const auto&... option) { (look(option), ...); });
  return texts;
}

// Dumps at URLs become paths of their mirrors. Otherwise the exit status. The package opens them itself where it answers.
template <typename Command>
std::optional<int> resolve_urls(Command& command) {
  for (const std::string* output : texts_of(command, [](const OptionFacts& facts) { return facts.is_output; })) {
    if (const std::optional<int> refused = refuse_url(*output)) return refused;
  }
  if constexpr (requires { command.python; }) {
    return std::nullopt;
  } else {
    std::optional<std::uint32_t> rank;
    if constexpr (requires { rank = command.rank; }) rank = command.rank;
    const auto is_dump = [](const OptionFacts& facts) { return facts.is_dump; };
    if constexpr (requires { command.paths; }) {
      std::vector<std::string> texts(command.paths.begin(), command.paths.end());
      std::vector<std::string*> dumps;
      add_texts(texts, dumps);
      const std::optional<int> ended = open_remote_dumps(dumps, rank);
      command.paths.assign(texts.begin(), texts.end());
      return ended;
    }
    return open_remote_dumps(texts_of(command, is_dump), rank);
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
  verb->callback([command, run, &exit_status] {
    const std::optional<int> ended = resolve_urls(*command);
    exit_status = ended ? *ended : run(*command);
  });
}

template <typename Command>
void add_verb(CLI::App& app, int& exit_status, int (*run)(const Command&)) {
  add_verb<Command>(app, exit_status, [run](Command& command) { return run(command); });
}

}  // namespace sonde
