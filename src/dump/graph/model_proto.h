// A Graph as MindSpore's `.pb`: message ModelProto of package `debugger`, proto2. The fields: docs/format.md, "Graphs".
#pragma once

#include <string>

#include "dump/graph/graph.h"
#include "dump/graph/source_text.h"

namespace sonde {

// The serialised message. `graph` must come from with_tuples().
std::string model_proto(const Graph& graph, SourceTexts& sources);

}  // namespace sonde
