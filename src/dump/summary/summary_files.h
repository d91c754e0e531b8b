// The names of a summary's files, and the two that only grow: its series, and the steps in which one turned bad.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dump/summary/summary_cell.h"

namespace sonde {

inline constexpr std::string_view kSummaryDirectory = "summary_";  // and a number, from 0: one for each run
inline constexpr const char* kSummaryRows = "summary.rows";
inline constexpr const char* kSummarySeries = "summary.series";
inline constexpr const char* kSummaryEvents = "summary.events";

// A series turned bad in a step: it was finite when it was read last, or had not been read.
struct SummaryEvent {
  std::uint64_t step = 0;
  std::uint32_t series = 0;
  SummaryCell cell;
};
inline constexpr std::size_t kSummaryEventBytes = 72;
std::string text_of(const SummaryEvent& event);                 // its bytes
std::optional<SummaryEvent> event_of(std::string_view bytes);   // of kSummaryEventBytes; nothing if they are damaged
std::string text_of(const SummarySeries& series);               // a line
std::optional<SummarySeries> series_of(std::string_view line);  // nothing if it is none
inline constexpr std::string_view kSeriesLeftOut = "{\"left_out\":true}\n";  // further ones exist, but have no number
inline constexpr std::string_view kSeriesLimited =
    "{\"limited\":true}\n";  // max_overhead: steps are not read as a whole

}  // namespace sonde
