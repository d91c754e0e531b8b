// sonde: the command line. One file per verb; this one only puts them together and explains typing errors.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "add_verb.h"
#include "answer.h"
#include "colour.h"
#include "msaccucmp.h"
#include "plan/config/nearest.h"
#include "verbs.h"

namespace sonde {
namespace {

// The name in `known` that is most similar to `word`: "; did you mean 'stats'?"; empty if none is similar.
std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  const std::vector<std::string_view> candidates(known.begin(), known.end());
  const std::vector<std::string> near = nearest(word, candidates, 1);
  return near.empty() || !is_close(word, near[0]) ? "" : fmt::format("; did you mean '{}'?", near[0]);
}

std::vector<std::string> verbs_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands({})) names.push_back(verb->get_name());
  return names;
}

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// The first argument that is neither a flag nor a verb, in the place of a verb; empty if there is none.
std::string unknown_verb(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return "";
  const std::vector<std::string> verbs = verbs_of(app);
  const std::string word = argv[1];
  return std::ranges::find(verbs, word) == verbs.end() ? word : "";
}

// Also works for a call that cannot be parsed. Arguments after `--` belong to another command.
AnswerForm form_of(int argc, char** argv) {
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    if (std::string_view(argv[i]) == "--json") return AnswerForm::json;
    if (std::string_view(argv[i]) == "--jsonl") return AnswerForm::json_lines;
  }
  return AnswerForm::text;
}

int explain(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* verb = &app;
  for (const CLI::App* used : app.get_subcommands()) verb = used;
  const std::string name = verb == &app ? "sonde" : "sonde " + verb->get_name();
  for (const std::string& rest : verb->remaining(true)) {
    if (!rest.starts_with("-") || rest == "-" || rest == "--") continue;
    const std::string flag = rest.substr(0, rest.find('='));
    print_error(fmt::format("unknown option '{}'{}", flag, suggestion(flag, flags_of(*verb))));
    print_notice(fmt::format("try `{} --help`\n", name));
    return kBadUsage;
  }
  print_error(error.what());
  print_notice(fmt::format("try `{} --help`\n", name));
  return kBadUsage;
}

void add_help(CLI::App& app, int& exit_status) {
  auto name = std::make_shared<std::string>();
  CLI::App* help = app.add_subcommand("help", "Show the help of a verb, or of all.");
  help->add_option("VERB", *name, "the verb")->type_name("");
  help->footer("Exit status: 0 shown, 2 no such verb.\nExample: sonde help stats");
  help->callback([&app, name, &exit_status] {
    const std::vector<std::string> verbs = verbs_of(app);
    if (!name->empty() && std::ranges::find(verbs, *name) == verbs.end()) {
      print_error(fmt::format("unknown verb '{}'{}", *name, suggestion(*name, verbs)));
      exit_status = kBadUsage;
    } else if (*name == "msaccucmp") {
      exit_status = msaccucmp::run(std::vector<std::string>{"--help"});
    } else {
      // app.help() would print the help of the called subcommand; this prints the main one.
      print_text(name->empty() ? app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal)
                               : app.get_subcommand(*name)->help("sonde"));
    }
  });
}

