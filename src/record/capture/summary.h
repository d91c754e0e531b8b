// The closing line of a session: the recorded content and its directory, or the reason why nothing was recorded.
#pragma once

#include <string>

#include "dump/journal/record.h"
#include "dump/journal/totals.h"
#include "plan/config/plan.h"
#include "record/capture/named_host.h"
#include "record/capture/op_recorder.h"
#include "record/capture/step_clock.h"

namespace sonde {

// The facts for the line at the end of a session. Borrows all of them.
struct SessionEnd {
  const Plan& plan;
  const RunInfo& run;
  const StepClock& clock;
  const NamedHost& named_host;
  const OpRecorder& ops;
  const Totals& totals;
  std::string failure;     // not yet reported to the user; empty: none
  std::string found_line;  // of the operator that a mode found, from the host's own graph
  bool failed = false;
  bool excluded = false;         // this device is not in support_device
  bool children_record = false;  // and this process ran no model
  bool named_owner = false;      // the naming host owns the dump
  bool other_host = false;       // another host wanted to record too
};

std::string closing_line(const SessionEnd& end) REQUIRES(session_lock);

// Says for the journal how much the ring keeps and when it is written. `signals`: those that were taken.
std::string ring_line(const Plan& plan, const std::string& signals);

}  // namespace sonde
