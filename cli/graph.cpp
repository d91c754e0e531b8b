#include "graph.h"

#include <fmt/format.h>

#include <memory>
#include <numeric>
#include <optional>

#include "dump.h"
#include "face/report/graph.h"
#include "face/report/text.h"
#include "read/catalog/step_graph.h"
#include "read/measure/find_flow.h"
#include "read/measure/measure.h"

namespace sonde {
namespace {

struct GraphOptions : DumpOptions {
  std::string op;
  bool dot = false;
  std::optional<std::uint32_t> distance;  // 1 if not given
};

// The step to show: the first chosen one; a note says so if there are more.
const SelectedStep& step_of(const std::vector<SelectedStep>& steps) {
  const SelectedStep& step = steps[0];
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

void answer(const SelectedStep& step, const StepGraph& graph, const std::vector<std::uint32_t>& nodes) {
  Answer::get().add({{"rank", step.rank->rank}, {"graph", step.step->id.graph}, {"step", step.step->id.number}});
  Answer::get().add(json_of(graph, nodes));
}

std::string pages(const SelectedStep& step, const StepGraph& graph, const std::vector<std::uint32_t>& nodes) {
  SourceTexts sources = sources_of(*step.rank);
  std::string text;
  for (const std::uint32_t node : nodes) text += (text.empty() ? "" : "\n") + page_of(graph, node, sources);
  return text;
}

int graph(const GraphOptions& options) {
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
  const SelectedStep& step = step_of(*steps);
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
  if (options.json) {
    answer(step, whole, nodes);
    return kNothingFound;
  }
  const std::string text = options.dot ? dot_of(whole, nodes)
                           : one_page  ? pages(step, whole, nodes)
                                       : table_of(whole, nodes, terminal_width());
  return print_text(text) ? kNothingFound : kUnreadable;
}

}  // namespace

void add_graph(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<GraphOptions>();
  CLI::App* verb = app.add_subcommand("graph", "Show the inputs and the readers of an op, or all ops of a step.");
  add_dump_options(*verb, *options, false);
  verb->add_option("OP", options->op, "an op's full name or its end, or a pattern; without it, the whole step")
      ->type_name("");
  verb->add_flag("--dot", options->dot, "print Graphviz's language, for `dot -Tsvg`")->excludes("--json");
  verb->add_option("--distance", options->distance,
                   "with OP and --dot or --json: neighbours up to this number of ops away (default: 1)")
      ->check(CLI::Range(0, 1 << 30).description(""))
      ->type_name("N");
  verb->footer(
      "Exit status: 0 shown, 2 bad usage or no such op, 3 dump unreadable.\n"
      "Example: sonde graph run7 'features/0-Conv2d/conv2d-op0'\n"
      "         sonde graph run7 '**/fc-Linear/*' --dot --distance 3 | dot -Tsvg > fc.svg");
  verb->callback([options, &exit_status] { exit_status = graph(*options); });
}

}  // namespace sonde
