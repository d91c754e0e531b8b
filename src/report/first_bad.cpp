#include "report/first_bad.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "report/catalog_text.h"
#include "report/finding.h"
#include "report/table.h"
#include "report/text.h"

namespace sonde {
namespace {

constexpr std::size_t kHealthyShown = 12;
constexpr std::size_t kPathShown = 8;
constexpr std::size_t kRanksShown = 4;

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

std::string healthy_text(const FirstBad& report, std::size_t width) {
  if (report.healthy.empty()) return "";
  Table table({{"healthy", Align::left, true}, {"holds"}, {"how"}, {"absorbed by", Align::left, true}, {"line"}});
  const std::size_t shown = std::min(report.healthy.size(), kHealthyShown);
  for (std::size_t i = 0; i < shown; ++i) {
    const HealthyInfinity& healthy = report.healthy[i];
    std::vector<std::string> absorbers;
    for (const std::string& name : healthy.absorbed_by) absorbers.push_back(last_part(name));
    const bool outside = healthy.tensor.is_input && !healthy.tensor.parameter.empty();
    table.add({outside ? healthy.tensor.parameter : last_part(name_of(healthy.tensor)),
               counts_text(healthy.tensor.statistics), healthy.how,
               absorbers.empty() ? "no operator reads it" : joined(absorbers, ", "), short_line(healthy.code)});
  }
  std::string text = "\n" + table.text(width);
  const std::uint64_t more = report.healthy.size() - shown + report.healthy_left_out;
  if (more > 0) text += fmt::format("and {} more (--json)\n", more);
  return text;
}

bool is_alike(const Finding& a, const Finding& b) {
  return a.tensor.op_name == b.tensor.op_name && a.step == b.step && a.kind == b.kind;
}

// The findings of other ranks; equal ones are in the answer's evidence.
std::string ranks_text(const FirstBad& report) {
  std::string text;
  std::size_t shown = 0, more = 0;
  for (const Finding& finding : report.by_rank) {
    if (is_alike(finding, report.by_rank.front())) continue;
    if (shown == kRanksShown) {
      ++more;
      continue;
    }
    ++shown;
    text += fmt::format("\nrank {} went wrong by itself:\n{}", rank_text(finding.rank, finding.dump), page_of(finding));
  }
  if (more > 0) text += fmt::format("and {} (--json)\n", count_text(more, "more rank"));
  return text;
}

std::string growth_text(const Growth& growth) {
  std::vector<std::string> points;
  for (const Growth::Point& point : growth.series) {
    points.push_back(fmt::format("{}: {:.4g}", point.step, point.value));
  }
  if (points.size() > 8) points.erase(points.begin(), points.end() - 8);
  return fmt::format("\ngrew first: {} in step {}{}: {} {:.4g} after {:.4g} ({:.3g} times)\n  by step: {}\n",
                     printable(name_of(growth.tensor)), growth.step.number,
                     growth.code.file.empty() ? "" : fmt::format(" ({})", printable(short_line(growth.code))),
                     growth.of_norm ? "norm" : "largest", growth.now, growth.before, growth.now / growth.before,
                     joined(points, ", "));
}

std::string looked_text(const FirstBad& report) {
  const std::string only_names =
      report.ops_not_recorded > 0 ? fmt::format(" (of {} only the names are known)", report.ops_not_recorded) : "";
  return fmt::format("{}, {}, {}{}, {}{}", count_text(report.ranks, "rank"), count_text(report.steps, "step"),
                     count_text(report.ops, "op"), only_names, count_text(report.tensors, "tensor"),
                     report.files_read > 0 ? fmt::format(", {} read", count_text(report.files_read, "file")) : "");
}

struct StateText {
  std::string_view name, says;
};

StateText text_of(UnfinishedRun::State state) {
  using enum UnfinishedRun::State;
  switch (state) {
    case killed:
      return {"killed", "was killed"};
    case stopped:
      return {"stopped", "stopped recording"};
    case running:
      break;
  }
  return {"running", "goes on"};
}

// "the run was killed in step 2", of several ranks "rank 0 was killed in step 2, rank 3 in step 1"
std::string unfinished_text(const FirstBad& report) {
  std::vector<std::string> parts;
  std::optional<UnfinishedRun::State> before;
  for (const UnfinishedRun& run : report.unfinished) {
    std::string text = report.ranks == 1 ? "the run" : "rank " + rank_text(run.rank, run.dump);
    if (run.state != before) text += fmt::format(" {}", text_of(run.state).says);
    before = run.state;
    parts.push_back(fmt::format(
        "{} {} step {}{}", text, run.in_step ? "in" : "after", run.step.number,
        run.reason.empty() ? "" : fmt::format(" ({}); later steps are not in the dump", printable(run.reason))));
  }
  return joined(parts, ", ");
}

std::string place_text(const FindingCode& code) { return code.file.empty() ? "" : ", " + printable(short_line(code)); }

// "0-2|5", as `--step` takes them. They are in the order of the run.
std::string ranges_text(const std::vector<std::uint64_t>& steps) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < steps.size();) {
    std::size_t end = i + 1;
    while (end < steps.size() && steps[end] == steps[end - 1] + 1) ++end;
    parts.push_back(end - i == 1 ? std::to_string(steps[i]) : fmt::format("{}-{}", steps[i], steps[end - 1]));
    i = end;
  }
  return joined(parts, "|");
}

