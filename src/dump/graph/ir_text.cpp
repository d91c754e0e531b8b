#include "dump/graph/ir_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <string_view>

namespace sonde {
namespace {

using Out = fmt::memory_buffer;

template <typename... Args>
void put(Out& out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
}

// "(2, 3)", "[2, 3]", "{2, 3}"
std::string shape_text(const ValueType& type, std::string_view brackets) {
  return fmt::format("{}{}{}", brackets[0], fmt::join(type.shape, ", "), brackets[1]);
}

std::string_view name_of(DType dtype) { return dtype == DType::undefined ? "Unknown" : info(dtype).name; }

// 2.5 for float64, 2 for int64, 1 for bool: as in the user's program.
std::string number_text(const Operand& operand) { return fmt::format("{}", operand.value); }

// The differences between the grammars.
struct IrStyle {
  IrGrammar grammar;
  bool is_new() const { return grammar == IrGrammar::v2_7; }
  bool is_first() const { return grammar == IrGrammar::v1_2; }

  // "Tensor[Float32]x[const vector][2, 3]", in later grammars "Tensor[Float32], (2, 3)"
  std::string tensor(const ValueType& type) const {
    return is_first() ? fmt::format("Tensor[{}]x[const vector]{}", name_of(type.dtype), shape_text(type, "[]"))
                      : fmt::format("Tensor[{}], {}", name_of(type.dtype), shape_text(type, "()"));
  }
  std::string type_of(const ValueType& type) const {
    return type.is_tensor ? fmt::format("<{}>", tensor(type)) : "<None, NoShape>";
  }

  std::string device(const ValueType& type) const {
    if (!type.is_tensor) return "<null>";
    return fmt::format("<{}xDefaultFormat[const vector]{}>", name_of(type.dtype),
                       shape_text(type, is_new() ? "{}" : "[]"));
  }
  std::string graph_name(std::uint32_t id) const { return fmt::format("kernel_graph{}{}", is_new() ? "" : "_", id); }
  std::string node(std::size_t index) const {
    return is_new() ? fmt::format("%{}(CNode_{})", index, index + 1) : fmt::format("%{}([CNode]{})", index, index + 1);
  }
};

class IrWriter {
 public:
  IrWriter(const Graph& graph, IrGrammar grammar, SourceTexts& sources)
      : graph_(graph), style_{grammar}, sources_(sources), name_(style_.graph_name(graph.id)) {}

  std::string text() {
    if (style_.is_new()) {
      new_head();
    } else {
      old_head();
    }
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) node(i);
    end();
    return fmt::to_string(out_);
  }

 private:
  std::string parameter_name(std::uint32_t index) const {
    return fmt::format("%para{}_{}", index + 1, graph_.parameters[index].name);
  }

  void new_head() {
    put(out_, "# IR entry: @{}\n# Total subgraphs: 1\n\n# Attrs:\n\n# Total params: {}\n# Params:\n", name_,
        graph_.parameters.size());
    for (std::uint32_t i = 0; i < graph_.parameters.size(); ++i) {
      const GraphParameter& parameter = graph_.parameters[i];
      const std::string shape = shape_text(parameter.type, "()");
      if (parameter.kind == GraphParameter::Kind::weight) {
        put(out_, "{}: <Ref[Tensor[{}]], {}, ref_key={}, is_parameter, is_inplace>  :  has_default  :  {}  :  ",
            parameter_name(i), name_of(parameter.type.dtype), shape, parameter.name, style_.device(parameter.type));
        put(out_, "IsWeight: true\n");
      } else {
        put(out_, "{}: {} : {}  :  {}  :  IsWeight: false\n", parameter_name(i), style_.type_of(parameter.type),
            shape_text(parameter.type, "[]"), style_.device(parameter.type));
      }
    }
    put(out_, "\nNode counting information:\nTotal number of nodes: {}\nTotal number of cnodes: {}\n\nsubgraph attr:\n",
        graph_.parameters.size() + graph_.nodes.size() + 1, graph_.nodes.size() + 1);
    put(out_, "subgraph instance: {} : 0x{:x}\n\nsubgraph @{}() {{\n", name_, graph_.id, name_);
  }

