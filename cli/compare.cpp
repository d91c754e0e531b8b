#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>

#include "ask/compare/relation_map.h"
#include "ask/relations/relations.h"
#include "dump.h"
#include "engine.h"
#include "face/report/catalog_text.h"
#include "face/report/comparison.h"
#include "face/report/msprobe_csv.h"
#include "face/report/page_link.h"
#include "face/report/text.h"
#include "ground/files/safe_path.h"
#include "read/catalog/one_file.h"
#include "verbs.h"
#include "waiting.h"

namespace sonde {
namespace {

std::optional<Catalog> open_side(const std::string& path, int& status) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored) && path.ends_with(".npy")) return catalog_of_file(path);
  DumpOptions options;
  options.dump = path;
  return open_dump(options, status);
}

std::string csv_of(const CompareCommand& arguments, const DumpComparison& comparison) {
  if (arguments.relations) return relations_csv(comparison);
  return arguments.style == "msprobe" ? msprobe_csv_of(comparison) : csv_of(comparison);
}

bool write_map(const std::string& path, const DumpComparison& comparison) {
  if (comparison.map) return write_file(path, text_of_map(*comparison.map));
  print_error(
      fmt::format("cannot write map '{}': the operators of the two are matched by name, not related by values", path));
  return false;
}

bool write_reports(const CompareCommand& arguments, const DumpComparison& comparison) {
  bool all_written = true;
  if (!arguments.csv.empty()) all_written = write_file(arguments.csv, csv_of(arguments, comparison));
  if (!arguments.save_map.empty()) all_written = write_map(arguments.save_map, comparison) && all_written;
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

}  // namespace

int compare(const CompareCommand& arguments) {
  int status = kNothingFound;
  Result<CompareOptions> options = compare_options(arguments);
  if (!options) return print_error(options.error(), kUnreadable);
  options->keeps_map = !arguments.save_map.empty();
  options->all_sums = arguments.style == "msprobe";
  for (const std::string& dump : {arguments.target, arguments.golden}) {
    if (!index_ranks(dump, arguments.engine, status)) return status;
  }
  std::optional<Catalog> target = open_side(arguments.target, status);
  if (!target) return status;
  std::optional<Catalog> golden = open_side(arguments.golden, status);
  if (!golden) return status;
  std::optional<Waiting> waiting("comparing");
  options->progress = [&](std::size_t step, std::size_t steps) { waiting->now("comparing step", step, steps); };
  Result<DumpComparison> comparison = compare_programs(*target, *golden, *options);
  waiting.reset();
  if (!comparison) return print_error(comparison.error(), kUnreadable);
  for (const std::string& note : comparison->notes) print_warning(note);
  add_unreadable(comparison->unreadable);
  add_unreadable(comparison->left_out);
  if (arguments.json) {
    Answer::get().add(answer_of(*comparison, *options), &Comparison::ops,
                      [&](const auto& take) { for_each_op(*comparison, take); });
  } else if (!print_text(report_of(*comparison, *options, arguments.all, terminal_width()))) {
    return kUnreadable;
  } else if (arguments.relations && !print_text("\n" + relations_text(*comparison, terminal_width()))) {
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

}  // namespace sonde
