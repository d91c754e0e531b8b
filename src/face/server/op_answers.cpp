// One operator, the graph of its step, and the ways through it.

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "ask/finding/finding.h"
#include "ask/first_bad/flow_facts.h"
#include "contract/served_rows.h"
#include "face/report/catalog_text.h"
#include "face/report/finding.h"
#include "face/server/ask.h"
#include "face/server/op_collective.h"
#include "read/index/index_schema.h"
#include "read/operators/earlier_writer.h"
#include "read/operators/op_nature.h"
#include "read/operators/op_questions.h"

namespace sonde::server {
namespace {

constexpr std::size_t kLongestPath = 10000;
constexpr std::uint32_t kLinesAround = 3;

// Empty: an internal result.
std::optional<std::uint32_t> shown_slot(std::optional<std::uint32_t> slot) {
  return slot == kInnerSlot ? std::nullopt : slot;
}

Slot slot_of(const StepGraph& graph, std::uint32_t node, Side side, std::uint32_t slot) {
  return {.op_name = graph.graph.nodes[node].op_name, .side = side, .slot = shown_slot(slot), .parameter = {}};
}

// The edges at one op: makers of its inputs, and readers of its outputs.
class Neighbours {
 public:
  Neighbours(StepPart& part, std::size_t op) : graph_(part.graph()), node_(part.node_of(op)) {
    name_ = part.step().ops[op].op_name;
  }

  std::optional<Slot> maker_of(const CatalogTensor& tensor) const {
    if (!tensor.is_input || !node_) return std::nullopt;
    for (const std::uint32_t at : graph_.incoming[*node_]) {
      const Edge& edge = graph_.edges[at];
      if (edge.to_slot != tensor.slot) continue;
      if (!edge.from_parameter) return slot_of(graph_, edge.from, Side::output, edge.from_slot);
      return Slot{.op_name = "", .side = Side::output, .slot = 0, .parameter = graph_.graph.parameters[edge.from].name};
    }
    return std::nullopt;
  }

  // Of an input: the others that read the same parameter are left out.
  std::vector<Slot> readers_of(const CatalogTensor& tensor) const {
    std::vector<Slot> readers;
    if (tensor.is_input) return readers;
    if (node_) {
      for (const std::uint32_t at : graph_.outgoing[*node_]) {
        const Edge& edge = graph_.edges[at];
        if (edge.from_slot == tensor.slot) readers.push_back(slot_of(graph_, edge.to, Side::input, edge.to_slot));
      }
      return readers;
    }
    for (const Edge& edge : graph_.edges) {  // of a parameter
      if (edge.from_parameter && graph_.graph.parameters[edge.from].name == name_) {
        readers.push_back(slot_of(graph_, edge.to, Side::input, edge.to_slot));
      }
    }
    return readers;
  }

