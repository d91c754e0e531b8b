#include "first_bad.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "dump.h"
#include "finding.h"
#include "first_bad/first_bad.h"
#include "first_bad/next_config.h"
#include "json.h"
#include "table.h"
#include "text.h"

namespace sonde {
namespace {

constexpr std::size_t kHealthyShown = 12;
constexpr std::size_t kPathShown = 8;

struct FirstBadVerb : DumpOptions {
  std::string next_config;
  bool no_trend = false;
};

std::string last_part(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  return slash == std::string::npos ? name : name.substr(slash + 1);
}

std::string path_text(const FirstBad& report) {
  std::vector<std::string> parts;
  const std::size_t size = report.path.size();
  for (std::size_t i = 0; i < size; ++i) {
    if (i + 2 >= kPathShown && i + 2 < size) {
      if (i + 2 == kPathShown) parts.push_back(fmt::format("… {} more …", size - kPathShown));
      continue;
    }
    parts.push_back(last_part(report.path[i]));
  }
  return joined(parts, " -> ");
}

std::string counts_text(const std::optional<KnownStatistics>& statistics) {
  if (!statistics) return "";
  std::vector<std::string> parts;
  if (statistics->nan_count.value_or(0) > 0) parts.push_back(fmt::format("{} NaN", *statistics->nan_count));
  if (statistics->positive_inf_count.value_or(0) > 0) {
    parts.push_back(fmt::format("{} +inf", *statistics->positive_inf_count));
  }
  if (statistics->negative_inf_count.value_or(0) > 0) {
    parts.push_back(fmt::format("{} -inf", *statistics->negative_inf_count));
  }
  if (parts.empty()) {  // no counts: a maximum or minimum shows it
    for (const auto& value : {statistics->max, statistics->min}) {
      if (value && !std::isfinite(*value)) parts.push_back(number_text(*value));
    }
  }
  return joined(parts, ", ");
}

std::string healthy_text(const FirstBad& report) {
  if (report.healthy.empty()) return "";
  Table table({{"healthy", Align::left, true}, {"holds"}, {"how"}, {"absorbed by", Align::left, true}, {"line"}});
  const std::size_t shown = std::min(report.healthy.size(), kHealthyShown);
  for (std::size_t i = 0; i < shown; ++i) {
    const HealthyInfinity& healthy = report.healthy[i];
    std::vector<std::string> absorbers;
    for (const std::string& name : healthy.absorbed_by) absorbers.push_back(last_part(name));
    const std::string line =
        healthy.code.file.empty()
            ? ""
            : fmt::format("{}:{}", std::filesystem::path(healthy.code.file).filename().string(), healthy.code.line);
    const bool outside = healthy.tensor.is_input && !healthy.tensor.tensor_name.empty();
    table.add({outside ? healthy.tensor.tensor_name : last_part(name_of(healthy.tensor)),
               counts_text(healthy.tensor.statistics), healthy.how,
               absorbers.empty() ? "nobody reads it" : joined(absorbers, ", "), line});
  }
  std::string text = "\n" + table.text(terminal_width());
  const std::uint64_t more = report.healthy.size() - shown + report.healthy_left_out;
  if (more > 0) text += fmt::format("and {} more (--json)\n", more);
  return text;
}

std::string growth_text(const Growth& growth) {
  std::vector<std::string> points;
  for (const Growth::Point& point : growth.series) {
    points.push_back(fmt::format("{}: {:.4g}", point.iteration, point.value));
  }
  if (points.size() > 8) points.erase(points.begin(), points.end() - 8);
  return fmt::format(
      "\ngrew first: {} in step {}{}: {} {:.4g} after {:.4g} ({:.3g} times)\n  by step: {}\n",
      printable(name_of(growth.tensor)), growth.step.iteration,
      growth.code.file.empty()
          ? ""
          : fmt::format(" ({}:{})", std::filesystem::path(growth.code.file).filename().string(), growth.code.line),
      growth.of_norm ? "norm" : "largest", growth.now, growth.before, growth.now / growth.before, joined(points, ", "));
}

std::string looked_text(const FirstBad& report) {
  const std::string only_names =
      report.ops_not_recorded > 0 ? fmt::format(" (of {} only the names are known)", report.ops_not_recorded) : "";
  return fmt::format("{}, {}, {}{}, {}{}", count_text(report.ranks, "rank"), count_text(report.steps, "step"),
                     count_text(report.ops, "op"), only_names, count_text(report.tensors, "tensor"),
                     report.files_read > 0 ? fmt::format(", {} read", count_text(report.files_read, "file")) : "");
}

std::string place_text(const FindingCode& code) {
  if (code.file.empty()) return "";
  return fmt::format(", {}:{}", printable(std::filesystem::path(code.file).filename().string()), code.line);
}

// Only then is nothing wrong where nothing was found.
bool looked_at_all(const FirstBad& report) {
  return !Answer::get().is_incomplete() && (report.tensors > 0 || report.only_overflows);
}

std::string text_of(const FirstBad& report) {
  std::string text;
  for (std::size_t i = 0; i < report.findings.size(); ++i) {
    if (i == 1) text += "\nalso wrong in this step:\n";
    text += (i == 0 ? "first bad: " : "") + page_of(report.findings[i]);
    if (i == 0) text += fmt::format("  {:<11} {}: {}\n", "reaches", report.reaches, printable(path_text(report)));
  }
  for (const Finding& finding : report.expected) {
    text += fmt::format("expected: {}: {} (step {}); the loss scaler found it and skipped the step\n",
                        printable(finding.tensor.op), printable(finding.why), finding.step.iteration);
  }
  for (const Finding& finding : report.asides) {
    text += fmt::format("aside: {}: {} (step {}{}); nothing that is trained reads it\n", printable(finding.tensor.op),
                        printable(finding.why), finding.step.iteration, place_text(finding.code));
  }
  if (report.findings.empty()) {
    text += fmt::format("{}: no NaN or infinity that matters in {}",
                        looked_at_all(report) ? "nothing wrong" : "nothing found in what could be looked at",
                        looked_text(report));
    if (!report.healthy.empty()) {
      const std::uint64_t healthy = report.healthy.size() + report.healthy_left_out;
      text += fmt::format("; {} healthy {}", healthy, healthy == 1 ? "infinity" : "infinities");
    }
    text += "\n";
  } else {
    text += fmt::format("looked at {}\n", looked_text(report));
  }
  if (report.growth) text += growth_text(*report.growth);
  return text + healthy_text(report);
}

Json growth_json(const Growth& growth) {
  Json series = Json::array();
  for (const Growth::Point& point : growth.series) {
    series.push_back({{"step", point.iteration}, {"value", json_of(point.value)}});
  }
  return {{"tensor", json_of(growth.tensor)},
          {"rank", growth.rank},
          {"step", growth.step.iteration},
          {"before", json_of(growth.before)},
          {"now", json_of(growth.now)},
          {"of_norm", growth.of_norm},
          {"series", series},
          {"code", json_of(growth.code)}};
}

Json report_json(const FirstBad& report) {
  Json findings = Json::array(), expected = Json::array(), asides = Json::array(), healthy = Json::array();
  for (const Finding& finding : report.asides) asides.push_back(json_of(finding));
  for (const Finding& finding : report.findings) findings.push_back(json_of(finding));
  for (const Finding& finding : report.expected) expected.push_back(json_of(finding));
  for (const HealthyInfinity& one : report.healthy) {
    healthy.push_back({{"tensor", json_of(one.tensor)},
                       {"rank", one.rank},
                       {"step", one.step.iteration},
                       {"how", one.how},
                       {"absorbed_by", one.absorbed_by},
                       {"code", json_of(one.code)}});
  }
  return {{"first", report.findings.empty() ? Json() : json_of(report.findings.front())},
          {"findings", findings},
          {"reaches", report.reaches},
          {"path", report.path},
          {"expected", expected},
          {"asides", asides},
          {"healthy", healthy},
          {"healthy_left_out", report.healthy_left_out},
          {"growth", report.growth ? growth_json(*report.growth) : Json()},
          {"suspects", report.suspects},
          {"notes", report.notes},
          {"looked_at",
           {{"ranks", report.ranks},
            {"steps", report.steps},
            {"ops", report.ops},
            {"ops_not_recorded", report.ops_not_recorded},
            {"tensors", report.tensors},
            {"files_read", report.files_read}}}};
}

// The options mean something in this dump; what does not is told as the other verbs tell it.
bool check_options(Catalog& catalog, const FirstBadVerb& options, int& status) {
  return select_steps(catalog, options, status).has_value();
}

bool write_next_config(const Catalog& catalog, const FirstBad& report, const std::string& path) {
  const std::string text = next_config(catalog, report);
  if (text.empty()) {
    print_warning("nothing wrong was found: no configuration was written to '" + path + "'");
    return true;
  }
  std::FILE* file = std::fopen(path.c_str(), "wxe");
  const bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const int closed = file != nullptr ? std::fclose(file) : 0;
  if (written && closed == 0) return true;
  print_error(fmt::format("cannot write '{}': {}", path, std::strerror(errno)));
  return false;
}

int run(const FirstBadVerb& options) {
  int status = kNothingFound;
  std::optional<Catalog> catalog = open_dump(options, status);
  if (!catalog) return status;
  if (!check_options(*catalog, options, status)) return status;
  FirstBadOptions wanted;
  if (!options.step.empty()) wanted.steps = IterationSet::parse(options.step);
  wanted.graph = options.graph;
  wanted.rank = options.rank;
  wanted.trend = !options.no_trend;
  const FirstBad report = first_bad(*catalog, wanted);
  add_unreadable(report.problems);
  for (const std::string& note : report.notes) {
    if (!options.json) print_warning(note);
  }
  if (options.json) Answer::get().add(report_json(report));
  if (!options.json && !print_text(text_of(report))) return kUnreadable;
  if (!options.next_config.empty() && !write_next_config(*catalog, report, options.next_config)) return kBadUsage;
  if (report.tensors == 0 && !report.only_overflows) {
    print_error("no value and no statistic of any tensor is in this dump");
  }
  return looked_at_all(report) ? status_of(report.findings) : kUnreadable;
}

}  // namespace

void add_first_bad(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<FirstBadVerb>();
  CLI::App* verb = app.add_subcommand(
      "first-bad", "Find the first operator whose output holds a NaN or infinity that matters, and say why.");
  add_dump_options(*verb, *options, false);
  verb->add_option("--next-config", options->next_config,
                   "write a configuration that records the suspects' tensors in the step before\n"
                   "and the step itself; FILE must not exist")
      ->type_name("FILE");
  verb->add_flag("--no-trend", options->no_trend, "do not look for the norm that grew first");
  verb->footer(
      "Exit status: 0 nothing wrong and all looked at, 1 found, 2 bad usage, 3 something could not be looked at.\n"
      "Example: sonde first-bad run7 --next-config next.json");
  verb->callback([options, &exit_status] { exit_status = run(*options); });
}

}  // namespace sonde
