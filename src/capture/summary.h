// The closing line of a session: what was recorded and where, or why nothing was.
#pragma once

#include <cstdint>
#include <string>

#include "capture/named_host.h"
#include "capture/op_recorder.h"
#include "capture/step_clock.h"
#include "config/plan.h"
#include "journal/record.h"
#include "journal/totals.h"

namespace sonde {

// What there is to say something about, when a session has ended. Borrows all of it.
struct SessionEnd {
  const Plan& plan;
  const RunInfo& run;
  const StepClock& clock;
  const NamedHost& named_host;
  const OpRecorder& ops;
  const Totals& totals;
  std::string failure;     // that the user has not been told; empty: none
  std::string found_line;  // of the operator that a mode found, as the host's own graph knows it
  bool failed = false;
  bool excluded = false;     // this device is not in support_device
  bool named_owner = false;  // the dump is the naming host's
  bool other_host = false;   // another host would have recorded, too
};

std::string closing_line(const SessionEnd& end);

}  // namespace sonde
