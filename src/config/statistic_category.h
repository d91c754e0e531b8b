// The key `statistic_category`: which columns statistic.csv has, in which order.
#pragma once

#include <string>

#include "config/json.h"
#include "config/plan.h"

namespace sonde {
class Diagnostics;

// Sets plan.statistic_category when plan.saved_data asks for statistics; words that nobody knows
// are then errors, and repetitions are dropped. Otherwise MindSpore does not look at the key, so
// what is wrong in it is a warning.
void read_statistic_category(const JsonMember& member, const std::string& path, Plan& plan, Diagnostics& diagnostics);

}  // namespace sonde
