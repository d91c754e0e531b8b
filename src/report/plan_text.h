// A plan in plain words.
#pragma once

#include <string>

#include "config/plan.h"

namespace sonde {

// Several lines, for `sonde check`.
std::string describe(const Plan& plan);

}  // namespace sonde