 private:
  const StepGraph& graph_;
  std::optional<std::uint32_t> node_;
  std::string name_;
};

Evidence evidence_of(const CatalogRank& rank, const CatalogTensor& tensor, bool has_maker) {
  using enum Evidence;
  if (!tensor.is_input) return rank.has_journal ? recorded : rank.has_host_data_flow ? framework_graph : unknown;
  if (!has_maker) return unknown;
  if (tensor.source_is_likely || (!rank.has_journal && !rank.has_host_data_flow)) return equal_values;
  return rank.has_host_data_flow ? framework_graph : recorded;
}

std::vector<CodeLine> stack_of(const CatalogOp& op, SourceTexts& sources) {
  std::vector<CodeLine> stack;
  const auto add = [&](const std::string& file, std::uint32_t line, std::string_view function) {
    stack.push_back({file, line, std::string(function), std::string(sources.line(file, line))});
  };
  if (op.trace != nullptr) {
    for (const SourceLine& line : *op.trace) add(line.file, line.line, line.function);
  } else if (!op.source_file.empty()) {
    add(std::string(op.source_file), op.line, op.function);
  }
  return stack;
}

std::vector<OpAttribute> attributes_of(const CatalogOp& op) {
  std::vector<OpAttribute> list;
  if (op.attributes == nullptr) return list;
  for (const Attribute& attribute : *op.attributes) list.push_back({attribute.name, text_of(attribute)});
  return list;
}

std::vector<std::uint64_t> steps_of(const Facts& facts, const AskedOp& asked) {
  std::set<std::uint64_t> numbers;
  const OpFact& own = facts.ops[asked.op_id];
  for (const std::uint32_t id : facts.ops_named(facts.names[own.name].op_name)) {
    const StepPlaceFact& step = facts.steps[facts.ops[id].step];
    if (step.rank == asked.rank && step.graph == facts.steps[own.step].graph) numbers.insert(step.number);
  }
  return {numbers.begin(), numbers.end()};
}

// The class of each node's outputs, for edges and paths.
State output_state(const Facts& facts, const AskedOp& of, std::uint32_t node) {
  const std::uint64_t first = of.op_id - of.number;
  return facts.ops[first + of.part->op_of(node)].state;
}

const CatalogTensor* first_output(const CatalogOp& op) {
  const auto found = std::ranges::find_if(op.tensors, [](const CatalogTensor& t) { return !t.is_input; });
  return found == op.tensors.end() ? nullptr : &*found;
}

Result<AskedOp> asked_step(Ask& ask, const Facts& facts) {
  const Where where = Where::of(ask.parameters);
  for (std::uint64_t id = 0; id < facts.ops.size(); ++id) {
    const StepPlaceFact& place = facts.steps[facts.ops[id].step];
    const CatalogRank& rank = ask.snapshot->frame().ranks[place.rank];
    if (!where.takes(rank, rank.steps[place.step])) continue;
    Result<std::shared_ptr<StepPart>> part = ask.snapshot->step(place.rank, place.step);
    if (!part) return part.error();
    AskedOp asked;
    asked.part = *part;
    asked.rank = place.rank;
    asked.step = place.step;
    asked.op_id = id;
    return asked;
  }
  return Error{ErrorCode::not_found, "no such step of this rank and graph has ops"};
}

AnswerTable nodes_of(const Facts& facts, const AskedOp& asked) {
  RowTable<ServedNode> nodes;
  const StepGraph& graph = asked.part->graph();
  for (std::uint32_t node = 0; node < graph.ops.size(); ++node) {
    const CatalogOp& op = asked.part->step().ops[asked.part->op_of(node)];
    const CatalogTensor* const output = first_output(op);
    ServedNode row{.node = node,
                   .op_name = std::string(op.op_name),
                   .op_type = std::string(op.op_type),
                   .scope = std::string(scope_of(op)),
                   .phase = op.phase,
                   .source_file = std::string(op.source_file),
                   .source_line = op.line,
                   .function = std::string(op.function),
                   .dtype = output == nullptr ? "?" : dtype_text(*output),
                   .shape = std::nullopt,
                   .l2norm = std::nullopt,
                   .class_ = output_state(facts, asked, node)};
    if (output != nullptr && output->has_shape) row.shape = shape_text(*output);
    if (output != nullptr && output->statistics) row.l2norm = output->statistics->l2norm;
    nodes.add(row);
  }
  return std::move(nodes.table);
}

AnswerTable edges_of(const Facts& facts, const AskedOp& asked) {
  RowTable<ServedEdge> edges;
  const StepGraph& graph = asked.part->graph();
  const auto state_of_input = [&](const Edge& edge) {
    const std::size_t op = asked.part->op_of(edge.to);
    const std::vector<CatalogTensor>& tensors = asked.part->step().ops[op].tensors;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].is_input && tensors[i].slot == edge.to_slot) {
        return facts.tensors[facts.ops[asked.op_id - asked.number + op].first_tensor + i].state;
      }
    }
    return State::not_recorded;
  };
  for (const Edge& edge : graph.edges) {
    ServedEdge row;
    if (edge.from_parameter) {
      row.parameter = graph.graph.parameters[edge.from].name;
    } else {
      row.from_node = edge.from;
      if (edge.from_slot != kInnerSlot) row.from_slot = edge.from_slot;
    }
    row.to_node = edge.to;
    row.to_slot = edge.to_slot;
    row.class_ = state_of_input(edge);
    edges.add(row);
  }
  return std::move(edges.table);
}

