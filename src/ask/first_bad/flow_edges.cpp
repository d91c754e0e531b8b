#include "ask/first_bad/flow_edges.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "ask/first_bad/flow_facts.h"
#include "dump/formats/free_names.h"

namespace sonde {
namespace {

// For dumps without data flow. A bad input is matched with the latest earlier bad output with the same shape
// and the same counts; for an op without inputs, with the op that ran before it.
void infer_edges(FlowGraph& graph) {
  std::vector<std::uint32_t> bad;  // outputs, in order
  for (std::uint32_t op = 0; op < graph.ops().size(); ++op) {
    for (std::uint32_t i = 0; i < graph.ops()[op].inputs.size(); ++i) {
      const CatalogTensor& tensor = *graph.ops()[op].inputs[i].tensor;
      const Health& wanted = graph.health().of(tensor);
      if (!wanted.bad()) continue;
      const FlowValue& source = graph.values()[graph.ops()[op].inputs[i].value];
      if (source.op != kOutside && source.tensor != nullptr) {
        const Health& made = graph.health().of(*source.tensor);
        if (made.known && (!wanted.nan || made.nan) && (!wanted.inf() || made.inf())) continue;
      }
      const auto same = [&](std::uint32_t value) {
        const CatalogTensor& made = *graph.values()[value].tensor;
        const bool same_shape = !made.has_shape || !tensor.has_shape || made.shape == tensor.shape;
        const bool same_type =
            made.dtype == DType::undefined || tensor.dtype == DType::undefined || made.dtype == tensor.dtype;
        return same_shape && same_type && alike(graph.health().of(made), wanted);
      };
      const auto found = std::find_if(bad.rbegin(), bad.rend(), same);
      if (found == bad.rend()) continue;
      graph.join(op, i, *found);
      graph.set_inferred();
    }
    for (const std::uint32_t value : graph.ops()[op].outputs) {
      if (graph.values()[value].tensor != nullptr && graph.health().of(*graph.values()[value].tensor).bad())
        bad.push_back(value);
    }
  }
  for (std::uint32_t op = 1; op < graph.ops().size(); ++op) {
    if (graph.has_edges() || !graph.ops()[op].inputs.empty() || graph.ops()[op - 1].outputs.empty()) continue;
    const std::uint32_t value = graph.ops()[op - 1].outputs.front();
    graph.add_input(op, {.tensor = graph.values()[value].tensor, .value = value});
  }
}

void add_unsaid_value(FlowGraph& graph, std::uint32_t op, std::uint32_t value) {
  if (graph.values()[value].tensor == nullptr) return;
  graph.add_input(op, {.tensor = graph.values()[value].tensor, .value = value, .is_unsaid = true});
}

void add_unsaid(FlowGraph& graph, std::uint32_t op, std::uint32_t other, bool outputs_too) {
  const std::vector<FlowInput> read = graph.ops()[other].inputs;
  for (FlowInput input : read) {
    if (input.is_unsaid) continue;
    input.is_unsaid = true;
    graph.add_input(op, input);
  }
  if (!outputs_too) return;
  for (const std::uint32_t value : graph.ops()[other].outputs) add_unsaid_value(graph, op, value);
}

// Adds edges that msprobe's records lack. Backward reads the inputs and results of the same forward call; a module
// returns the result of its ops; the gradient of a parameter is computed from the inputs of its module's backward.
void add_unsaid(FlowGraph& graph) {
  std::unordered_map<std::string_view, std::uint32_t> by_name;
  std::unordered_map<std::string_view, std::vector<std::uint32_t>>
      inside;  // by module, of those that ran before its end
  for (std::uint32_t op = 0; op < graph.ops().size(); ++op) {
    if (graph.ops()[op].op->is_module) by_name.emplace(graph.ops()[op].op->op_name, op);
  }
  for (std::uint32_t op = 0; op < graph.ops().size(); ++op) {
    const std::string_view op_name = graph.ops()[op].op->op_name;
    MsprobeName name;
    if (!parse_msprobe_name(op_name, name)) continue;
    by_name.emplace(op_name, op);
    if (name.is_gradient) {
      const std::string module(op_name.substr(0, op_name.rfind(".parameters_grad")));
      for (std::uint64_t call = 0;; ++call) {
        const auto backward = by_name.find(fmt::format("{}.backward.{}", module, call));
        if (backward == by_name.end()) break;
        add_unsaid(graph, op, backward->second, false);
      }
    } else if (name.is_backward) {
      std::string forward(op_name);
      if (const std::size_t at = forward.rfind(".backward"); at != std::string::npos)
        forward.replace(at, 9, ".forward");
      if (const auto found = by_name.find(forward); found != by_name.end()) add_unsaid(graph, op, found->second, true);
    }
    for (const std::uint32_t part : inside[op_name]) {
      for (const std::uint32_t value : graph.ops()[part].outputs) add_unsaid_value(graph, op, value);
    }
    if (!graph.ops()[op].op->parent.empty()) inside[graph.ops()[op].op->parent].push_back(op);
  }
}

// Whether a reader of this memory with this shape reads exactly these elements. If the memory was last written in
// place, that may have been in another part of it.
bool covers(const FlowGraph& graph, std::uint32_t index, const CatalogTensor& read) {
  for (std::size_t depth = 0; depth < kLongestPath; ++depth) {
    const FlowValue& value = graph.values()[index];
    if (value.op == kOutside) return !value.tensor->parameter.empty();
    if (value.tensor == nullptr || !value.tensor->has_shape || value.tensor->shape != read.shape) return false;
    const OpNature& nature = graph.ops()[value.op].nature;
    if (!nature.in_place) return depth == 0 || !nature.only_moves;
    const std::optional<std::uint32_t> before = graph.older(index);
    if (!before) return false;
    index = *before;
  }
  return false;
}

// It has all kinds of bad values that were seen.
bool explains(const Health& made, const Health& seen) {
  return made.known && (!seen.nan || made.nan) && (!seen.inf() || made.inf());
}

// The writer of the bad values that an op reads in memory whose last writer wrote another view of it.
struct EarlierSource {
  std::optional<std::uint32_t> value;      // nothing: from outside
  std::vector<std::uint32_t> other_parts;  // no value has all of them: older ones that together with it do
};

EarlierSource source_before(const FlowGraph& graph, std::uint32_t last, const Health& seen) {
  std::optional<std::uint32_t> at = last;
  std::vector<std::uint32_t> bad;
  Health parts;
  for (std::size_t depth = 0; at && depth <= kLongestPath; ++depth) {
    const FlowValue& value = graph.values()[*at];
    if (value.op == kOutside || graph.ops()[value.op].nature.uninitialised) break;
    const Health health = value.tensor != nullptr ? graph.health().of(*value.tensor) : Health();
    if (explains(health, seen)) return {at, {}};
    if (health.known && health.bad()) {
      parts.add(health);
      bad.push_back(*at);
    }
    at = graph.older(*at);
  }
  return explains(parts, seen) ? EarlierSource{bad.front(), {bad.begin() + 1, bad.end()}} : EarlierSource{at, {}};
}

// An input comes from the last writer of its memory. If that was another view of it, the data is from an earlier op, or
// from several: gradients in a bucket.
void look_behind_views(FlowGraph& graph) {
  for (std::uint32_t op = 0; op < graph.ops().size(); ++op) {
    for (std::uint32_t i = 0; i < graph.ops()[op].inputs.size(); ++i) {
      const FlowInput& input = graph.ops()[op].inputs[i];
      const Health& seen = graph.health().of(*input.tensor);
      const FlowValue& source = graph.values()[input.value];
      if (!seen.bad() || source.op == kOutside || source.tensor == nullptr) continue;
      const Health& made = graph.health().of(*source.tensor);
      if (!made.known || explains(made, seen) || covers(graph, input.value, *input.tensor)) continue;
      const EarlierSource before = source_before(graph, input.value, seen);
      const bool is_in_parts = !before.other_parts.empty();
      graph.join(op, i, before.value ? *before.value : graph.outside_value(*input.tensor), is_in_parts);
      for (const std::uint32_t part : before.other_parts) add_unsaid_value(graph, op, part);
    }
  }
}

}  // namespace

FlowGraph flow_graph_of(const CatalogRank& rank, std::size_t step, HealthReader& health, bool only_overflows) {
  const std::vector<CatalogStep>& steps = rank.steps;
  FlowGraph graph(rank, health, only_overflows);
  graph.add_step(steps[step], false);
  // Edges that other tools' graphs lack, or assign to another step, are inferred too.
  if (!graph.has_edges() || !rank.has_journal || steps[step].is_mended) infer_edges(graph);
  const bool has_next = step + 1 < steps.size() && steps[step + 1].run == steps[step].run;
  if (graph.has_edges() && rank.has_journal && has_next) graph.add_step(steps[step + 1], true);
  if (!rank.has_journal) add_unsaid(graph);
  look_behind_views(graph);
  return graph;
}

}  // namespace sonde