  void old_head() {
    put(out_, "#IR entry      : @{}\n#attrs         :\n#Total params  : {}\n\n", name_, graph_.parameters.size());
    for (std::uint32_t i = 0; i < graph_.parameters.size(); ++i) {
      const GraphParameter& parameter = graph_.parameters[i];
      put(out_, "{} : {}  :  {}  :  IsWeight:{}\n", parameter_name(i), style_.type_of(parameter.type),
          style_.device(parameter.type), parameter.kind == GraphParameter::Kind::weight);
    }
    put(out_, "\n#Total subgraph : 1\n\nsubgraph attr:\nsubgraph @{}() {{\n", name_);
  }

  std::string operand_text(const Operand& operand) const {
    switch (operand.kind) {
      case Operand::Kind::node:
        return fmt::format("%{}", operand.index);
      case Operand::Kind::parameter:
        return parameter_name(operand.index);
      case Operand::Kind::constant:
        return is_index(operand) ? fmt::format("I64({})", number_text(operand))
                                 : fmt::format("Tensor(shape=[], dtype={}, value={})", name_of(operand.type.dtype),
                                               number_text(operand));
      case Operand::Kind::none:
        break;
    }
    return "None";
  }

  bool is_index(const Operand& operand) const { return in_bookkeeping_ && operand.type.dtype == DType::int64; }

  std::string operand_type(const Operand& operand) const {
    if (operand.kind == Operand::Kind::constant) {
      return is_index(operand) ? "<Int64, NoShape>"
             : style_.is_first()
                 ? style_.type_of(operand.type)
                 : fmt::format("<Tensor[{}], (), value={}>", name_of(operand.type.dtype), number_text(operand));
    }
    if (operand.kind == Operand::Kind::node) {
      const GraphNode& from = graph_.nodes[operand.index];
      if (from.outputs.size() > 1) return result_type(from);
    }
    return style_.type_of(operand.type);
  }

  std::string result_type(const GraphNode& node) const {
    if (node.outputs.empty()) return "<None, NoShape>";
    if (node.outputs.size() == 1) return style_.type_of(node.outputs[0]);
    std::string types, shapes;
    if (style_.is_first()) {
      for (const ValueType& output : node.outputs) {
        if (!types.empty()) types += ", ";
        types += output.is_tensor ? style_.tensor(output) : "None";
      }
      return fmt::format("<Tuple[{}]>", types);
    }
    for (const ValueType& output : node.outputs) {
      if (!types.empty()) types += ", ", shapes += ", ";
      types += output.is_tensor ? fmt::format("Tensor[{}]", name_of(output.dtype)) : "None";
      shapes += output.is_tensor ? shape_text(output, "()") : "NoShape";
    }
    return fmt::format("<Tuple[{}], TupleShape({})>", types, shapes);
  }

  // "(a, b) -> (c)"
  template <typename OfInput>
  void signature(const GraphNode& node, OfInput of_input, const std::string& results) {
    std::vector<std::string> inputs;
    for (const Operand& input : node.inputs) inputs.push_back(of_input(input));
    put(out_, "      : ({}) -> ({})\n", fmt::join(inputs, ", "), results);
  }

  void attributes(const GraphNode& node) {
    if (node.attributes.empty()) return;
    put(out_, " primitive_attrs: {{");
    const char* comma = "";
    for (const Attribute& attribute : node.attributes) {
      put(out_, "{}{}: {}", comma, attribute.name, ir_text_of(attribute));
      comma = ", ";
    }
    put(out_, "}}");
  }

