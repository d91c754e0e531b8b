#include "face/report/graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "face/report/finding.h"
#include "face/report/table.h"
#include "face/report/text.h"

namespace sonde {
namespace {

std::string_view dtype_text(const ValueType& type) {
  return type.dtype == DType::undefined ? "?" : info(type.dtype).lower;
}

std::string type_text(const ValueType& type) {
  if (!type.is_tensor) return "None";
  if (!type.has_shape) return fmt::format("{} ?", dtype_text(type));
  return fmt::format("{} ({})", dtype_text(type), fmt::join(type.shape, ","));
}

bool is_inner(const Graph& graph, const Operand& operand) {
  return operand.slot >= graph.nodes[operand.index].outputs.size();
}

// The source of an input: another op's output, a parameter, a number.
std::string origin_text(const Graph& graph, const Operand& operand) {
  switch (operand.kind) {
    case Operand::Kind::node:
      return is_inner(graph, operand) ? fmt::format("the inside of {}", graph.nodes[operand.index].op_name)
                                      : fmt::format("{}:output.{}", graph.nodes[operand.index].op_name, operand.slot);
    case Operand::Kind::parameter:
      return graph.parameters[operand.index].name;
    case Operand::Kind::constant:
      return fmt::format("{}", operand.value);
    case Operand::Kind::none:
      break;
  }
  return "None";
}

std::string short_origin(const Graph& graph, const Operand& operand) {
  if (operand.kind != Operand::Kind::node) return origin_text(graph, operand);
  const std::string slot = operand.slot == 0 || is_inner(graph, operand) ? "" : fmt::format(".{}", operand.slot);
  return fmt::format("#{}{}", operand.index, slot);
}

std::string attributes_text(const GraphNode& node) {
  std::vector<std::string> texts;
  for (const Attribute& attribute : node.attributes) {
    if (attribute.kind != AttributeKind::none) texts.push_back(attribute.name + "=" + words_of(attribute));
  }
  return joined(texts, "  ");
}

// As a text of DOT, without its quotes.
std::string dot_text(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

// The scope without the beginning that all names share, and without its number: "features/0-Conv2d".
std::string short_scope(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  std::string_view scope = slash == std::string_view::npos ? std::string_view() : name.substr(0, slash);
  for (const std::string_view prefix : {"Gradients/", "Default/", "recompute/"}) {
    if (scope.starts_with(prefix)) scope.remove_prefix(prefix.size());
  }
  if (scope.starts_with("network")) {
    const std::size_t next = scope.find('/');
    scope = next == std::string_view::npos ? std::string_view() : scope.substr(next + 1);
  }
  return std::string(scope == "Default" || scope == "Gradients" ? std::string_view() : scope);
}

std::string_view color_of(Phase phase) {
  switch (phase) {
    case Phase::backward:
      return "#f8d7c4";
    case Phase::optimizer:
      return "#d9ead3";
    case Phase::recompute:
      return "#fff2cc";
    case Phase::outside:
      return "#eeeeee";
    case Phase::forward:
      break;
  }
  return "#cfe2f3";
}

std::string dot_node(const StepGraph& graph, std::uint32_t node) {
  const GraphNode& op = graph.graph.nodes[node];
  std::string label = dot_text(op.op_type);
  for (const std::string& more : {short_scope(op.op_name), source_text(*graph.ops[node])}) {
    if (!more.empty()) label += "\\n" + dot_text(more);
  }
  return fmt::format("  n{} [label=\"{}\", fillcolor=\"{}\", tooltip=\"{}\"];\n", node, label,
                     color_of(graph.ops[node]->phase), dot_text(op.op_name));
}

Json attribute_json(const Attribute& attribute) {
  switch (attribute.kind) {
    case AttributeKind::none:
      return {};
    case AttributeKind::boolean:
      return attribute.integers.at(0) != 0;
    case AttributeKind::integer:
      return attribute.integers.at(0);
    case AttributeKind::real:
      return json_of(attribute.reals.at(0));
    case AttributeKind::text:
      return attribute.text;
    default:
      break;
  }
  Json list = Json::array();
  for (const std::int64_t value : attribute.integers) {
    list.push_back(attribute.kind == AttributeKind::booleans ? Json(value != 0) : Json(value));
  }
  for (const double value : attribute.reals) list.push_back(json_of(value));
  return list;
}

std::optional<FlowType> flow_type(const ValueType& type) {
  if (!type.is_tensor) return std::nullopt;
  FlowType flow{std::string(dtype_text(type)), std::nullopt, {}};
  if (type.has_shape) flow.shape.emplace(type.shape.begin(), type.shape.end());
  return flow;
}

FlowRead flow_input(const Graph& graph, const Operand& operand) {
  FlowRead input;
  input.type = flow_type(operand.type);
  if (operand.kind == Operand::Kind::node) {
    input.op_name = graph.nodes[operand.index].op_name;
    input.is_inner = is_inner(graph, operand);
    if (!input.is_inner) input.slot = operand.slot;
  }
  if (operand.kind == Operand::Kind::parameter) input.parameter = graph.parameters[operand.index].name;
  if (operand.kind == Operand::Kind::constant) input.constant = operand.value;
  return input;
}

void add_placements(const CatalogOp& op, FlowNode& flow) {
  for (const CatalogTensor& tensor : op.tensors) {
    if (tensor.placement.empty()) continue;
    std::optional<FlowType>* type = nullptr;
    if (tensor.is_input && tensor.slot < flow.inputs.size()) type = &flow.inputs[tensor.slot].type;
    if (!tensor.is_input && tensor.slot < flow.outputs.size()) type = &flow.outputs[tensor.slot];
    if (type != nullptr && *type) (*type)->placement = std::string(tensor.placement);
  }
}

FlowNode flow_op(const StepGraph& graph, std::uint32_t node) {
  const GraphNode& op = graph.graph.nodes[node];
  const CatalogOp& own = *graph.ops[node];
  FlowNode flow;
  flow.op_name = op.op_name;
  flow.op_type = op.op_type;
  flow.scope = scope_of(own);
  flow.phase = own.phase;
  for (const Operand& input : op.inputs) flow.inputs.push_back(flow_input(graph.graph, input));
  for (const ValueType& output : op.outputs) flow.outputs.push_back(flow_type(output));
  add_placements(own, flow);
  Json attributes = Json::object();
  for (const Attribute& attribute : op.attributes) attributes[attribute.name] = attribute_json(attribute);
  flow.attributes.text = text_of_json(attributes);
  if (own.call_number != 0) flow.call_number = own.call_number;
  flow.source_file = own.source_file;
  flow.source_line = own.line;
  flow.function = own.function;
  for (const SourceLine& line : op.trace) flow.trace.push_back({line.file, line.line, line.function});
  return flow;
}

// "label file:line  text of the line"
std::string call_text(std::string_view label, const SourceLine& line, SourceTexts& sources) {
  std::string_view code = sources.line(line.file, line.line);
  code.remove_prefix(std::min(code.find_first_not_of(" \t"), code.size()));
  return fmt::format("  {:<11} {}:{}  {}\n", label, printable(line.file), line.line, printable(code));
}

std::string source_block(const CatalogOp& op, const GraphNode& node, SourceTexts& sources) {
  if (node.trace.empty()) return "";
  // The lines before the op's own line are calls in the host's sources.
  const auto own = std::ranges::find_if(
      node.trace, [&](const SourceLine& line) { return line.line == op.line && line.file == op.source_file; });
  const std::size_t at = own == node.trace.end() ? 0 : static_cast<std::size_t>(own - node.trace.begin());
  const SourceLine& line = node.trace[at];
  std::string text =
      printable(fmt::format("  {}:{}{}{}", line.file, line.line, line.function.empty() ? "" : " in ", line.function)) +
      "\n";
  const std::uint64_t last = std::uint64_t{line.line} + 1;  // a damaged dump may say any number
  for (std::uint64_t n = line.line > 1 ? line.line - 1 : 1; n <= last; ++n) {
    const std::string_view code = sources.line(line.file, static_cast<std::uint32_t>(n));
    if (!code.empty()) text += code_line(n, code, n == line.line);
  }
  for (std::size_t i = at; i-- > 0;) text += call_text(i + 1 == at ? "calls" : "", node.trace[i], sources);
  for (std::size_t i = at + 1; i < node.trace.size(); ++i) {
    text += call_text(i == at + 1 ? "called from" : "", node.trace[i], sources);
  }
  return text;
}

}  // namespace

std::string table_of(const StepGraph& graph, const std::vector<std::uint32_t>& nodes, std::size_t width) {
  Table table({{"#", Align::right},
               {"op", Align::left, true},
               {"reads", Align::left, true},
               {"shape", Align::left, true, 2},
               {"read by", Align::left, true, 1},
               {"line"}});
  for (const std::uint32_t node : nodes) {
    const GraphNode& op = graph.graph.nodes[node];
    std::vector<std::string> reads, read_by;
    for (const Operand& input : op.inputs) {
      if (input.kind != Operand::Kind::none) reads.push_back(short_origin(graph.graph, input));
    }
    std::set<std::uint32_t> readers;
    for (const std::uint32_t edge : graph.outgoing[node]) readers.insert(graph.edges[edge].to);
    for (const std::uint32_t reader : readers) read_by.push_back(fmt::format("#{}", reader));
    table.add({std::to_string(node), printable(op.op_name), printable(joined(reads, ", ")),
               op.outputs.empty() ? "" : type_text(op.outputs[0]), joined(read_by, ", "),
               source_text(*graph.ops[node])});
  }
  return table.text(width);
}

std::string page_of(const StepGraph& graph, std::uint32_t node, const EarlierWriters& before, SourceTexts& sources) {
  const GraphNode& op = graph.graph.nodes[node];
  std::string text = fmt::format("{}\n", printable(op.op_name));
  text += source_block(*graph.ops[node], op, sources);
  if (const std::string attributes = attributes_text(op); !attributes.empty()) {
    text += fmt::format("  with {}\n", printable(attributes));
  }
  if (const std::uint64_t number = graph.ops[node]->call_number; number != 0) {
    text += fmt::format("  call {} of its group\n", number);
  }
  for (std::size_t slot = 0; slot < op.inputs.size(); ++slot) {
    const Operand& input = op.inputs[slot];
    text += fmt::format("  input.{:<3} {:<24} from {}\n", slot, type_text(input.type),
                        printable(origin_text(graph.graph, input)));
    const auto way = before.find(static_cast<std::uint32_t>(slot));
    if (way == before.end() || input.kind == Operand::Kind::node) continue;
    for (std::size_t i = way->second.size(); i-- > 0;) {
      text += fmt::format("{:36} {} {}\n", "", i + 1 == way->second.size() ? "by  " : "    ",
                          printable(earlier_text(way->second[i])));
    }
  }
  for (std::uint32_t slot = 0; slot < op.outputs.size(); ++slot) {
    const char* word = "to";
    std::string head = fmt::format("  output.{:<2} {:<24}", slot, type_text(op.outputs[slot]));
    bool any = false;
    for (const std::uint32_t index : graph.outgoing[node]) {
      const Edge& edge = graph.edges[index];
      if (edge.from_slot != slot) continue;
      text += fmt::format("{} {:<4} {}:input.{}\n", head, word, printable(graph.graph.nodes[edge.to].op_name),
                          edge.to_slot);
      head = std::string(head.size(), ' ');
      word = "";
      any = true;
    }
    if (!any) text += head + " not read in this step\n";
  }
  for (const std::uint32_t index : graph.outgoing[node]) {
    const Edge& edge = graph.edges[index];
    if (edge.from_slot < op.outputs.size()) continue;
    text += fmt::format("  inside                             to   {}:input.{}\n",
                        printable(graph.graph.nodes[edge.to].op_name), edge.to_slot);
  }
  return text;
}

std::string dot_of(const StepGraph& graph, const std::vector<std::uint32_t>& nodes) {
  std::string text =
      "digraph step {\n  node [shape=box, style=\"filled,rounded\", fontname=\"Helvetica\", fontsize=10];\n"
      "  edge [fontname=\"Helvetica\", fontsize=8];\n";
  std::set<std::uint32_t> shown(nodes.begin(), nodes.end());
  std::set<std::uint32_t> parameters;
  std::string edges;
  for (const std::uint32_t node : nodes) {
    text += dot_node(graph, node);
    for (const std::uint32_t index : graph.incoming[node]) {
      const Edge& edge = graph.edges[index];
      if (!edge.from_parameter && !shown.contains(edge.from)) continue;
      if (edge.from_parameter) parameters.insert(edge.from);
      const ValueType& type = graph.graph.nodes[node].inputs[edge.to_slot].type;
      edges += fmt::format("  {}{} -> n{} [label=\"{}\"];\n", edge.from_parameter ? 'p' : 'n', edge.from, node,
                           fmt::join(type.shape, "×"));
    }
  }
  for (const std::uint32_t parameter : parameters) {
    text += fmt::format("  p{} [label=\"{}\", shape=ellipse, fillcolor=\"#ffffff\"];\n", parameter,
                        dot_text(graph.graph.parameters[parameter].name));
  }
  return text + edges + "}\n";
}

StepFlow answer_of(const StepGraph& graph, const std::vector<std::uint32_t>& nodes) {
  StepFlow answer;
  for (const GraphParameter& parameter : graph.graph.parameters) {
    answer.parameters.push_back({parameter.name, flow_type(parameter.type)});
  }
  for (const std::uint32_t node : nodes) answer.ops.push_back(flow_op(graph, node));
  return answer;
}

}  // namespace sonde
