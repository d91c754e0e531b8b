// The graph of one step of a dump, whose edges are those of DataFlow, and where its source lines are kept.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dump/graph/graph.h"
#include "dump/graph/source_text.h"
#include "read/catalog/catalog.h"

namespace sonde {

// An edge along which a tensor flows.
struct Edge {
  std::uint32_t from = 0, from_slot = 0;  // node and its output
  std::uint32_t to = 0, to_slot = 0;      // node and its input
  bool from_parameter = false;            // then `from` is one of the graph's parameters
};

// `graph.nodes[i]` is `ops[i]`.
struct StepGraph {
  Graph graph;
  std::vector<const CatalogOp*> ops;
  std::vector<Edge> edges;                           // in the order of the readers
  std::vector<std::vector<std::uint32_t>> incoming;  // of a node: into `edges`
  std::vector<std::vector<std::uint32_t>> outgoing;  // of a node: its readers
};

StepGraph graph_of(const CatalogRank& rank, const CatalogStep& step);

// The nodes that a user means by `text`: the op with this full name, else those whose name ends with `/text` or that the
// pattern selects (select.h).
std::vector<std::uint32_t> nodes_meant(const StepGraph& graph, const std::string& text);

// Nodes at most `distance` edges away from `nodes`, including these, in the order of the run.
std::vector<std::uint32_t> neighbourhood(const StepGraph& graph, std::vector<std::uint32_t> nodes,
                                         std::uint32_t distance);

// Sources at the time of the dump: the copies kept in it, else the lines quoted in the host's graph files.
SourceTexts sources_of(const CatalogRank& rank);

}  // namespace sonde
