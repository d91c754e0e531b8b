#include "face/report/first_bad.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "face/report/catalog_text.h"
#include "face/report/finding.h"
#include "face/report/line_kind.h"
#include "face/report/table.h"
#include "face/report/text.h"
#include "ground/base/ranges_text.h"

namespace sonde {
namespace {

constexpr std::size_t kHealthyShown = 12;
constexpr std::size_t kPathShown = 8;
constexpr std::size_t kAlikeShown = 6;
constexpr std::size_t kRanksShown = 4;

std::string last_part(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  return slash == std::string::npos ? name : name.substr(slash + 1);
}

// Of the backward pass with the operator whose derivative it belongs to: `Grad_div/div-op0`.
std::string last_parts(const std::string& name) {
  const std::string last = last_part(name);
  if (last.size() == name.size()) return last;
  const std::string parent = last_part(name.substr(0, name.size() - last.size() - 1));
  return parent.starts_with("Grad_") ? parent + "/" + last : last;
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
    if (report.goes_on && report.goes_on->first == i) parts.back() += fmt::format(" of step {}", report.goes_on->step);
  }
  return joined(parts, " -> ");
}

std::string counts_text(const std::optional<KnownStatistics>& statistics) {
  if (!statistics) return "";
  std::vector<std::string> parts;
  if (statistics->nan_count.value_or(0) > 0) parts.push_back(fmt::format("{} NaN", *statistics->nan_count));
  for (const double sign : {1.0, -1.0}) {
    const std::uint64_t count = statistics->infinity_count(sign).value_or(0);
    if (count > 0) parts.push_back(fmt::format("{} {}inf", count, sign > 0 ? "+" : "-"));
  }
  if (parts.empty()) {  // no counts: a maximum or minimum shows it
    for (const auto& value : {statistics->max, statistics->min}) {
      if (value && !std::isfinite(*value)) parts.push_back(number_text(*value));
    }
  }
  return joined(parts, ", ");
}

std::vector<std::string> healthy_cells(const HealthyInfinity& healthy) {
  std::vector<std::string> absorbers;
  for (const std::string& name : healthy.absorbed_by) absorbers.push_back(last_parts(name));
  const bool outside = healthy.tensor.side == Side::input && !healthy.tensor.parameter.empty();
  return {outside ? healthy.tensor.parameter : last_parts(name_of(healthy.tensor)),
          counts_text(healthy.tensor.statistics), healthy.how,
          absorbers.empty() ? "no operator reads it" : joined(absorbers, ", "), short_line(healthy.code)};
}

// The mask of each layer is the same line of the program: one row.
std::string healthy_text(const FirstBad& report, std::size_t width) {
  if (report.healthy.empty()) return "";
  std::vector<std::pair<std::vector<std::string>, std::size_t>> rows;
  for (const HealthyInfinity& healthy : report.healthy) {
    std::vector<std::string> cells = healthy_cells(healthy);
    const auto same = std::ranges::find(rows, cells, &decltype(rows)::value_type::first);
    if (same == rows.end()) {
      rows.emplace_back(std::move(cells), 1);
    } else {
      ++same->second;
    }
  }
  Table table({{"healthy", Align::left, true}, {"holds"}, {"how"}, {"absorbed by", Align::left, true}, {"line"}});
  std::uint64_t more = report.healthy_left_out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto& [cells, count] = rows[i];
    if (i >= kHealthyShown) more += count;
    if (i >= kHealthyShown) continue;
    if (count > 1) cells.front() += fmt::format(" × {}", count);
    table.add(std::move(cells));
  }
  std::string text = "\n" + table.text(width);
  if (more > 0) text += fmt::format("and {} more (--json)\n", more);
  return text;
}

bool is_alike(const Finding& a, const Finding& b) {
  return a.tensor.op_name == b.tensor.op_name && step_of(a) == step_of(b) && a.kind == b.kind;
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
    const std::string title = fmt::format("rank {} went wrong by itself:\n", rank_text(finding.rank, finding.dump));
    text += "\n" + marked(LineKind::bad, title) + page_of(finding);
  }
  if (more > 0) text += fmt::format("and {} (--json)\n", count_text(more, "more rank"));
  return text;
}

