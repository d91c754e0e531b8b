// Source lines as MindSpore's graph files contain them: `# In file train.py:8, 15~20/        return a + b/`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ground/model/source_line.h"

namespace sonde {

struct TracedLine {
  SourceLine place;
  std::string text;  // of its first line
};

// Parses one such line, in the form of any version; false for any other text.
bool parse_traced_line(std::string_view line, TracedLine& out);

// The lines of one operator, from all its comments: one per function that was running, innermost first.
// `outermost_first` gives their order. Of several candidates (MindSpore has some for fused operators) the first is
// taken.
std::vector<TracedLine> parse_trace(std::string_view comments, bool outermost_first);

// The innermost line of the user's own program in a trace that is not empty; without one, the innermost line of all.
const SourceLine& users_line(const std::vector<SourceLine>& trace);

}  // namespace sonde