Json places_json(const HealthyInfinity& healthy) {
  Json list = Json::array();
  for (const HealthyInfinity::Place& place : healthy.places) {
    list.push_back(
        {{"rank", place.rank}, {"dump", place.dump}, {"graph", place.graph}, {"steps", ranges_text(place.steps)}});
  }
  return list;
}

Json growth_json(const Growth& growth) {
  Json series = Json::array();
  for (const Growth::Point& point : growth.series) {
    series.push_back({{"step", point.step}, {"value", json_of(point.value)}});
  }
  return {{"tensor", json_of(growth.tensor)},
          {"rank", growth.rank},
          {"step", growth.step.number},
          {"before", json_of(growth.before)},
          {"now", json_of(growth.now)},
          {"of_norm", growth.of_norm},
          {"series", series},
          {"code", json_of(growth.code)}};
}

}  // namespace

std::string text_of(const FirstBad& report, std::size_t width) {
  std::string text;
  for (std::size_t i = 0; i < report.findings.size(); ++i) {
    if (i == 1) text += "\nalso wrong in this step:\n";
    text += (i == 0 ? "first bad: " : "") + page_of(report.findings[i]);
    if (i == 0) text += fmt::format("  {:<11} {}: {}\n", "reaches", report.reaches, printable(path_text(report)));
  }
  text += ranks_text(report);
  for (const Finding& finding : report.expected) {
    text += fmt::format("expected: {}: {} (step {}); the loss scaler found it and skipped the step\n",
                        printable(finding.tensor.op_name), printable(finding.why), finding.step.number);
  }
  for (const Finding& finding : report.asides) {
    text +=
        fmt::format("aside: {}: {} (step {}{}); nothing that is trained reads it\n", printable(finding.tensor.op_name),
                    printable(finding.why), finding.step.number, place_text(finding.code));
  }
  if (report.findings.empty()) {
    const std::string unfinished = unfinished_text(report);
    text += fmt::format("{}: no NaN or infinity that matters in {}",
                        !report.complete      ? "nothing found in the part that could be examined"
                        : !unfinished.empty() ? "nothing wrong in what was recorded"
                                              : "nothing wrong",
                        looked_text(report));
    if (!unfinished.empty()) text += "; " + unfinished;
    if (!report.healthy.empty()) {
      const std::uint64_t healthy = report.healthy.size() + report.healthy_left_out;
      text += fmt::format("; {} healthy {}", healthy, healthy == 1 ? "infinity" : "infinities");
    }
    text += "\n";
  } else {
    text += fmt::format("looked at {}\n", looked_text(report));
  }
  if (report.growth) text += growth_text(*report.growth);
  return text + healthy_text(report, width);
}

Json json_of(const FirstBad& report) {
  Json findings = Json::array(), expected = Json::array(), asides = Json::array(), healthy = Json::array(),
       unfinished = Json::array(), by_rank = Json::array();
  for (const Finding& finding : report.by_rank) by_rank.push_back(json_of(finding));
  for (const UnfinishedRun& run : report.unfinished) {
    unfinished.push_back({{"state", text_of(run.state).name},
                          {"rank", run.rank},
                          {"dump", run.dump},
                          {"graph", run.step.graph},
                          {"step", run.step.number},
                          {"in_step", run.in_step},
                          {"reason", run.reason}});
  }
  for (const Finding& finding : report.asides) asides.push_back(json_of(finding));
  for (const Finding& finding : report.findings) findings.push_back(json_of(finding));
  for (const Finding& finding : report.expected) expected.push_back(json_of(finding));
  for (const HealthyInfinity& one : report.healthy) {
    healthy.push_back({{"tensor", json_of(one.tensor)},
                       {"rank", one.rank},
                       {"graph", one.step.graph},
                       {"step", one.step.number},
                       {"places", places_json(one)},
                       {"how", one.how},
                       {"absorbed_by", one.absorbed_by},
                       {"code", json_of(one.code)}});
  }
  return {{"complete", report.complete},
          {"unfinished", unfinished},
          {"first", report.findings.empty() ? Json() : json_of(report.findings.front())},
          {"findings", findings},
          {"by_rank", by_rank},
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

}  // namespace sonde
