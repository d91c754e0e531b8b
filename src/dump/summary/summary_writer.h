// SummaryWriter: what a run's summary keeps of each step, on disk when the step is over; and the first step in which a
// series is bad at once. For one thread.
//
//   SummaryWriter writer(directory of the rank);
//   writer.begin_step(0);
//   writer.add(*writer.series({SummaryKind::output, "Default/network-Net/fc1-Linear", "Linear", dtype, shape}), statistics);
//   writer.close();
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "dump/summary/summary_cell.h"
#include "dump/summary/summary_rows.h"
#include "ground/files/files.h"
#include "sonde/result.h"

namespace sonde {

class SummaryWriter {
 public:
  // `root`/`rank`: the directory of the rank below that of the dump. Nothing is made before something is written.
  // `is_limited`: by max_overhead, so that tensors will be missing in many steps.
  SummaryWriter(std::filesystem::path root, std::filesystem::path rank, bool is_limited = false);

  // The number of a new series; nothing if there are kMostSummarySeries, which the summary then says.
  std::optional<std::uint32_t> series(SummarySeries series);
  // The step before is over. Its number is greater than that of the step before, or the next one is taken.
  Status begin_step(std::uint64_t step);
  // Of several of one step the worst one counts.
  Status add(std::uint32_t series, const Statistics& statistics);
  Status close();  // ends the step

  std::uint64_t steps() const { return steps_; }
  std::size_t series_count() const { return is_bad_.size(); }
  bool left_out() const { return left_out_; }
  const std::filesystem::path& directory() const { return path_; }  // empty: nothing was written

 private:
  struct Window {  // one that is not complete
    SummaryRow row;
    std::uint32_t parts = 0;
  };

  Status end_step();
  Status open();
  Status open_rows();
  Status make_room();
  Status write_series();
  Status write_row(std::uint32_t level, const SummaryRow& row);
  Status pass_on(std::uint32_t level, const SummaryRow& part);
  Status append_to(Fd& file, const char* name, const std::string& bytes);

  std::filesystem::path root_, rank_, path_;
  Fd directory_, series_file_, events_file_;
  std::optional<SummaryRows> rows_;
  std::vector<Window> windows_;        // by level
  SummaryRow now_;                     // of the step that runs
  std::string new_series_;             // lines that are not yet written
  std::vector<std::uint8_t> is_bad_;   // by series: it was, when it was read last
  std::vector<std::uint16_t> events_;  // by series: written so far
  std::optional<std::uint64_t> step_;
  std::uint64_t steps_ = 0;  // that are over
  bool left_out_ = false;
};

}  // namespace sonde