// A station of a path: a node, and the edges by which the path comes and goes.
struct Station {
  std::uint32_t node = 0;
  std::optional<std::uint32_t> input, output;
};

bool is_bad(State state) { return state > State::not_measured; }

// The tensor from which a path starts; without one, from the whole op.
struct Start {
  bool is_input = false;
  std::optional<std::uint32_t> slot;
  // Whether the path may leave the first op by this end of an edge.
  bool takes(bool of_input, std::uint32_t edge_slot) const {
    return !slot || is_input != of_input || edge_slot == kInnerSlot || edge_slot == *slot;
  }
};

// Back along the worst inputs, until nothing bad comes in; of a healthy tensor along the first inputs.
std::vector<Station> causes(const Facts& facts, const AskedOp& asked, std::uint32_t node, const Start& start,
                            std::string& reaches) {
  const StepGraph& graph = asked.part->graph();
  const auto state = [&](std::uint32_t of) { return output_state(facts, asked, of); };
  const bool follow_bad = is_bad(state(node));
  std::vector<Station> stations = {{node, {}, {}}};
  if (start.is_input) stations[0].input = start.slot;
  std::set<std::uint32_t> seen = {node};
  while (stations.size() < kLongestPath) {
    const Edge* best = nullptr;
    reaches = "";
    for (const std::uint32_t at : graph.incoming[stations.back().node]) {
      const Edge& edge = graph.edges[at];
      if (stations.size() == 1 && !start.takes(true, edge.to_slot)) continue;
      if (edge.from_parameter) {
        if (reaches.empty()) reaches = graph.graph.parameters[edge.from].name;
      } else if (!seen.contains(edge.from) && (!follow_bad || is_bad(state(edge.from))) &&
                 (best == nullptr || (follow_bad && state(edge.from) > state(best->from)))) {
        best = &edge;
      }
    }
    if (best == nullptr) break;
    stations.back().input = best->to_slot;
    stations.push_back({best->from, {}, best->from_slot});
    seen.insert(best->from);
  }
  if (follow_bad) reaches = "";  // it begins at this op
  std::ranges::reverse(stations);
  return stations;
}

// From here backward begins (docs/first-bad.md).
bool reads_loss(const CatalogOp& op) {
  return begins_backward(op.op_type) && !op.tensors.empty() && is_scalar(&op.tensors[0]);
}

// The shortest way to the loss, else to the optimizer.
std::vector<Station> effects(const AskedOp& asked, std::uint32_t node, const Start& start, std::string& reaches) {
  const StepGraph& graph = asked.part->graph();
  std::vector<const Edge*> came_by(graph.ops.size());
  std::deque<std::uint32_t> open = {node};
  std::optional<std::uint32_t> loss, update;
  std::vector<bool> seen(graph.ops.size());
  seen[node] = true;
  while (!open.empty() && !loss) {
    const std::uint32_t at = open.front();
    open.pop_front();
    const CatalogOp& op = asked.part->step().ops[asked.part->op_of(at)];
    if (op.phase == Phase::optimizer && !update) update = at;
    for (const std::uint32_t edge_number : graph.outgoing[at]) {
      const Edge& edge = graph.edges[edge_number];
      if (at == node && !start.takes(false, edge.from_slot)) continue;
      if (reads_loss(asked.part->step().ops[asked.part->op_of(edge.to)])) loss = at;
      if (seen[edge.to]) continue;
      seen[edge.to] = true;
      came_by[edge.to] = &edge;
      open.push_back(edge.to);
    }
  }
  const std::optional<std::uint32_t> end = loss ? loss : update;
  reaches = loss ? "the loss" : update ? "the optimizer" : "";
  std::vector<Station> stations = {{end.value_or(node), {}, {}}};
  while (stations.back().node != node && came_by[stations.back().node] != nullptr) {
    const Edge& edge = *came_by[stations.back().node];
    stations.back().input = edge.to_slot;
    stations.push_back({edge.from, {}, edge.from_slot});
  }
  std::ranges::reverse(stations);
  return stations;
}