std::string growth_text(const Growth& growth) {
  std::vector<std::string> points;
  for (const GrowthPoint& point : growth.series) {
    points.push_back(fmt::format("{}: {:.4g}", point.step, point.value));
  }
  if (points.size() > 8) points.erase(points.begin(), points.end() - 8);
  const std::string text = fmt::format(
      "grew first: {}{} in step {}{}: {} {:.4g} after {:.4g} ({:.3g} times)\n  by step: {}\n",
      growth.tensor.parameter.empty() ? "" : fmt::format("{}, by ", printable(growth.tensor.parameter)),
      printable(name_of(growth.tensor)), growth.step,
      growth.code.source_file.empty() ? "" : fmt::format(" ({})", printable(short_line(growth.code))),
      growth.of_norm ? "norm" : "largest", growth.now, growth.before, growth.now / growth.before, joined(points, ", "));
  return "\n" + marked(LineKind::doubt, text);
}

std::string looked_text(const FirstBad& report) {
  const std::string only_names =
      report.looked_at.ops_not_recorded > 0
          ? fmt::format(" (of {} only the names are known)", report.looked_at.ops_not_recorded)
          : "";
  return fmt::format(
      "{}, {}, {}{}, {}{}", count_text(report.looked_at.ranks, "rank"), count_text(report.looked_at.steps, "step"),
      count_text(report.looked_at.ops, "op"), only_names, count_text(report.looked_at.tensors, "tensor"),
      report.looked_at.files_read > 0 ? fmt::format(", {} read", count_text(report.looked_at.files_read, "file")) : "");
}

std::string_view words_of(RunState state) {
  using enum RunState;
  return state == killed ? "was killed" : state == stopped ? "stopped recording" : "goes on";
}

// "the run was killed in step 2", of several ranks "rank 0 was killed in step 2, rank 3 in step 1"
std::string unfinished_text(const FirstBad& report) {
  std::vector<std::string> parts;
  std::optional<RunState> before;
  for (const UnfinishedRun& run : report.unfinished) {
    std::string text = report.looked_at.ranks == 1 ? "the run" : "rank " + rank_text(run.rank, run.dump);
    if (run.state != before) text += fmt::format(" {}", words_of(run.state));
    before = run.state;
    parts.push_back(fmt::format(
        "{} {} step {}{}", text, run.in_step ? "in" : "after", run.step,
        run.reason.empty() ? "" : fmt::format(" ({}); later steps are not in the dump", printable(run.reason))));
  }
  return joined(parts, ", ");
}

// The recording may have ended before the program did: the way to see more.
std::string how_to_see_more(const FirstBad& report) {
  const auto ended_early = [](const UnfinishedRun& run) { return run.state != RunState::running; };
  const auto run = std::ranges::find_if(report.unfinished, ended_early);
  if (run == report.unfinished.end()) return "";
  const std::string_view cause = run->state == RunState::killed
                                     ? "The recording has no end: the program was killed, or the disk failed."
                                     : "The recording ended before the program did.";
  const std::string complete =
      run->complete_step ? fmt::format("The last complete step is {}", *run->complete_step) : "No step is complete";
  return fmt::format("{} {}; to see more, record again with --iteration {}-N\n", cause, complete,
                     run->complete_step ? *run->complete_step + 1 : run->step);
}

std::string place_text(const Code& code) { return code.source_file.empty() ? "" : ", " + printable(short_line(code)); }

bool is_of_one_line(const Finding& a, const Finding& b) {
  return a.code.source_line == b.code.source_line && a.code.source_file == b.code.source_file && a.why == b.why;
}

