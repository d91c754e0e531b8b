#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "dump.h"
#include "face/report/text.h"
#include "face/server/html_report.h"
#include "ground/base/parse_number.h"
#include "ground/base/text.h"
#include "verbs.h"
#include "waiting.h"

namespace sonde {
namespace {

constexpr std::uint64_t kLargest = 100'000'000;

// "10M", "500K", "2000000"; empty if it is none of them.
std::optional<std::uint64_t> size_of(std::string text) {
  std::uint64_t unit = 1;
  if (!text.empty() && (text.back() == 'K' || text.back() == 'M')) {
    unit = text.back() == 'K' ? 1000 : 1'000'000;
    text.pop_back();
  }
  std::uint64_t number = 0;
  if (!parse_number(std::string_view(text), number) || number > kLargest) return std::nullopt;
  return number * unit;
}

std::string contents_text(const ReportContents& contains) {
  std::vector<std::string> parts = {fmt::format("statistics, {} of operators", count_text(contains.operators, "page"))};
  const std::uint64_t values = contains.tensors_with_values, lines = contains.source_lines;
  parts.push_back(values == 0 ? "no values" : "values of " + count_text(values, "tensor"));
  parts.push_back(lines == 0 ? "no source" : count_text(lines, "line") + " of source");
  parts.emplace_back(contains.paths ? "paths" : "no paths");
  for (const std::string& host : contains.hosts) parts.push_back("host " + host);
  for (const std::string& command : contains.commands) parts.push_back("command " + command);
  return fmt::format("{}", fmt::join(parts, ", "));
}

void print_report(const ReportCommand& options, HtmlReport report) {
  if (options.json) {
    report.file = std::filesystem::absolute(options.html).string();
    Answer::get().add(report);
    return;
  }
  std::string text = fmt::format("{}: {}\n  steps     ", options.html, bytes_text(report.bytes));
  for (const std::uint64_t step : report.steps) text += fmt::format("{} ", step);
  text += "\n  contains  " + contents_text(report.contains) + "\n";
  for (const ReportLeftOut& entry : report.left_out) {
    text += fmt::format("  left out  {} {}: no room in {}\n", entry.count, entry.what, options.max_size);
  }
  print_text(text);
}

}  // namespace

int report(const ReportCommand& options) {
  server::HtmlReportOptions wanted;
  const std::optional<std::uint64_t> most = size_of(options.max_size);
  if (!most || *most > kLargest) {
    print_error(
        fmt::format("--max-size '{}': expected a size up to 100M, as 500K or 10M; browsers cannot show a larger page",
                    options.max_size));
    return kBadUsage;
  }
  std::error_code ignored;
  if (std::filesystem::exists(options.html, ignored)) {
    print_error(fmt::format("cannot write '{}': {}", options.html, std::strerror(EEXIST)));
    return kBadUsage;
  }
  for (const std::string& dump : {options.dump, options.golden}) {
    if (dump.empty()) continue;
    if (!std::filesystem::exists(dump, ignored)) {
      print_error(fmt::format("cannot open dump '{}': no such directory", dump));
      return kUnreadable;
    }
    std::filesystem::path path = std::filesystem::absolute(dump).lexically_normal();
    wanted.dumps.push_back(path.has_filename() ? path : path.parent_path());
  }
  wanted.steps = options.step;
  wanted.graph = options.graph;
  wanted.rank = options.rank;
  wanted.select = options.select;
  wanted.most_bytes = *most;
  wanted.is_redacted = options.redact;
  wanted.values = options.values == "none"       ? server::ReportValues::none
                  : options.values == "selected" ? server::ReportValues::selected
                                                 : server::ReportValues::suspects;
  std::optional<Waiting> waiting("reading the dump");
  wanted.progress = [&](std::string_view work) { waiting->now(std::string(work)); };
  const Result<server::HtmlPage> report = server::html_report(wanted);
  waiting.reset();
  if (!report) {
    const bool is_usage =
        report.error().code == ErrorCode::invalid_argument || report.error().code == ErrorCode::unsupported;
    return print_error(report.error(), is_usage ? kBadUsage : kUnreadable);
  }
  if (!write_new(options.html, report->html)) return kBadUsage;
  print_report(options, report->about);
  return kNothingFound;
}

}  // namespace sonde