  void node(std::size_t index) {
    const GraphNode& node = graph_.nodes[index];
    in_bookkeeping_ = node.is_bookkeeping;
    std::vector<std::string> operands;
    for (const Operand& input : node.inputs) operands.push_back(operand_text(input));
    put(out_, "  {} = {}({})", style_.node(index), node.op_type, fmt::join(operands, ", "));
    attributes(node);
    put(out_, "\n");
    signature(
        node, [&](const Operand& input) { return operand_type(input); }, result_type(node));
    if (!node.is_bookkeeping) {
      std::vector<std::string> devices;
      for (const ValueType& output : node.outputs) devices.push_back(style_.device(output));
      signature(
          node, [&](const Operand& input) { return style_.device(input.type); },
          fmt::format("{}", fmt::join(devices, ", ")));
      if (!style_.is_first()) kinds(node);
    }
    op_name(node.op_name);
    trace(node.trace);
  }

  void kinds(const GraphNode& node) {
    signature(
        node, [](const Operand& input) { return input.type.is_tensor ? "Tensor" : "None"; },
        node.outputs.size() > 1 ? "TupleUnfold"
        : node.outputs.empty()  ? "None"
                                : "Tensor");
  }

  void op_name(std::string_view name) {
    switch (style_.grammar) {
      case IrGrammar::v1_2:
      case IrGrammar::v2_0:
        put(out_, "      : ({})\n", name);
        break;
      case IrGrammar::v2_3:
        put(out_, "      : full_name_with_scope: ({})\n", name);
        break;
      case IrGrammar::v2_7:
        put(out_, "      # Fullname with scope: ({})\n", name);
        break;
    }
  }

  // The newer grammar begins with the outermost line, the older ones with the innermost.
  void trace(const std::vector<SourceLine>& lines) {
    if (style_.is_new()) {
      for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
        put(out_, "      # {}\n", source_text(*line, style_.grammar, sources_));
      }
      return;
    }
    const char* inlined = "";
    for (const SourceLine& line : lines) {
      put(out_, "      # {}{}\n", inlined, source_text(line, style_.grammar, sources_));
      if (style_.grammar == IrGrammar::v2_0) inlined = "inlined:";
    }
  }

  void end() {
    if (!graph_.nodes.empty()) {
      const GraphNode& last = graph_.nodes.back();
      put(out_, "  Return(%{})\n      : ({})\n", graph_.nodes.size() - 1, result_type(last));
      op_name("Default/Return-op0");
    }
    put(out_, "}}\n");
    if (!style_.is_new()) return;
    put(out_, "\n# Order:\n");
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      put(out_, "#   {}: @{}:CNode_{}{{[0]: ValueNode<Primitive> {}", i + 1, name_, i + 1, graph_.nodes[i].op_type);
      in_bookkeeping_ = graph_.nodes[i].is_bookkeeping;
      std::size_t number = 0;
      for (const Operand& input : graph_.nodes[i].inputs) {
        put(out_, ", [{}]: {}", ++number, order_text(input));
      }
      put(out_, "}}\n");
    }
  }

  std::string order_text(const Operand& operand) const {
    if (operand.kind == Operand::Kind::node) return fmt::format("CNode_{}", operand.index + 1);
    if (operand.kind == Operand::Kind::parameter) return graph_.parameters[operand.index].name;
    return "ValueNode " + operand_text(operand);
  }

  const Graph& graph_;
  const IrStyle style_;
  SourceTexts& sources_;
  const std::string name_;
  bool in_bookkeeping_ = false;
  Out out_;
};

}  // namespace

std::string source_text(const SourceLine& line, IrGrammar grammar, SourceTexts& sources) {
  const std::string_view text = sources.line(line.file, line.line);
  const bool in_brackets = grammar == IrGrammar::v2_3 || grammar == IrGrammar::v1_2;
  if (in_brackets) return fmt::format("In file {}({})/{}/", line.file, line.line, text);
  if (grammar == IrGrammar::v2_0 || line.end_column == 0) {
    return fmt::format("In file {}:{}/{}/", line.file, line.line, text);
  }
  const std::string last = line.end_line > line.line ? fmt::format("~{}", line.end_line) : "";
  return fmt::format("In file {}:{}{}, {}~{}/{}/", line.file, line.line, last, line.column, line.end_column, text);
}

std::string ir_text(const Graph& graph, IrGrammar grammar, SourceTexts& sources) {
  return IrWriter(graph, grammar, sources).text();
}

}  // namespace sonde
