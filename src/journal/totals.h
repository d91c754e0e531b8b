// The totals of a run so far.
#pragma once

#include <cstdint>

namespace sonde {

struct Totals {
  std::uint64_t steps = 0, ops = 0, tensors = 0, files = 0, rows = 0;
  std::uint64_t bytes_read = 0;     // of the host's tensors: what is known to be equal is read once
  std::uint64_t bytes_written = 0;  // tensor bytes that reached a file (links not counted), and rows of tables
  std::uint64_t bytes_dropped = 0;
  std::uint64_t records_dropped = 0;  // the disk could not follow, and the plan says not to wait for it
  bool nothing_chosen = false;        // of the ops that ran, by the names in the plan
};

}  // namespace sonde
