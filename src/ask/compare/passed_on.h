// Collectives that only pass on what another rank gave: they are not to blame.
#pragma once

#include "ask/compare/compare.h"

namespace sonde {

// Such findings go, and their ops only propagate: another rank has a finding of its own in that step or before, or what
// the ranks gave to the call differs as much as what it returns.
void leave_passed_on_out(DumpComparison& comparison);

}  // namespace sonde
