// Op: one operator of the host in flight, from its begin to its end.
#pragma once

#include <cstdint>
#include <vector>

#include "capture/modes/snapshot.h"
#include "config/selector.h"
#include "journal/record.h"

namespace sonde {

class OpRecorder;
class Session;

// It belongs to one thread, or, when it was deferred, to whoever holds it.
struct Op {
  Record record;
  Selector::Wanted wanted;
  bool backward = false;
  bool deferred = false;  // op_defer gave it
  std::vector<Snapshot> before;
  Session* session = nullptr;
  OpRecorder* recorder = nullptr;  // of the beginning that it belongs to
};

// Of this thread of the host: 0 the first that was seen.
std::uint16_t thread_ordinal();

}  // namespace sonde
