#include "msaccucmp.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>

#include "answer.h"
#include "face/report/text.h"

namespace sonde::msaccucmp {
namespace {

constexpr std::array kCommands = {&kCompare, &kConvert, &kFileCompare, &kOverflow};

std::string usage(const Command& command) {
  std::string text = fmt::format("usage: msaccucmp.py {} [-h]", command.name);
  for (const Option& option : command.options) {
    std::string item(option.names[0]);
    if (option.takes != Option::Takes::nothing) {
      std::string_view word = option.names.back();
      word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
      std::string meta(word);
      std::ranges::transform(meta, meta.begin(), [](unsigned char c) { return std::toupper(c); });
      item += " " + meta;
    }
    text += option.required ? " " + item : " [" + item + "]";
  }
  return text + "\n";
}

std::string help(const Command& command) {
  std::string text = usage(command) + fmt::format("\n{}\n\noptions:\n", command.help);
  for (const Option& option : command.options) {
    text +=
        fmt::format("  {:<34}{}{}\n", fmt::join(option.names, ", "), option.help, option.required ? " (required)" : "");
  }
  return text;
}

std::string general_help() {
  std::string text = "usage: msaccucmp.py [-h] {";
  for (std::size_t i = 0; i < kCommands.size(); ++i) text += (i == 0 ? "" : ",") + std::string(kCommands[i]->name);
  text += "} ...\n\n";
  for (const Command* command : kCommands) text += fmt::format("  {:<14}{}\n", command->name, command->help);
  return text + "\nHelp of a command: msaccucmp.py COMMAND --help\n";
}

int refuse(const std::string& usage_text, std::string_view program, std::string_view problem) {
  print_notice(fmt::format("{}{}: error: {}\n", usage_text, program, printable(problem)));
  return kBadArguments;
}

void log(std::string_view level, std::string_view text) {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  print_notice(
      fmt::format("{:%Y-%m-%d %H:%M:%S} ({}) - [{}] {}\n", fmt::localtime(now), ::getpid(), level, printable(text)));
}

}  // namespace

int run(std::span<const std::string> words) {
  if (words.empty()) {
    print_text(general_help());
    return kInvalidParameter;
  }
  if (words[0] == "-h" || words[0] == "--help") {
    print_text(general_help());
    return kDone;
  }
  const auto command = std::ranges::find(kCommands, std::string_view(words[0]), [](auto* c) { return c->name; });
  if (command == kCommands.end()) {
    const std::string problem = words[0].starts_with('-')
                                    ? fmt::format("unrecognized arguments: {}", words[0])
                                    : fmt::format("argument command: invalid choice: '{}'", words[0]);
    return refuse(general_help(), "msaccucmp.py", problem);
  }
  const Arguments arguments((*command)->options, words.subspan(1));
  if (arguments.asks_for_help()) {
    print_text(help(**command));
    return kDone;
  }
  if (!arguments.problem().empty()) {
    return refuse(usage(**command), fmt::format("msaccucmp.py {}", (*command)->name), arguments.problem());
  }
  return (*command)->run(arguments);
}

void log_info(std::string_view text) { log("INFO", text); }
void log_warning(std::string_view text) { log("WARNING", text); }
void log_error(std::string_view text) { log("ERROR", text); }

bool is_allowed_path(std::string_view path) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_/.,-";
  return path.find_first_not_of(kAllowed) == std::string_view::npos;
}

}  // namespace sonde::msaccucmp
