#include "dump/graph/model_proto.h"

#include <fmt/format.h>

#include <protozero/pbf_builder.hpp>
#include <protozero/pbf_writer.hpp>

#include "dump/graph/ir_text.h"
#include "dump/graph/model_fields.h"

namespace sonde {
namespace {

using namespace pb;

std::int32_t data_type(DType dtype) {
  switch (dtype) {
    case DType::bool8:
      return 1;
    case DType::int8:
    case DType::qint8:
      return 2;
    case DType::int16:
      return 3;
    case DType::int32:
    case DType::qint32:
      return 4;
    case DType::int64:
      return 5;
    case DType::uint8:
    case DType::quint8:
      return 6;
    case DType::uint16:
      return 7;
    case DType::uint32:
      return 8;
    case DType::uint64:
      return 9;
    case DType::float16:
      return 10;
    case DType::float32:
      return 11;
    case DType::float64:
      return 12;
    case DType::bfloat16:
      return kBFloat16;
    default:
      return 0;  // the enumeration has no complex and no 8-bit floats
  }
}

template <typename Tag>
using Builder = protozero::pbf_builder<Tag>;

void put_type(Builder<Type>& out, const ValueType& type) {
  if (!type.is_tensor) {
    out.add_enum(Type::data_type, kNone);
    return;
  }
  out.add_enum(Type::data_type, kTensor);
  Builder<TensorType> tensor(out, Type::tensor_type);
  tensor.add_enum(TensorType::elem_type, data_type(type.dtype));
  Builder<Shape> shape(tensor, TensorType::shape);
  for (const std::int64_t size : type.shape) {
    Builder<Dim> dim(shape, Shape::dim);
    dim.add_int64(Dim::size, size);
  }
}

void put_result_type(Builder<Type>& out, const GraphNode& node) {
  if (node.outputs.size() == 1) return put_type(out, node.outputs[0]);
  out.add_enum(Type::data_type, node.outputs.empty() ? kNone : kTuple);
  if (node.outputs.empty()) return;
  Builder<Sequence> sequence(out, Type::sequence_type);
  for (const ValueType& output : node.outputs) {
    Builder<Type> element(sequence, Sequence::elem_types);
    put_type(element, output);
  }
}

void put_number(Builder<Value>& out, AttributeKind kind, std::int64_t integer, double real) {
  switch (kind) {
    case AttributeKind::boolean:
      out.add_enum(Value::dtype, kBool);
      out.add_bool(Value::bool_val, integer != 0);
      break;
    case AttributeKind::integer:
      out.add_enum(Value::dtype, kInt64);
      out.add_int64(Value::int_val, integer);
      break;
    default:
      out.add_enum(Value::dtype, kFloat64);
      out.add_double(Value::double_val, real);
      break;
  }
}

AttributeKind element_of(AttributeKind list) {
  if (list == AttributeKind::booleans) return AttributeKind::boolean;
  return list == AttributeKind::integers ? AttributeKind::integer : AttributeKind::real;
}

void put_value(Builder<Value>& out, const Attribute& attribute) {
  switch (attribute.kind) {
    case AttributeKind::none:
      out.add_enum(Value::dtype, kNone);
      return;
    case AttributeKind::text:
      out.add_enum(Value::dtype, kString);
      out.add_string(Value::str_val, attribute.text);
      return;
    case AttributeKind::boolean:
    case AttributeKind::integer:
      return put_number(out, attribute.kind, attribute.integers.at(0), 0);
    case AttributeKind::real:
      return put_number(out, attribute.kind, 0, attribute.reals.at(0));
    default:
      break;
  }
  out.add_enum(Value::dtype, kList);
  const auto put = [&](std::int64_t integer, double real) {
    Builder<Value> element(out, Value::values);
    put_number(element, element_of(attribute.kind), integer, real);
  };
  for (const std::int64_t value : attribute.integers) put(value, 0);
  for (const double value : attribute.reals) put(0, value);
}

class ProtoWriter {
 public:
  ProtoWriter(const Graph& graph, SourceTexts& sources) : graph_(graph), sources_(sources) {}