PathOp path_op(const Facts& facts, const AskedOp& asked, const Station& station) {
  const CatalogOp& op = asked.part->step().ops[asked.part->op_of(station.node)];
  const CatalogTensor* tensor = first_output(op);
  for (const CatalogTensor& output : op.tensors) {
    if (!output.is_input && station.output == output.slot) tensor = &output;
  }
  PathOp path{.op_name = std::string(op.op_name),
              .op_type = std::string(op.op_type),
              .phase = op.phase,
              .source_file = std::string(op.source_file),
              .source_line = op.line,
              .input_slot = shown_slot(station.input),
              .output_slot = shown_slot(station.output),
              .class_ = output_state(facts, asked, station.node),
              .tensor = std::nullopt};
  if (tensor != nullptr) path.tensor = listed(asked.of_rank(), asked.part->step(), op, *tensor);
  return path;
}

// An input of the path's first op that comes from before the step: the worst one.
const CatalogTensor* input_from_before(const Facts& facts, const AskedOp& asked, std::uint32_t node) {
  const StepGraph& graph = asked.part->graph();
  const std::size_t number = asked.part->op_of(node);
  const CatalogOp& op = asked.part->step().ops[number];
  const auto is_made_here = [&](const CatalogTensor& tensor) {
    return std::ranges::any_of(graph.incoming[node], [&](std::uint32_t at) {
      return graph.edges[at].to_slot == tensor.slot && !graph.edges[at].from_parameter;
    });
  };
  const CatalogTensor* worst = nullptr;
  State state = State::not_recorded;
  for (std::size_t i = 0; i < op.tensors.size(); ++i) {
    const CatalogTensor& tensor = op.tensors[i];
    if (!comes_from_before(tensor) || is_made_here(tensor)) continue;
    const State own = facts.tensors[facts.ops[asked.op_id - asked.number + number].first_tensor + i].state;
    if (worst != nullptr && own <= state) continue;
    worst = &tensor;
    state = own;
  }
  const bool is_sick = is_bad(output_state(facts, asked, node));
  return worst != nullptr && is_sick && !is_bad(state) ? nullptr : worst;  // a healthy one causes nothing
}

// The way goes on in earlier steps.
void follow_before(Ask& ask, const Facts& facts, const AskedOp& asked, std::uint32_t node, Path& answer) {
  const CatalogTensor* const input = input_from_before(facts, asked, node);
  if (input == nullptr) return;
  const CatalogRank& rank = ask.snapshot->frame().ranks[asked.rank];
  std::map<std::size_t, std::shared_ptr<StepPart>> read;
  const auto step_at = [&](std::size_t step) -> const CatalogStep* {
    if (!read.contains(step)) {
      const Result<std::shared_ptr<StepPart>> part = ask.snapshot->step(asked.rank, step);
      read[step] = part ? *part : nullptr;
    }
    return read[step] == nullptr ? nullptr : &read[step]->step();
  };
  answer.before = earlier_ops(rank, way_before(rank, asked.step, *input, step_at));
  if (answer.before.empty()) {
    answer.missing = no_writer_text(rank, asked.step, *input);
  } else if (answer.reaches.empty()) {
    answer.reaches = input->parameter;
  }
}

}  // namespace

