#include "run.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "child.h"
#include "dump.h"
#include "ground/files/scratch.h"
#include "native_program.h"
#include "plan/config/environment.h"
#include "plan/config/plan.h"
#include "prove.h"
#include "run_report.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kUsualStatistics = {
    "max", "min", "avg", "l2norm", "nan count", "positive inf count", "negative inf count"};

struct RunOptions {
  std::string config, out;
  std::string saved_data = "statistic", iteration = "all", net_name = "Net";
  std::vector<std::string> kernels;
  std::vector<std::string> statistics;
  std::vector<std::string> command;
  bool prove = false, json = false, stop_after = false, npu_stand_in = false;
};

// A configuration from the options, in MindSpore's dialect; the path, which may contain any characters, is in
// sonde_settings.
nlohmann::json settings_of(const RunOptions& options) {
  nlohmann::json common = {
      {"dump_mode", options.kernels.empty() ? 0 : 1},
      {"net_name", options.net_name},
      {"iteration", options.iteration},
      {"saved_data", options.saved_data},
      {"input_output", 0},
      {"kernels", options.kernels},
      {"support_device", {0, 1, 2, 3, 4, 5, 6, 7}},
  };
  if (options.saved_data != "tensor")
    common["statistic_category"] = options.statistics.empty() ? kUsualStatistics : options.statistics;
  const std::string path = fs::absolute(options.out).lexically_normal().string();
  nlohmann::json settings = {{"common_dump_settings", common},
                             {"e2e_dump_settings", {{"enable", true}, {"trans_flag", true}}}};
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_/";
  // MindSpore reads its own key in its own process.
  settings[path.find_first_not_of(kPlain) == std::string::npos ? "common_dump_settings" : "sonde_settings"]["path"] =
      path;
  return settings;
}

// The configuration to use: --config, otherwise one made from --out, otherwise the one that the environment names.
std::optional<fs::path> choose_config(const RunOptions& options, const fs::path& scratch) {
  if (!options.config.empty()) return fs::absolute(options.config);
  if (!options.out.empty()) {
    const fs::path made = scratch / "data_dump.json";
    std::ofstream(made) << settings_of(options).dump(2) << '\n';
    return made;
  }
  if (const std::string named = configuration_of_environment(); !named.empty()) return named;
  return std::nullopt;
}

// Reports all diagnostics of the file; returns the plan if it can be used.
std::optional<Plan> checked_plan(const fs::path& config, const RunOptions& options) {
  PlanResult result = read_plan(config);
  const fs::path shown = options.out.empty() ? config : fs::path("--out");
  for (const Diagnostic& diagnostic : result.diagnostics) print_diagnostic(diagnostic, shown);
  return std::move(result.plan);
}

// A second run is added to the first, and its reader sees the values of both.
void warn_of_earlier_run(const fs::path& dump) {
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(dump, none)) {
    if (!entry.path().filename().string().starts_with("rank_")) continue;
    print_warning(
        fmt::format("'{}' contains an earlier run; this one is added to it, and first-bad and compare read both; "
                    "name a new directory to keep them apart",
                    dump.string()));
    return;
  }
}

// The program has the configuration itself: torchair.CompilerConfig. Its messages go to stderr.
int run_by_itself(const std::vector<std::string>& command) {
  const Result<ChildEnd> end = run_child(command, {.environment = {}, .without = {}, .output = {}});
  if (end) return end->exit_code;
  print_error(end.error().message);
  return status_of_no_run(end.error());
}