  std::string bytes() {
    std::string all;
    {
      Builder<Model> model(all);
      model.add_int64(Model::ir_version, 1);
      Builder<GraphP> out(model, Model::graph);
      for (std::size_t i = 0; i < graph_.nodes.size(); ++i) put_node(out, i);
      out.add_string(GraphP::name, fmt::format("kernel_graph{}", graph_.id));
      for (const GraphParameter& parameter : graph_.parameters) put_parameter(out, parameter);
      if (!graph_.nodes.empty()) put_output(out);
      for (const auto& [name, operand] : constants_) put_constant(out, name, operand);
      out.add_string(GraphP::root_name, std::to_string(graph_.id));
    }
    return all;
  }

 private:
  // Nodes are named by their number from 1, parameters by their name, constants by `cst` and a number from 1.
  std::string operand_name(const Operand& operand) {
    if (operand.kind == Operand::Kind::node) return std::to_string(operand.index + 1);
    if (operand.kind == Operand::Kind::parameter) return graph_.parameters[operand.index].name;
    constants_.emplace_back(fmt::format("cst{}", constants_.size() + 1), operand);
    return constants_.back().first;
  }

  void put_node(Builder<GraphP>& out, std::size_t index) {
    const GraphNode& node = graph_.nodes[index];
    Builder<Node> to(out, GraphP::node);
    for (const Operand& operand : node.inputs) {
      const std::string name = operand_name(operand);
      Builder<Input> input(to, Node::input);
      input.add_string(Input::name, name);
      input.add_enum(Input::type, 0);  // data
    }
    to.add_string(Node::name, std::to_string(index + 1));
    to.add_string(Node::op_type, node.op_type);
    to.add_string(Node::scope, node.op_name.substr(0, node.op_name.rfind('/')));
    for (const Attribute& attribute : node.attributes) {
      Builder<Named> named(to, Node::attribute);
      named.add_string(Named::name, attribute.name);
      Builder<Value> value(named, Named::thing);
      put_value(value, attribute);
    }
    {
      Builder<Type> type(to, Node::output_type);
      put_result_type(type, node);
    }
    to.add_string(Node::full_name, node.op_name);
    std::string trace;
    for (const SourceLine& line : node.trace) {
      trace += fmt::format("      # {}\n", source_text(line, IrGrammar::v2_7, sources_));
    }
    if (!trace.empty()) to.add_string(Node::source_address, trace);
  }

  static void put_parameter(Builder<GraphP>& out, const GraphParameter& parameter) {
    Builder<Named> to(out, GraphP::parameters);
    to.add_string(Named::name, parameter.name);
    Builder<Type> type(to, Named::thing);
    put_type(type, parameter.type);
  }

  void put_output(Builder<GraphP>& out) const {
    Builder<Named> to(out, GraphP::outputs);
    to.add_string(Named::name, std::to_string(graph_.nodes.size()));
    Builder<Type> type(to, Named::thing);
    put_result_type(type, graph_.nodes.back());
  }

  void put_constant(Builder<GraphP>& out, const std::string& name, const Operand& operand) const {
    Builder<Named> to(out, GraphP::const_vals);
    to.add_string(Named::name, name);
    {
      Builder<Value> value(to, Named::thing);
      if (operand.kind == Operand::Kind::none) {
        value.add_enum(Value::dtype, kNone);
      } else if (operand.type.dtype == DType::int64) {
        put_number(value, AttributeKind::integer, static_cast<std::int64_t>(operand.value), 0);
      } else if (operand.type.dtype == DType::bool8) {
        put_number(value, AttributeKind::boolean, operand.value != 0, 0);
      } else {
        put_number(value, AttributeKind::real, 0, operand.value);
      }
    }
    to.add_string(Named::full_name, fmt::format("Default_{}", name));
  }

  const Graph& graph_;
  SourceTexts& sources_;
  std::vector<std::pair<std::string, Operand>> constants_;
};

}  // namespace

std::string model_proto(const Graph& graph, SourceTexts& sources) { return ProtoWriter(graph, sources).bytes(); }

}  // namespace sonde
