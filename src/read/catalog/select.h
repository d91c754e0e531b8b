// Glob: selects names by a pattern.
#pragma once

#include <string_view>

#include "plan/config/plan.h"
#include "sonde/result.h"

namespace sonde {

// `*` is any text within one part of a name, `**` any text including `/`, `?` one character within a part; other
// characters match themselves, case-sensitive. Takes time proportional to pattern times name, whatever the pattern.
bool glob_matches(std::string_view pattern, std::string_view name);

// True if a pattern of the command line means this op: it is matched against the full name and the op
// type and, if it has no `/`, also against the last part of the name.
bool selects(std::string_view pattern, std::string_view op_name, std::string_view op_type);

// "3", "0-5", "1|4": the syntax of StepSet::parse.
bool is_step_list(std::string_view text);
// The numbers of such a list; fails on another text. `what` begins the message: "steps 'b': expected a list …".
Result<StepSet> parse_step_list(std::string_view what, std::string_view text);

}  // namespace sonde