int run_main(int argc, char** argv) {
  int exit_status = 0;
  const std::string wrong_colour = take_colour_choice(argc, argv);
  CLI::App app("Record the inputs and outputs of every operator of a training, and analyse them.", "sonde");
  app.set_version_flag("-V,--version", "sonde " SONDE_VERSION);
  app.require_subcommand(1);
  app.footer(fmt::format("Help of a verb: sonde help VERB, or sonde VERB --help\n{}={}: {}\nExample: sonde ls run7",
                         kColorFlag, fmt::join(kColorChoices, "|"), kColorHelp));
  char** const dashes = std::find(argv, argv + argc, std::string_view("--"));
  const std::vector<std::string> after_dashes(std::min(dashes + 1, argv + argc), argv + argc);
  add_verb<RunCommand>(app, exit_status, [&after_dashes](RunCommand& options) {
    if (!after_dashes.empty()) options.command = after_dashes;  // as they were given: CLI11 takes `[1,2]` for two
    return run(options);
  });
  add_verb<CheckCommand>(app, exit_status, check);
  add_verb<InfoCommand>(app, exit_status, info);
  add_verb<AdapterCommand>(app, exit_status, adapter);
  add_verb<LsCommand>(app, exit_status, ls);
  add_verb<StatsCommand>(app, exit_status, stats);
  add_verb<ShowCommand>(app, exit_status, show);
  add_verb<GraphCommand>(app, exit_status, graph);
  add_verb<WatchCommand>(app, exit_status, watch);
  add_verb<FirstBadCommand>(app, exit_status, first_bad);
  add_verb<StompCommand>(app, exit_status, stomp);
  add_verb<HeadroomCommand>(app, exit_status, headroom);
  add_verb<ConvertCommand>(app, exit_status, convert);
  add_verb<CompareCommand>(app, exit_status, [](CompareCommand& options) {
    if (options.golden.empty()) {
      if (options.golden_step.empty() && !options.golden_graph) throw CLI::RequiredError("GOLDEN");
      options.golden = options.target;  // other steps or another graph of the same dump
    }
    return compare(options);
  });
  add_verb<ServeCommand>(app, exit_status, serve);
  add_verb<ReportCommand>(app, exit_status, report);
  add_verb<IndexCommand>(app, exit_status, index);
  add_verb<VerifyCommand>(app, exit_status, verify);
  app.add_subcommand("msaccucmp", "Do the work of CANN's msaccucmp.py, with its own options: convert, overflow, …");
  if (argc > 1 && std::string_view(argv[1]) == "msaccucmp") {  // its options follow their own rules
    return msaccucmp::run(std::vector<std::string>(argv + 2, argv + argc));
  }
  add_verb<GatherCommand>(app, exit_status, gather);
  add_verb<UploadCommand>(app, exit_status, upload);
  add_verb<ExportCommand>(app, exit_status, export_dump);
  add_verb<ReproCommand>(app, exit_status, repro);
  add_verb<ReplayCommand>(app, exit_status, replay);
  add_verb<McpCommand>(app, exit_status, mcp);
  add_verb<CompletionCommand>(app, exit_status,
                              [&app](const CompletionCommand& options) { return completion(options, app); });
  add_help(app, exit_status);
  Answer::get().set_form(form_of(argc, argv));
  if (!wrong_colour.empty()) {
    print_error(wrong_colour);
    return kBadUsage;
  }
  if (argc == 1) {
    print_text(app.help());
    return kBadUsage;
  }
  if (const std::string word = unknown_verb(app, argc, argv); !word.empty()) {
    print_error(fmt::format("unknown verb '{}'{}", word, suggestion(word, verbs_of(app))));
    print_notice("try `sonde --help`\n");
    return kBadUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    Answer::get().set_form(AnswerForm::text);
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    return explain(app, error);
  }
  return exit_status;
}

// A mapped file has become shorter. (Files of other users are not mapped: files/mapped_file.h.)
void end_unreadable(int) {
  constexpr std::string_view kWhy =
      "sonde: error: a file became shorter while it was read; if the dump is being copied or removed, try again after "
      "that\n";
  static_cast<void>(!::write(STDERR_FILENO, kWhy.data(), kWhy.size()));
  ::_exit(kUnreadable);
}

}  // namespace
}  // namespace sonde

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_DFL);  // `| head` ends the program silently
  std::signal(SIGBUS, sonde::end_unreadable);
  int status = sonde::kUnreadable;
  try {
    status = sonde::run_main(argc, argv);
  } catch (const std::exception& error) {  // memory, in practice
    sonde::print_error(error.what());
  }
  return sonde::Answer::get().finish(status);
}
