#include "read/catalog/host_names.h"

#include <algorithm>

#include "dump/formats/file_names.h"
#include "dump/graph/execution_order.h"

namespace sonde {
namespace {

std::vector<SourceLine> common_trace(const std::vector<SourceLine>& a, const std::vector<SourceLine>& b) {
  std::size_t same = 0;
  while (same < a.size() && same < b.size() && a[same] == b[same]) ++same;
  return {a.begin(), a.begin() + static_cast<std::ptrdiff_t>(same)};
}

}  // namespace

HostNames::HostNames(const HostGraph& graph, const std::vector<std::string>& order, const CatalogRank& rank,
                     const std::vector<CatalogStep*>& steps, TextPool& texts)
    : graph_(graph) {
  for (std::uint32_t i = 0; i < graph.ops.size(); ++i) by_name_.emplace(graph.ops[i].op_name, i);
  if (!rank.has_journal) name_ops(steps, texts);
  HostMatching matching(graph, order, rank, steps);
  found_ = matching.found();
  for (const auto& [name, op] : found_) {
    if (graph.ops[op].op_name != name) uncertain_.insert(op);
  }
  for (const HostMatching::Stem& stem : matching.stems()) {
    if (stem.names.empty()) continue;
    uncertain_.insert(stem.ops.begin(), stem.ops.end());
    if (stem.names.size() <= stem.ops.size()) add_common(matching, stem);
  }
  const HostMatching::Contradictions contradictions = matching.contradictions();
  // A unique name of another size is a remark: it may be the graph of another batch, with the same edges.
  is_lost_ = contradictions.unknown > 0;
  if (contradictions.unknown > 0) {
    doubt_ = std::to_string(contradictions.unknown) +
             " operators, or their neighbours, have other sizes than any of this name in the graph";
  } else if (contradictions.differ > 0) {
    doubt_ = std::to_string(contradictions.differ) + " of " + std::to_string(contradictions.checked) +
             " operators that were checked have other sizes than in the graph";
  }
}

std::optional<std::uint32_t> HostNames::find(std::string_view op_name) const {
  const auto found = found_.find(op_name);
  return found == found_.end() ? std::nullopt : std::optional(found->second);
}

// Names of files have `_` for `/`, and dots.
void HostNames::name_ops(const std::vector<CatalogStep*>& steps, TextPool& texts) const {
  std::unordered_map<std::string, std::string_view> stems, parameters;
  for (const HostOp& op : graph_.ops) {
    std::string_view stem;
    std::uint64_t number = 0;
    if (split_number(op.op_name, stem, number)) stems.emplace(sanitised(stem), stem);
  }
  for (const std::string& parameter : graph_.parameters) parameters.emplace(sanitised(parameter), parameter);
  const auto name = [&](CatalogOp& op) {
    std::string_view stem;
    std::uint64_t number = 0;
    if (op.is_parameter) {
      const auto found = parameters.find(sanitised(op.op_name));
      if (found != parameters.end()) op.op_name = texts.keep(found->second);
    } else if (!by_name_.contains(op.op_name) && split_number(op.op_name, stem, number)) {
      const auto found = stems.find(sanitised(stem));
      if (found == stems.end()) return;
      op.op_name = texts.keep(std::string(found->second) + std::string(op.op_name.substr(stem.size())));
    }
  };
  for (CatalogStep* step : steps) std::ranges::for_each(step->ops, name);
}

void HostNames::add_common(const HostMatching& matching, const HostMatching::Stem& stem) {
  HostOp common = graph_.ops[stem.ops[0]];
  common.op_name.clear();
  for (const std::uint32_t candidate : stem.ops) {
    const HostOp& op = graph_.ops[candidate];
    common.trace = common_trace(common.trace, op.trace);
    if (common.inputs.size() > op.inputs.size()) common.inputs.resize(op.inputs.size());
    for (std::size_t slot = 0; slot < common.inputs.size(); ++slot) {
      if (!(common.inputs[slot] == op.inputs[slot])) common.inputs[slot] = HostInput();
    }
    std::erase_if(common.attributes, [&](const Attribute& attribute) {
      return std::ranges::find(op.attributes, attribute) == op.attributes.end();
    });
  }
  for (const std::size_t name : stem.names) common_.emplace(matching.name(name), common);
}

}  // namespace sonde
