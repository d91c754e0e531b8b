// Op: one operator of the host while it runs, from begin to end.
#pragma once

#include <cstdint>
#include <vector>

#include "dump/journal/record.h"
#include "plan/config/selector.h"
#include "record/capture/modes/overhead.h"
#include "record/capture/modes/snapshot.h"

namespace sonde {

class OpRecorder;
class Session;

// The part that remains the same when an op is deferred.
struct OpFacts {
  Selector::Wanted wanted;
  bool backward = false;
  bool deferred = false;      // returned by op_defer
  Depth depth = Depth::full;  // max_overhead: what is read of it
  Session* session = nullptr;
  OpRecorder* recorder = nullptr;  // the recorder of the beginning that it belongs to
};

// Belongs to one thread or, when deferred, to its current holder.
struct Op : OpFacts {
  Record record;
  std::uint64_t read_nanoseconds = 0, copied_bytes = 0;  // max_overhead: what reading it cost
  std::vector<Snapshot> before;
};

// The host thread: 0 is the first that was seen.
std::uint16_t thread_ordinal();

}  // namespace sonde