int run(const RunOptions& options) {
  if (options.npu_stand_in) setenv("SONDE_NPU_STAND_IN", "1", 1);  // for every process of the run
  const Scratch scratch;
  if (scratch.path().empty()) {
    print_error("cannot make a directory in TMPDIR or /tmp; set TMPDIR to a directory that can be written");
    return kCannotRun;
  }
  const std::optional<fs::path> config = choose_config(options, scratch.path());
  if (!config && options.npu_stand_in) return run_by_itself(options.command);
  if (!config) {
    print_error("nothing is selected to be recorded; give --config FILE or --out DIRECTORY");
    return kBadUsage;
  }
  const std::optional<Plan> plan = checked_plan(*config, options);
  if (!plan) return kBadUsage;
  if (options.prove) return prove({options.command, *config, plan->path, scratch.path(), options.json});
  if (!options.out.empty()) warn_of_earlier_run(plan->path);
  const fs::path report = scratch.path() / "report";
  std::vector<std::pair<std::string, std::string>> environment = {{"SONDE_CONFIG", config->string()},
                                                                  {"SONDE_RUN_REPORT", report.string()}};
  if (options.stop_after) environment.emplace_back("SONDE_STOP_AFTER", "1");
  if (auto preload = preload_for(options.command, scratch.path())) environment.emplace_back("LD_PRELOAD", *preload);
  const Result<ChildEnd> end = run_child(options.command, {.environment = environment, .without = {}, .output = {}});
  if (!end) {
    print_error(end.error().message);
    return status_of_no_run(end.error());
  }
  print_run_report(fs::path(options.command[0]).filename().string(), *end, report, plan->path);
  return end->exit_code;
}

// The options that make a configuration if there is no file.
void add_settings(CLI::App& verb, RunOptions& options, CLI::Option* config) {
  const auto either = [&](CLI::Option* option) { return option->excludes(config); };
  either(verb.add_option("-o,--out", options.out, "directory to write to, instead of a file"))->type_name("DIR");
  either(verb.add_option("--saved-data", options.saved_data, "with --out: tensor, statistic or full"))
      ->check(CLI::IsMember({"tensor", "statistic", "full"}))
      ->capture_default_str();
  either(verb.add_option("--iteration", options.iteration, "with --out: steps, as 'all', '0|5' or '3-8'"))
      ->capture_default_str();
  either(verb.add_option("--kernels", options.kernels, "with --out: an operator's name or type; repeatable"))
      ->type_name("OP")
      ->allow_extra_args(false);
  either(verb.add_option("--statistics", options.statistics, "with --out: a category of statistic.csv; repeatable"))
      ->type_name("CATEGORY")
      ->allow_extra_args(false);
}

}  // namespace

void add_run(CLI::App& app, int& exit_status, std::vector<std::string> after_dashes) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* verb = app.add_subcommand("run", "Run a training under a configuration and report the recorded content.");
  CLI::Option* config =
      verb->add_option("-c,--config", options->config, "configuration file, of any dialect")->type_name("FILE");
  add_settings(*verb, *options, config);
  CLI::Option* prove = verb->add_flag("--prove", options->prove,
                                      "run the command twice, without Sonde and recording, and compare all results");
  verb->add_flag("--stop-after", options->stop_after, "end the command when the last step of `iteration` is recorded")
      ->excludes(prove);
  verb->add_flag("--npu-stand-in", options->npu_stand_in,
                 "run a script for Ascend on the CPU: torch_npu, torchair, .npu() and the device npu exist; without "
                 "--config and --out the script's own torchair.CompilerConfig says what to record");
  verb->add_flag("--json", options->json, "with --prove: the verdict as JSON")->needs(prove);
  verb->add_option("command", options->command, "the program to run, after --")->required()->type_name("COMMAND...");
  verb->footer(
      "Exit status: the command's; 2 bad usage or configuration (nothing was run), 126 and 127 it "
      "cannot be run.\n"
      "With --prove: 0 identical bit for bit, 1 Sonde makes a difference, 2 nothing is proved, 3 the command is not "
      "reproducible by itself.\n"
      "Example: sonde run --out /tmp/run7 --iteration 0-2 -- python train.py --epochs 1\n"
      "Example: sonde run --prove --out /tmp/run7 -- python train.py --epochs 1");
  verb->callback([options, &exit_status, after_dashes = std::move(after_dashes)] {
    if (!after_dashes.empty()) options->command = after_dashes;
    exit_status = run(*options);
  });
}

}  // namespace sonde
