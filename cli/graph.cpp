#include "face/report/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "dump.h"
#include "face/report/text.h"
#include "read/catalog/step_graph.h"
#include "read/measure/find_flow.h"
#include "read/measure/measure.h"
#include "verbs.h"
#include "way_before.h"

namespace sonde {
namespace {

// The step to show: the first chosen one that has the op; a note says so if there are more.
const SelectedStep& step_of(const std::vector<SelectedStep>& steps, std::string_view op) {
  const auto has_op = [&](const SelectedStep& step) { return find_op(*step.step, op) != nullptr; };
  const auto with_op = op.empty() ? steps.end() : std::ranges::find_if(steps, has_op);
  const SelectedStep& step = with_op == steps.end() ? steps[0] : *with_op;
  if (steps.size() > 1) {
    print_warning(fmt::format("{} steps; showing step {} of graph {}, rank {} (--step, --graph, --rank choose)",
                              steps.size(), step.step->id.number, step.step->id.graph, step.rank->rank));
  }
  return step;
}

// Adds types and shapes that only the files contain. A file that cannot be read has none.
void add_types(const SelectedStep& step) {
  for (CatalogOp* op : step.ops) {
    for (CatalogTensor& tensor : op->tensors) {
      if (tensor.has_shape || tensor.file.empty()) continue;
      static_cast<void>(look_at_file(*step.rank, tensor));
    }
  }
}

std::vector<std::uint32_t> all_nodes(const StepGraph& graph) {
  std::vector<std::uint32_t> nodes(graph.graph.nodes.size());
  std::iota(nodes.begin(), nodes.end(), 0U);
  return nodes;
}

constexpr std::size_t kMostFollowed = 8;  // ops into earlier steps: what nobody writes is looked for in all of them

// By input slot, the way through earlier steps to what the op reads; nothing if many are shown.
EarlierWriters writers_of(const SelectedStep& step, const CatalogOp& op, std::size_t shown, EarlierSteps& steps) {
  EarlierWriters writers;
  if (shown > kMostFollowed) return writers;
  for (const CatalogTensor& tensor : op.tensors) {
    if (!tensor.is_input) continue;
    const WayBefore before = steps.way_to(*step.rank, *step.step, tensor);
    if (!before.ops.empty()) writers[tensor.slot] = before.ops;
  }
  return writers;
}

void answer(const SelectedStep& step, const StepGraph& graph, const std::vector<std::uint32_t>& nodes,
            EarlierSteps& steps) {
  StepFlow flow = answer_of(graph, nodes);
  flow.rank = step.rank->rank;
  flow.graph = step.step->id.graph;
  flow.step = step.step->id.number;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (auto& [slot, way] : writers_of(step, *graph.ops[nodes[i]], nodes.size(), steps)) {
      std::vector<FlowRead>& inputs = flow.ops[i].inputs;
      if (slot < inputs.size() && inputs[slot].op_name.empty()) inputs[slot].before = std::move(way);
    }
  }
  Answer::get().add(flow);
}

std::string pages(const SelectedStep& step, const StepGraph& graph, const std::vector<std::uint32_t>& nodes,
                  EarlierSteps& steps) {
  SourceTexts sources = sources_of(*step.rank);
  std::string text;
  for (const std::uint32_t node : nodes) {
    const EarlierWriters before = writers_of(step, *graph.ops[node], nodes.size(), steps);
    text += (text.empty() ? "" : "\n") + page_of(graph, node, before, sources);
  }
  return text;
}

}  // namespace

int graph(const GraphCommand& options) {
  int status = kNothingFound;
  if (options.distance && (options.op.empty() || !(options.dot || options.json))) {
    print_error("--distance is for the neighbours of an OP, printed with --dot or --json");
    return kBadUsage;
  }
  CatalogQuery query = query_of(options);
  query.first_step_only = true;
  std::optional<Catalog> catalog = open_dump(options, query, status);
  if (!catalog) return status;
  const std::optional<std::vector<SelectedStep>> steps = select_steps(*catalog, options, status);
  if (!steps) return status;
  if (steps->empty()) {
    print_error(fmt::format("no step was recorded in '{}'", options.dump));
    return kUnreadable;
  }
  const SelectedStep& step = step_of(*steps, options.op);
  const FlowKnown flow = find_flow(*step.rank, *step.step);
  if (flow == FlowKnown::by_values) {
    print_warning("this dump records no data flow; edges are inferred from equal values");
  } else if (flow == FlowKnown::not_at_all) {
    print_error(
        fmt::format("'{}' records no data flow: it has neither a journal of Sonde nor MindSpore's own graphs/*.pb, and "
                    "no input equals an earlier output",
                    step.rank->directory.string()));
    return kUnreadable;
  }
  add_types(step);
  const StepGraph whole = graph_of(*step.rank, *step.step);
  std::vector<std::uint32_t> nodes = options.op.empty() ? all_nodes(whole) : nodes_meant(whole, options.op);
  if (nodes.empty()) {
    const std::string near = nearest_ops(*steps, options.op);
    print_error(fmt::format("no op '{}' in step {} of graph {}{}{}", options.op, step.step->id.number,
                            step.step->id.graph, near.empty() ? "" : "; ", near));
    return kBadUsage;
  }
  const bool one_page = !options.op.empty() && !options.dot && !options.json;
  if (!options.op.empty() && !one_page) nodes = neighbourhood(whole, std::move(nodes), options.distance.value_or(1));
  EarlierSteps earlier(*catalog, options.dump);
  if (options.json) {
    answer(step, whole, nodes, earlier);
    return kNothingFound;
  }
  const std::string text = options.dot ? dot_of(whole, nodes)
                           : one_page  ? pages(step, whole, nodes, earlier)
                                       : table_of(whole, nodes, terminal_width());
  return print_text(text) ? kNothingFound : kUnreadable;
}

}  // namespace sonde
