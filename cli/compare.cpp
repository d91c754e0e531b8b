#include "compare.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "dump.h"
#include "face/report/catalog_text.h"
#include "face/report/comparison.h"
#include "face/report/msprobe_csv.h"
#include "face/report/page_link.h"
#include "face/report/text.h"
#include "ground/files/safe_path.h"
#include "read/catalog/one_file.h"

namespace sonde {
namespace {

struct CompareArguments : ComparisonOptions {
  std::string target, golden;
  std::string csv, junit, style = "sonde";
  bool json = false, all = false, layers = false, link = false;
};

std::optional<Catalog> open_side(const std::string& path, int& status) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored) && path.ends_with(".npy")) return catalog_of_file(path);
  DumpOptions options;
  options.dump = path;
  return open_dump(options, status);
}

bool write_file(const std::string& path, const std::string& text) {
  Result<Fd> file = open_output(path, OutputMode::rewrite);
  if (!file) {
    print_error(file.error().message);
    return false;
  }
  int error = write_all(file->get(), text.data(), text.size());
  if (::close(file->release()) != 0 && error == 0) error = errno;
  if (error != 0) print_error(io_error("write", path, error).message);
  return error == 0;
}

bool write_reports(const CompareArguments& arguments, const DumpComparison& comparison) {
  bool all_written = true;
  if (!arguments.csv.empty()) {
    const bool as_msprobe = arguments.style == "msprobe";
    all_written = write_file(arguments.csv, as_msprobe ? msprobe_csv_of(comparison) : csv_of(comparison));
  }
  if (!arguments.junit.empty()) all_written = write_file(arguments.junit, junit_of(comparison)) && all_written;
  return all_written;
}

std::string link_of(const DumpComparison& comparison, const CompareFinding& finding) {
  const ComparedStep& step = comparison.steps[finding.step];
  return link_text({.in_golden = finding.in_golden,
                    .rank = rank_text(*step.target->rank),
                    .step = step.target->step->id,
                    .op_name = finding.culprit->op_name,
                    .is_input = false,
                    .slot = std::nullopt});
}

int compare(const CompareArguments& arguments) {
  int status = kNothingFound;
  Result<CompareOptions> options = compare_options(arguments);
  if (!options) {
    print_error(options.error().message);
    return kUnreadable;
  }
  options->all_sums = arguments.style == "msprobe";
  std::optional<Catalog> target = open_side(arguments.target, status);
  if (!target) return status;
  std::optional<Catalog> golden = open_side(arguments.golden, status);
  if (!golden) return status;
  Result<DumpComparison> comparison = compare_dumps(*target, *golden, *options);
  if (!comparison) {
    print_error(comparison.error().message);
    return kUnreadable;
  }
  for (const std::string& note : comparison->notes) print_warning(note);
  add_unreadable(comparison->unreadable);
  add_unreadable(comparison->left_out);
  if (arguments.json) {
    Json answer = json_of(*comparison, *options);
    answer["layers"] = json_of_layers(*comparison);
    Answer::get().add(answer);
    Answer::get().begin_list("ops");
    for_each_op(*comparison, [](const Json& row) { Answer::get().add_row(row); });
  } else if (!print_text(report_of(*comparison, *options, arguments.all, terminal_width()))) {
    return kUnreadable;
  } else if (arguments.layers && !print_text("\n" + layers_text(*comparison, terminal_width()))) {
    return kUnreadable;
  }
  if (arguments.link && !comparison->findings.empty()) print_text(link_of(*comparison, comparison->findings.front()));
  if (!write_reports(arguments, *comparison)) return kUnreadable;
  if (comparison->compared_tensors == 0) print_error("nothing in the two could be compared");
  if (!comparison->complete) return kUnreadable;
  return comparison->findings.empty() ? kNothingFound : kFinding;
}

}  // namespace

void add_compare(CLI::App& app, int& exit_status) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App* verb = app.add_subcommand("compare", "Compare two dumps and say which operator goes wrong first.");
  verb->add_option("TARGET", arguments->target, "dump under test: a directory, or one file of a tensor")
      ->type_name("")
      ->required();
  verb->add_option(
          "GOLDEN", arguments->golden,
          "reference dump: of any layout, framework or precision; TARGET itself with --golden-step or --golden-graph")
      ->type_name("");
  verb->add_option("--mapping", arguments->mapping, "JSON or CSV that says which golden op belongs to which of TARGET")
      ->type_name("FILE");
  verb->add_option("--rtol", arguments->rtol, "relative tolerance; replaces the derived tolerance of each operator")
      ->type_name("X");
  verb->add_option("--atol", arguments->atol, "absolute tolerance; replaces the derived one too")->type_name("X");
  add_step_option(*verb, arguments->steps, "default: all that both have");
  verb->add_option("--graph", arguments->graph, "0 training, 1 and 2 without gradients (default: all)")->type_name("N");
  verb->add_option(
          "--golden-step", arguments->golden_steps,
          "steps of GOLDEN, if others than --step: the first is compared with the first (one dump may be both)")
      ->type_name("STEPS");
  verb->add_option("--golden-graph", arguments->golden_graph, "graph of GOLDEN, if another one than --graph")
      ->type_name("N");
  verb->add_option("--rank", arguments->rank, "only this process (default: all)")->type_name("N");
  verb->add_option("--threads", arguments->threads,
                   "number of threads (default: one for each CPU); does not affect the result")
      ->type_name("N");
  verb->add_flag("--all", arguments->all, "every finding, and all operators with their numbers");
  verb->add_flag("--layers", arguments->layers,
                 "a table of the layers: the error that each introduces, the largest first (quantised models)");
  add_json_options(*verb, arguments->json);
  add_link_option(*verb, arguments->link);
  verb->add_option("--csv", arguments->csv, "write a row for each output, too")->type_name("FILE");
  verb->add_option("--style", arguments->style, "columns of --csv: sonde, or msprobe with its verdicts")
      ->type_name("STYLE")
      ->check(CLI::IsMember({"sonde", "msprobe"}));
  verb->add_option("--junit", arguments->junit, "write a JUnit XML report, too")->type_name("FILE");
  verb->footer(
      "Exit status: 0 no difference that rounding does not explain, 1 a difference, 2 bad usage, 3 something could not "
      "be read or compared.\n"
      "Example: sonde compare run_on_npu run_on_cpu --junit compare.xml\n"
      "         sonde compare run --graph 0 --golden-graph 1");
  verb->callback([arguments, &exit_status] {
    if (arguments->golden.empty()) {
      const bool is_one_dump = !arguments->golden_steps.empty() || arguments->golden_graph;
      if (!is_one_dump) throw CLI::RequiredError("GOLDEN");
      arguments->golden = arguments->target;
    }
    exit_status = compare(*arguments);
  });
}

}  // namespace sonde
