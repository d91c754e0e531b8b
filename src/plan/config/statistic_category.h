// The key `statistic_category`: the columns of statistic.csv and their order.
#pragma once

#include <string>

#include "plan/config/json.h"
#include "plan/config/plan.h"

namespace sonde {
class Diagnostics;

// Sets plan.statistic_category if plan.saved_data asks for statistics; unknown words are then
// errors, and repetitions are dropped. Otherwise MindSpore ignores the key, so errors in it
// become warnings.
void read_statistic_category(const JsonMember& member, const std::string& path, Plan& plan, Diagnostics& diagnostics);

}  // namespace sonde
