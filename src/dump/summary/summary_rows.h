// SummaryRows: the file `rows` of a summary, whose size is bounded however long the run is: for each level the newest
// windows of 10^level steps, in a ring of slots. Form: docs/format.md, "Summaries".
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "dump/summary/summary_cell.h"
#include "ground/files/files.h"
#include "sonde/result.h"

namespace sonde {

inline constexpr std::uint32_t kSummaryLevels = 8;   // the last one has windows of ten million steps
inline constexpr std::uint32_t kSummaryWindow = 10;  // windows of a level make one of the next
inline constexpr std::uint32_t kMostSummarySlots = 100;
// More than kSummaryWindow: then the finer level still has all windows of one that is not complete.
inline constexpr std::uint32_t kLeastSummarySlots = 12;
inline constexpr std::uint64_t kMostSummaryBytes = 48'000'000;  // of the file, for good
inline constexpr std::uint32_t kMostSummarySeries = 5'500;      // at which kLeastSummarySlots fit

// One window: of each series the first step of it in which it was read, and its worst one (is_worse).
struct SummaryRow {
  std::uint64_t first_step = 0;
  std::uint64_t number = 0;          // of the windows of its level, from 0
  std::vector<SummaryCell> samples;  // by series; later ones have no cell
  std::vector<SummaryCell> peaks;    // as many; empty on level 0, where they are the samples
};

// Slots of a level that a file for so many series has.
std::uint32_t summary_slots(std::uint32_t capacity);

class SummaryRows {
 public:
  // `name` must not exist in the open `directory`, whose path is for messages.
  static Result<SummaryRows> create(int directory, const std::filesystem::path& path, const char* name,
                                    std::uint32_t capacity);
  // Any bytes: fails as `corrupt` if it is not such a file.
  static Result<SummaryRows> open(const std::filesystem::path& file);

  std::uint32_t capacity() const { return capacity_; }
  // The row takes the place of an older one. Until it is complete, and after a failure, neither is valid.
  Status write(std::uint32_t level, const SummaryRow& row);
  // The valid rows of a level, by number.
  std::vector<SummaryRow> read(std::uint32_t level) const;

 private:
  SummaryRows(Fd file, std::filesystem::path path, std::uint32_t capacity, std::uint32_t slots)
      : file_(std::move(file)), path_(std::move(path)), capacity_(capacity), slots_(slots) {}
  std::size_t row_bytes(std::uint32_t level) const;
  std::uint64_t offset_of(std::uint32_t level, std::uint64_t number) const;

  Fd file_;
  std::filesystem::path path_;
  std::uint32_t capacity_, slots_;
  std::string buffer_;  // of write()
};

}  // namespace sonde
