// HostNames: which operator of a graph file an operator of the dump is. Most have one name in both; some were made anew
// after they got the name that tensor files are called by, and have another number in the graph (docs/format.md).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "catalog/catalog.h"
#include "graph/host_graph.h"

namespace sonde {

class HostNames {
 public:
  // `steps`: all of the graph, in the order of the run. `order`: names of the graph's ops in the order in which they run
  // first; empty when it is not known. Gives ops of a dump without a journal the graph's spelling of their names.
  HostNames(const HostGraph& graph, const std::vector<std::string>& order, const CatalogRank& rank,
            const std::vector<CatalogStep*>& steps, TextPool& texts);

  // Index in the graph; none for an op that it does not have, and for one of several that cannot be told apart.
  std::optional<std::uint32_t> find(std::string_view op_name) const;

  // Whether the dump may call this op of the graph by another name, and another op by this one's.
  bool is_uncertain(std::uint32_t op) const { return uncertain_.contains(op); }

  // Of those that cannot be told apart, what they have in common: by name in the dump.
  const std::unordered_map<std::string_view, HostOp>& common() const { return common_; }

 private:
  struct Group;
  void name_ops(const std::vector<CatalogStep*>& steps, TextPool& texts) const;
  std::vector<Group> groups_of(const std::vector<CatalogStep*>& steps, const std::vector<std::string>& order) const;
  void match(Group& group);
  void add_common(const Group& group);

  const HostGraph& graph_;
  const CatalogRank& rank_;
  std::unordered_map<std::string_view, std::uint32_t> by_name_;
  std::unordered_map<std::string_view, std::uint32_t> made_anew_;  // name in the dump -> graph
  std::unordered_map<std::string_view, HostOp> common_;
  std::unordered_set<std::uint32_t> uncertain_;
};

}  // namespace sonde
