#include "export.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "child.h"
#include "dump.h"
#include "python_programs.h"

namespace sonde {
namespace {

struct ExportOptions {
  std::string dump, python, format, table;
  std::vector<std::string> to, select, statistics;
  std::string step, rank, graph, slot, op, type, side, source;
  bool no_measure = false, json = false;
};

constexpr const char* kExportFooter =
    "The format follows the extension of FILE:\n"
    "  .parquet, .arrow   one row for each tensor: names, types, shapes, statistics (needs pyarrow)\n"
    "  .safetensors       values, with bfloat16 and 8-bit floats in their own types\n"
    "  .npz               values in NumPy's types: bfloat16 and 8-bit floats as float32\n"
    "  a directory        statistics over the steps, as events of TensorBoard\n"
    "Exit status: 0, 2 bad usage or a missing package, 3 unreadable dump.\n"
    "Example: sonde export run7 --to run7.parquet\n"
    "Example: sonde export run7 -s '**/conv2-Conv2d/**' --side output --step 3 --to conv2.safetensors";

std::string request_of(const ExportOptions& options) {
  Json request = {{"dump", options.dump}, {"to", options.to}, {"measure", !options.no_measure}, {"json", options.json}};
  const auto put = [&](const char* name, const auto& value) {
    if (!value.empty()) request[name] = value;
  };
  put("format", options.format);
  put("table", options.table);
  put("select", options.select);
  put("statistics", options.statistics);
  put("step", options.step);
  put("rank", options.rank);
  put("graph", options.graph);
  put("slot", options.slot);
  put("op", options.op);
  put("type", options.type);
  put("side", options.side);
  put("source", options.source);
  return request.dump(-1, ' ', true, Json::error_handler_t::replace);
}

int export_dump(const ExportOptions& options) {
  const std::optional<int> status = run_python(options.python, kExportDump, {request_of(options)});
  if (!status) return kBadUsage;
  Answer::get().set_form(AnswerForm::text);  // the child has printed the answer itself
  return *status;
}

auto list_of(const char* what) {
  return [what](const std::string& text) { return list_complaint(text, what); };
}

}  // namespace

void add_export(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* verb = app.add_subcommand(
      "export", "Write a dump as Parquet, Arrow, safetensors, npz, or TensorBoard events, with the package's Python.");
  verb->add_option("DUMP", options->dump, "dump, or any directory inside one")->required();
  verb->add_option("--to", options->to, "file or directory to write; repeatable")->required()->type_name("FILE");
  verb->add_option("--format", options->format, "instead of the format of FILE's extension")
      ->check(CLI::IsMember({"parquet", "arrow", "safetensors", "npz", "tensorboard"}));
  verb->add_option("--table", options->table, "rows of parquet and arrow: tensors (default), ops, graph")
      ->check(CLI::IsMember({"tensors", "ops", "graph"}));
  verb->add_option(
          "--statistic", options->statistics,
          "for TensorBoard: max, min, avg, l2norm, nan_count, …; repeatable (default: all but counts of signs)")
      ->type_name("NAME");
  verb->add_option("-s,--select", options->select, "ops, by full name or type, e.g. '**/conv*'; repeatable")
      ->type_name("PATTERN");
  verb->add_option("--op", options->op, "ops, by a regular expression searched in full names")->type_name("REGEX");
  verb->add_option("--type", options->type, "ops of this type, case ignored")->type_name("TYPE");
  verb->add_option("--side", options->side, "input or output")->check(CLI::IsMember({"input", "output"}));
  verb->add_option("--slot", options->slot, "slots, e.g. 0 or 0-2")->type_name("NUMBERS")->check(list_of("slots"));
  verb->add_option("--source", options->source, "ops of this line, e.g. train.py:29")->type_name("FILE:LINE");
  verb->add_option("--step", options->step, "steps, e.g. 3, 0-5 or '1|4'")
      ->type_name("NUMBERS")
      ->check(list_of("steps"));
  verb->add_option("--rank", options->rank, "ranks, e.g. 0 or 0-3")->type_name("NUMBERS")->check(list_of("ranks"));
  verb->add_option("--graph", options->graph, "graphs, e.g. 0")->type_name("NUMBERS")->check(list_of("graphs"));
  verb->add_flag("--no-measure", options->no_measure, "only the statistics that the dump has; no tensor is read");
  verb->add_option("--python", options->python, "interpreter (default: the one beside this program)")
      ->type_name("PROGRAM");
  add_json_options(*verb, options->json);
  verb->footer(kExportFooter);
  verb->callback([options, &exit_status] { exit_status = export_dump(*options); });
}

}  // namespace sonde
