// HostNames: maps an operator of the dump to one of a graph file. Many have another number in the graph
// (host_matching.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "dump/graph/host_graph.h"
#include "read/catalog/catalog.h"
#include "read/catalog/host_matching.h"

namespace sonde {

class HostNames {
 public:
  // `steps`: all of the graph, in the order of the run. `order`: names of the graph's ops in the order of their first
  // run; empty if unknown. Gives ops of a dump without a journal the graph's spelling of their names.
  HostNames(const HostGraph& graph, const std::vector<std::string>& order, const CatalogRank& rank,
            const std::vector<CatalogStep*>& steps, TextPool& texts);

  // Index in the graph; empty for an op outside it, and for one of several that cannot be distinguished.
  std::optional<std::uint32_t> find(std::string_view op_name) const;

  // Reasons to believe that the graph is not that of the dump; empty: none.
  const std::string& doubt() const { return doubt_; }
  bool is_lost() const { return is_lost_; }

  // True if the dump may use another name for this op of the graph, and this op's name for another op.
  bool is_uncertain(std::uint32_t op) const { return uncertain_.contains(op); }

  // The common facts of ops that cannot be distinguished: by name in the dump.
  const std::unordered_map<std::string_view, HostOp>& common() const { return common_; }

 private:
  void name_ops(const std::vector<CatalogStep*>& steps, TextPool& texts) const;
  void add_common(const HostMatching& matching, const HostMatching::Stem& stem);

  const HostGraph& graph_;
  std::unordered_map<std::string_view, std::uint32_t> by_name_;  // in the graph
  std::unordered_map<std::string_view, std::uint32_t> found_;    // in the dump
  std::unordered_map<std::string_view, HostOp> common_;
  std::unordered_set<std::uint32_t> uncertain_;
  std::string doubt_;
  bool is_lost_ = false;  // operators of the dump were found in no place of the graph
};

}  // namespace sonde
