// LateReading: the elements of a tensor on a device, which the host reads while the program goes on. All records of one
// content share it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "dump/journal/block.h"
#include "ground/stats/statistics.h"
#include "sonde/dtype.h"

namespace sonde {

struct HashTexts;

struct LateReading {
  // Set before the read begins.
  DType dtype = DType::undefined;
  std::int64_t elements = 0;
  bool is_hashed = false;
  BlockPtr bytes;  // where they will be, in C order; null: they are not read

  // The members below are complete when it is true. Until then only the thread that delivers them uses them, afterwards
  // only the one that settles them (writer/late_tensors.h).
  std::atomic<bool> arrived{false};
  const char* failed = nullptr;  // static text: why something that was wanted is not there
  bool has_bytes = false;
  bool has_statistics = false;  // computed on the device, or from the bytes
  Statistics statistics;

  bool handed_on = false;  // a record that wants it went to the writer; under the session's lock
  bool settled = false;
  std::shared_ptr<HashTexts> hashes;
};

}  // namespace sonde
