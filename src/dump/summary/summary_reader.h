// Reads a summary, also one of a run that goes on or was killed.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "dump/summary/summary_files.h"
#include "dump/summary/summary_rows.h"
#include "sonde/result.h"

namespace sonde {

struct Summary {
  std::vector<SummarySeries> series;
  std::vector<SummaryEvent> events;                          // in the order of the run
  std::array<std::vector<SummaryRow>, kSummaryLevels> rows;  // by level
  bool left_out = false;                                     // the run had more series
  bool limited = false;                                      // by max_overhead
  std::vector<std::string> problems;                         // parts that are damaged; the rest was read
};

// `directory`: that of its files. Fails if nothing in it can be read.
Result<Summary> read_summary(const std::filesystem::path& directory);

}  // namespace sonde
