#include <fmt/format.h>

#include <string>
#include <vector>

#include "answer.h"
#include "face/report/text.h"
#include "verbs.h"

namespace sonde {
namespace {

struct Flag {
  std::string name, help;  // "--step"; one line
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::vector<Flag> completed_flags(const CLI::App& verb) {
  std::vector<Flag> flags;
  for (const CLI::Option* option : verb.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      flags.push_back({"--" + name, first_line(option->get_description())});
    }
  }
  flags.push_back({std::string(kColorFlag), std::string(kColorHelp)});
  return flags;
}

std::vector<const CLI::App*> completed_verbs(const CLI::App& app) { return app.get_subcommands({}); }

std::string names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : completed_verbs(app)) names.push_back(verb->get_name());
  return joined(names, " ");
}

// After a verb, words that are not options are files and directories, which the shell completes itself.
std::string bash_of(const CLI::App& app) {
  std::string cases;
  for (const CLI::App* verb : completed_verbs(app)) {
    std::vector<std::string> names;
    for (const Flag& flag : completed_flags(*verb)) names.push_back(flag.name);
    cases += fmt::format("    {}) options=\"{}\" ;;\n", verb->get_name(), joined(names, " "));
  }
  return fmt::format(R"(# sonde completion bash > ~/.local/share/bash-completion/completions/sonde
_sonde() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} options=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{} --help --version" -- "$word"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
    help) options="{}" ;;
{}  esac
  case $word in
    -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
    *)
      if [ "${{COMP_WORDS[1]}}" = help ]; then COMPREPLY=($(compgen -W "$options" -- "$word")); fi
      if [ "${{COMP_WORDS[1]}}" = completion ]; then COMPREPLY=($(compgen -W "bash zsh fish" -- "$word")); fi
      ;;
  esac
}}
complete -o default -F _sonde sonde
)",
                     names_of(app), names_of(app), cases);
}

// `:` ends a name for _describe, brackets end a description for _arguments.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == ':' || c == '[' || c == ']' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_of(const CLI::App& app) {
  std::string verbs, cases;
  for (const CLI::App* verb : completed_verbs(app)) {
    verbs +=
        "    " + shell_quoted(zsh_text(verb->get_name()) + ":" + zsh_text(first_line(verb->get_description()))) + "\n";
    std::string flags;
    for (const Flag& flag : completed_flags(*verb))
      flags += " " + shell_quoted(flag.name + "[" + zsh_text(flag.help) + "]");
    cases += fmt::format("    {}) _arguments{} '*:file:_files' ;;\n", verb->get_name(), flags);
  }
  return fmt::format(R"(#compdef sonde
# sonde completion zsh > "${{fpath[1]}}/_sonde"
_sonde() {{
  local -a verbs
  verbs=(
{}  )
  if (( CURRENT == 2 )); then
    _describe verb verbs
    return
  fi
  local verb=$words[2]
  shift words
  (( CURRENT-- ))
  case $verb in
    help) _describe verb verbs ;;
{}  esac
}}
if [ "$funcstack[1]" = _sonde ]; then _sonde "$@"; else compdef _sonde sonde; fi
)",
                     verbs, cases);
}

std::string fish_of(const CLI::App& app) {
  std::string text = "# sonde completion fish > ~/.config/fish/completions/sonde.fish\n";
  for (const CLI::App* verb : completed_verbs(app)) {
    text += fmt::format("complete -c sonde -n __fish_use_subcommand -f -a {} -d {}\n", verb->get_name(),
                        shell_quoted(first_line(verb->get_description())));
    for (const Flag& flag : completed_flags(*verb)) {
      text += fmt::format("complete -c sonde -n '__fish_seen_subcommand_from {}' -l {} -d {}\n", verb->get_name(),
                          flag.name.substr(2), shell_quoted(flag.help));
    }
  }
  return text;
}

}  // namespace

int completion(const CompletionCommand& options, const CLI::App& app) {
  const std::string text = options.shell == "bash" ? bash_of(app) : options.shell == "zsh" ? zsh_of(app) : fish_of(app);
  return print_text(text) ? kNothingFound : kUnreadable;
}

}  // namespace sonde
