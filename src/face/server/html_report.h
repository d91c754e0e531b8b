// The report: a dump, or two, as one HTML file (html_file.h). It holds the
// answers that the page would ask a server for, from the most important to the
// least, until the file is full; what is left out is counted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "contract/command_answers.h"
#include "sonde/result.h"

namespace sonde::server {

enum class ReportValues { none, suspects, selected };

struct HtmlReportOptions {
  std::vector<std::filesystem::path> dumps;  // absolute; the second one is golden
  std::string steps;                         // "3", "0-5"; empty: those of the finding
  std::optional<std::uint32_t> graph, rank;
  std::vector<std::string> select;  // patterns; empty: all ops
  ReportValues values = ReportValues::suspects;
  std::uint64_t most_bytes = 10'000'000;
  bool is_redacted = false;
  std::function<void(std::string_view work)> progress = {};  // called before each part of the work; may be empty
};

struct HtmlPage {
  std::string html;
  HtmlReport about;  // without `file`
};

Result<HtmlPage> html_report(const HtmlReportOptions& options);

}  // namespace sonde::server
