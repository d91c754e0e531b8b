// A plan in plain words.
#pragma once

#include <string>

#include "plan/config/plan.h"

namespace sonde {

// Several lines, for `sonde check`.
std::string describe(const Plan& plan);
// The part about memory, disk and time: what a run that never ends is bounded by. Empty if nothing bounds it.
std::string limits(const Plan& plan);

}  // namespace sonde
