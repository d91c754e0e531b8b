// Glob: which names a pattern selects.
#pragma once

#include <string>
#include <string_view>

namespace sonde {

// `*` is any text within one part of a name, `**` any text, `/` included, `?` one character within a part; all else is
// itself, case counts. Takes time in proportion to pattern times name, whatever the pattern.
bool glob_matches(std::string_view pattern, std::string_view name);

// Whether a pattern of the command line means this op: it is held against the full name and the op
// type and, when it has no `/`, against the last part of the name too.
bool selects(std::string_view pattern, std::string_view op_name, std::string_view op_type);

// "3", "0-5", "1|4": what IterationSet::parse takes.
bool is_step_list(std::string_view text);

}  // namespace sonde
