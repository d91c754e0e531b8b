// The data flow of a step in the forms that `sonde graph` prints.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "face/report/catalog_text.h"
#include "face/report/json.h"
#include "read/catalog/step_graph.h"
#include "sonde/answers.h"

namespace sonde {

// One row per node.
std::string table_of(const StepGraph& graph, const std::vector<std::uint32_t>& nodes, std::size_t width);
// By input slot the way through earlier steps to what it reads.
using EarlierWriters = std::map<std::uint32_t, std::vector<EarlierOp>>;

// One op with its source, its callers, its attributes and its neighbours; also those of earlier steps. With marks (line_kind.h).
std::string page_of(const StepGraph& graph, std::uint32_t node, const EarlierWriters& before, SourceTexts& sources);
// Graphviz: ops as boxes coloured by phase, parameters and input data as ellipses, tensors as arrows.
std::string dot_of(const StepGraph& graph, const std::vector<std::uint32_t>& nodes);
StepFlow answer_of(const StepGraph& graph, const std::vector<std::uint32_t>& nodes);  // without its step

}  // namespace sonde