// Findings of one line with one reason, as those of a loop over the layers, are one block.
std::string findings_text(const FirstBad& report) {
  std::vector<std::vector<const Finding*>> blocks;
  for (const Finding& finding : report.findings) {
    const auto block = std::ranges::find_if(blocks, [&](const auto& one) {
      return !finding.code.source_file.empty() && is_of_one_line(*one.front(), finding);
    });
    if (block == blocks.end()) {
      blocks.push_back({&finding});
    } else {
      block->push_back(&finding);
    }
  }
  std::string text;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i == 1) text += "\nalso wrong in this step:\n";
    const Finding& first = *blocks[i].front();
    text += i == 0 ? marked(LineKind::bad, page_of(first, "first bad: ")) : page_of(first);
    std::vector<std::string> others;
    for (std::size_t j = 1; j < std::min(blocks[i].size(), kAlikeShown + 1); ++j)
      others.push_back(last_part(blocks[i][j]->tensor.op_name));
    if (blocks[i].size() > kAlikeShown + 1)
      others.push_back(fmt::format("and {} more (--json)", blocks[i].size() - kAlikeShown - 1));
    if (!others.empty()) text += fmt::format("  {:<11} {}\n", "likewise", printable(joined(others, ", ")));
    if (i == 0) text += fmt::format("  {:<11} {}: {}\n", "reaches", report.reaches, printable(path_text(report)));
  }
  return text;
}

// An aside of each step is one line.
std::string asides_text(const FirstBad& report) {
  std::vector<std::pair<const Finding*, std::vector<std::uint64_t>>> asides;
  for (const Finding& finding : report.asides) {
    const auto known = std::ranges::find_if(asides, [&](const auto& aside) {
      return aside.first->tensor.op_name == finding.tensor.op_name && is_of_one_line(*aside.first, finding);
    });
    if (known == asides.end()) {
      asides.push_back({&finding, {finding.step}});
    } else {
      known->second.push_back(finding.step);
    }
  }
  std::string text;
  for (const auto& [finding, steps] : asides) {
    const std::string numbers = ranges_text(steps);
    text += marked(LineKind::doubt, fmt::format("aside: {}: {} (step{} {}{}); nothing bad reaches what is trained\n",
                                                printable(finding->tensor.op_name), printable(finding->why),
                                                numbers == std::to_string(steps.front()) ? "" : "s", numbers,
                                                place_text(finding->code)));
  }
  return text;
}

}  // namespace

std::string text_of(const FirstBad& report, std::size_t width) {
  std::string text = findings_text(report) + ranks_text(report);
  for (const Finding& finding : report.expected) {
    text += fmt::format("expected: {}: {} (step {}); the loss scaler found it and skipped the step\n",
                        printable(finding.tensor.op_name), printable(finding.why), finding.step);
  }
  text += asides_text(report);
  if (report.findings.empty()) {
    const std::string unfinished = unfinished_text(report);
    const bool is_sure = unfinished.empty() && report.complete;
    text += marked(is_sure ? LineKind::good : LineKind::doubt,
                   fmt::format("{}: no NaN or infinity that matters in {}",
                               !unfinished.empty() ? "nothing found in what was recorded"
                               : !report.complete  ? "nothing found in the part that could be examined"
                                                   : "nothing wrong",
                               looked_text(report)));
    if (!unfinished.empty()) text += "; " + unfinished;
    if (!report.healthy.empty()) {
      const std::uint64_t healthy = report.healthy.size() + report.healthy_left_out;
      const bool has_nan = std::ranges::any_of(report.healthy, [](const HealthyInfinity& one) {
        return one.tensor.statistics && one.tensor.statistics->nan_count.value_or(0) > 0;
      });
      const std::string what = has_nan        ? fmt::format("tensor{} with NaN or infinities", healthy == 1 ? "" : "s")
                               : healthy == 1 ? "infinity"
                                              : "infinities";
      text += fmt::format("; {} healthy {}", healthy, what);
    }
    text += "\n" + how_to_see_more(report);
  } else {
    text += fmt::format("looked at {}\n", looked_text(report));
  }
  if (report.growth) text += growth_text(*report.growth);
  return text + healthy_text(report, width) + next_text(report.next_commands);
}

}  // namespace sonde
