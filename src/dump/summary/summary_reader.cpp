#include "dump/summary/summary_reader.h"

#include <optional>
#include <string_view>
#include <utility>

#include "ground/files/mapped_file.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

// Each series has at most a name as long as a path; 16 events of each are at most a few megabytes.
constexpr std::size_t kMostTextBytes = 64U << 20;

// Empty where there is none: a run without a NaN has no events.
std::string content_of(const fs::path& file) {
  Result<std::string> content = read_whole_file(file, kMostTextBytes);
  return content ? std::move(*content) : "";
}

// A line of a run that was killed while it wrote is cut off: no row names its series.
void read_series(const fs::path& file, Summary& summary) {
  const std::string text = content_of(file);
  std::string_view rest = text;
  for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    const std::string_view line = rest.substr(0, end + 1);
    rest.remove_prefix(end + 1);
    if (line == kSeriesLeftOut || line == kSeriesLimited) {
      (line == kSeriesLimited ? summary.limited : summary.left_out) = true;
      continue;
    }
    std::optional<SummarySeries> series = series_of(line);
    if (!series || summary.series.size() >= kMostSummarySeries) {
      summary.problems.push_back("'" + file.string() + "': line " + std::to_string(summary.series.size() + 1) +
                                 " is damaged; its tensor and all later ones are left out");
      return;
    }
    summary.series.push_back(std::move(*series));
  }
}

void read_events(const fs::path& file, Summary& summary) {
  const std::string bytes = content_of(file);
  std::size_t damaged = 0;
  for (std::size_t at = 0; at + kSummaryEventBytes <= bytes.size(); at += kSummaryEventBytes) {
    const std::optional<SummaryEvent> event = event_of(std::string_view(bytes).substr(at, kSummaryEventBytes));
    if (event && event->series < summary.series.size()) {
      summary.events.push_back(*event);
    } else {
      ++damaged;
    }
  }
  if (damaged > 0) {
    summary.problems.push_back("'" + file.string() + "': " + std::to_string(damaged) +
                               " entries are damaged; a first bad step may be missing");
  }
}

}  // namespace

Result<Summary> read_summary(const fs::path& directory) {
  Summary summary;
  read_series(directory / kSummarySeries, summary);
  read_events(directory / kSummaryEvents, summary);
  Result<SummaryRows> rows = SummaryRows::open(directory / kSummaryRows);
  if (rows) {
    for (std::uint32_t level = 0; level < kSummaryLevels; ++level) summary.rows[level] = rows->read(level);
  } else if (summary.events.empty()) {
    return rows.error();
  } else {
    summary.problems.push_back(rows.error().message);  // the program ended in its first step, because of a NaN
  }
  return summary;
}

}  // namespace sonde
