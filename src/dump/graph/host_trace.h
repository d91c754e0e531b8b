// Shared by the readers of `.pb` and `.ir`.
#pragma once

#include <string_view>

#include "dump/graph/host_graph.h"

namespace sonde {

// Reads the comments of one op into its trace, and the text of each line into `lines`.
void add_trace(std::string_view comments, bool outermost_first, HostOp& op, HostLines& lines);

}  // namespace sonde
