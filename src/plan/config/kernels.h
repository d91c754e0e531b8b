// The key `kernels`: selects operators by name, by type or by pattern.
#pragma once

#include <string>
#include <vector>

#include "plan/config/json.h"
#include "plan/config/plan.h"

namespace sonde {
class Diagnostics;

// The entries as MindSpore sees them: any JSON value as its text, less quotes and spaces; blank
// ones and repetitions left out. With `used`, patterns are compiled and a bad one is an error;
// without (dump_mode 0 or 2) only the array is checked. `path` is the key for messages, `rules` the release whose rules
// apply to the entries.
std::vector<std::string> read_kernels(const JsonMember& member, const std::string& path, bool used, Release rules,
                                      Diagnostics& diagnostics);

}  // namespace sonde