Result<Response> op(Ask& ask) {
  const Result<std::shared_ptr<const Facts>> facts = ask.snapshot->facts();
  if (!facts) return facts.error();
  const Result<AskedOp> asked = asked_op(ask, **facts);
  if (!asked) return asked.error();
  const CatalogRank& rank = asked->of_rank();
  const CatalogStep& step = asked->part->step();
  const CatalogOp& op = *asked->op;
  SourceTexts sources = sources_of(rank);
  const Neighbours neighbours(*asked->part, asked->number);
  const auto neighbour = [&](std::size_t number) {
    return number < step.ops.size() ? std::optional(std::string(step.ops[number].op_name)) : std::nullopt;
  };
  Op answer{.rank = rank_text(rank),
            .run = step.run,
            .graph = step.id.graph,
            .step = step.id.number,
            .op_name = std::string(op.op_name),
            .op_type = std::string(op.op_type),
            .scope = std::string(scope_of(op)),
            .phase = op.phase,
            .is_parameter = op.is_parameter,
            .failed = op.failed,
            .timestamp_us = op.timestamp_us,
            .class_ = (*facts)->ops[asked->op_id].state,
            .code = code_of(rank, op, sources, kLinesAround),
            .stack = stack_of(op, sources),
            .attributes = attributes_of(op),
            .collective = collective_of(ask, *asked),
            .tensors = {},
            .same_line = {},
            .previous = neighbour(asked->number - 1),
            .next = neighbour(asked->number + 1),
            .steps = steps_of(**facts, *asked)};
  for (std::size_t i = 0; i < op.tensors.size(); ++i) {
    const CatalogTensor& tensor = op.tensors[i];
    std::optional<Slot> maker = neighbours.maker_of(tensor);
    const Evidence evidence = evidence_of(rank, tensor, maker.has_value());
    answer.tensors.push_back({.tensor = listed(rank, step, op, tensor),
                              .class_ = state_of(**facts, *asked, i),
                              .has_values = !tensor.file.empty(),
                              .maker = std::move(maker),
                              .readers = neighbours.readers_of(tensor),
                              .evidence = evidence});
  }
  for (const CatalogOp& other : step.ops) {
    if (op.line != 0 && other.line == op.line && other.source_file == op.source_file) {
      answer.same_line.emplace_back(other.op_name);
    }
  }
  return ask.answer(std::move(answer));
}

Result<Response> graph(Ask& ask) {
  const bool edges = ask.parameters.word("part", "nodes", {"nodes", "edges"}) == "edges";
  const Result<std::shared_ptr<const Facts>> facts = ask.snapshot->facts();
  if (!facts) return facts.error();
  const Result<AskedOp> asked = asked_step(ask, **facts);
  if (Status good = ask.parameters.finish(); !good) return good.error();
  if (!asked) return asked.error();
  const AnswerTable table = edges ? edges_of(**facts, *asked) : nodes_of(**facts, *asked);
  return table.response(ask.request, ask.snapshot->generation());
}

Result<Response> path(Ask& ask) {
  const bool to_cause = ask.parameters.word("direction", "cause", {"cause", "effect"}) == "cause";
  Start start;
  start.is_input = ask.parameters.word("side", "output", {"input", "output"}) == "input";
  if (ask.parameters.text("slot")) start.slot = static_cast<std::uint32_t>(ask.parameters.number("slot", 0, ~0U));
  const Result<std::shared_ptr<const Facts>> facts = ask.snapshot->facts();
  if (!facts) return facts.error();
  const Result<AskedOp> asked = asked_op(ask, **facts);
  if (!asked) return asked.error();
  if (start.slot) {
    const Result<const CatalogTensor*> tensor = tensor_of(*asked->op, start.is_input, *start.slot);
    if (!tensor) return tensor.error();
  }
  asked->part->graph();
  const std::optional<std::uint32_t> node = asked->part->node_of(asked->number);
  Path answer{.direction = to_cause ? Direction::cause : Direction::effect,
              .complete = false,
              .ops = {},
              .reaches = {},
              .before = {},
              .missing = {}};
  std::vector<Station> stations;
  if (node) {
    stations = to_cause ? causes(**facts, *asked, *node, start, answer.reaches)
                        : effects(*asked, *node, start, answer.reaches);
  }
  answer.complete = !asked->part->graph().edges.empty() && stations.size() < kLongestPath;
  for (const Station& station : stations) answer.ops.push_back(path_op(**facts, *asked, station));
  if (to_cause && !stations.empty()) follow_before(ask, **facts, *asked, stations.front().node, answer);
  return ask.answer(std::move(answer));
}

}  // namespace sonde::server
