// The totals of a run so far.
#pragma once

#include <cstdint>

namespace sonde {

struct Totals {
  std::uint64_t steps = 0, ops = 0, tensors = 0, files = 0, rows = 0;
  std::uint64_t bytes_read = 0;     // of the host's tensors; known equal tensors are read once
  std::uint64_t bytes_written = 0;  // tensor bytes that reached a file (without links), and rows of tables
  std::uint64_t bytes_dropped = 0;
  std::uint64_t records_dropped = 0;  // the disk could not keep up, and the plan does not allow waiting for it
  bool nothing_chosen = false;        // the names in the plan selected none of the ops that ran
};

}  // namespace sonde
