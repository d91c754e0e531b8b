#include <algorithm>
#include <array>
#include <protozero/pbf_message.hpp>
#include <unordered_map>

#include "dump/graph/host_graph.h"
#include "dump/graph/host_trace.h"
#include "dump/graph/model_fields.h"
#include "dump/graph/source_trace.h"
#include "ground/model/data_name.h"

namespace sonde {
namespace {

using protozero::pbf_message;
using protozero::pbf_reader;
using WireType = protozero::pbf_wire_type;
using namespace pb;

constexpr std::size_t kMostInputs = 1 << 16;        // of one op, tuples laid out
constexpr std::size_t kMostOfGraph = 1 << 20;       // inputs of all ops together
constexpr std::size_t kMostSteps = 1 << 24;         // from all ops to what feeds them
constexpr std::size_t kMostValues = 1 << 12;        // of an attribute
constexpr int kDeepest = 50;                        // tuples inside tuples
constexpr std::size_t kMostDims = 64;               // of a shape
constexpr std::size_t kMostTyped = 1 << 10;         // elements of a tuple whose types are kept
constexpr std::string_view kNameless = "\xd1\x84";  // before the name of a parameter of a block
// Attributes for MindSpore's internal use.
constexpr std::array<std::string_view, 4> kNotes = {"IsFeatureMapOutput", "IsFeatureMapInputList", "input_names",
                                                    "output_names"};

// Fields of another wire type than theirs count as not set.
template <typename Message>
std::string_view text_in(Message& message) {
  if (!message.has_wire_type(WireType::length_delimited)) {
    message.skip();
    return {};
  }
  const protozero::data_view view = message.get_view();
  return {view.data(), view.size()};
}

template <typename Message>
pbf_reader message_in(Message& message) {
  const std::string_view bytes = text_in(message);
  return pbf_reader(bytes.data(), bytes.size());
}

template <typename Message>
std::int64_t number_in(Message& message) {
  if (message.has_wire_type(WireType::varint)) return message.get_int64();
  message.skip();
  return 0;
}

template <typename Message>
double real_in(Message& message) {
  if (message.has_wire_type(WireType::fixed32)) return message.get_float();
  if (message.has_wire_type(WireType::fixed64)) return message.get_double();
  message.skip();
  return 0;
}

// --- values ----------------------------------------------------------------------------------------------------------

struct ReadValue {
  std::int32_t dtype = 0;
  AttributeKind kind = AttributeKind::none;
  std::int64_t integer = 0;
  double real = 0;
  std::string_view text;
  std::vector<ReadValue> values;
};

ReadValue take_value(pbf_reader bytes, int depth) {
  ReadValue value;
  pbf_message<Value> message(bytes);
  const auto set = [&](AttributeKind kind, std::int64_t integer) {
    value.kind = kind;
    value.integer = integer;
    value.real = static_cast<double>(integer);
  };
  while (message.next()) {
    switch (message.tag()) {
      case Value::dtype:
        value.dtype = static_cast<std::int32_t>(number_in(message));
        break;
      case Value::bool_val:
        set(AttributeKind::boolean, number_in(message) != 0 ? 1 : 0);
        break;
      case Value::int_val:
      case Value::uint_val:
        set(AttributeKind::integer, number_in(message));
        break;
      case Value::float_val:
      case Value::double_val:
        value.kind = AttributeKind::real;
        value.real = real_in(message);
        break;
      case Value::str_val:
        value.kind = AttributeKind::text;
        value.text = text_in(message);
        break;
      case Value::values:
        if (depth == 0 || value.values.size() >= kMostValues) {
          message.skip();
        } else {
          value.values.push_back(take_value(message_in(message), depth - 1));
        }
        break;
      default:
        message.skip();
    }
  }
  // MindSpore does not set a field that is zero, although proto2 would store it.
  if (value.kind == AttributeKind::none && value.dtype == 1) value.kind = AttributeKind::boolean;
  if (value.kind == AttributeKind::none && value.dtype >= 2 && value.dtype <= 9) value.kind = AttributeKind::integer;
  return value;
}

std::string text_of(const ReadValue& value) {
  if (value.kind == AttributeKind::text) return std::string(value.text);
  Attribute attribute{"", value.kind, {value.integer}, {value.real}, ""};
  return text_of(attribute);
}

// A list of one kind stays a list, or becomes a text if its kind has no list; false for a value without a plain form.
bool attribute_of(std::string_view name, const ReadValue& value, Attribute& out) {
  out.name = name;
  out.kind = value.kind;
  if (value.kind == AttributeKind::text) {
    out.text = value.text;
  } else if (value.kind == AttributeKind::real) {
    out.reals = {value.real};
  } else if (value.kind != AttributeKind::none) {
    out.integers = {value.integer};
  } else if (value.dtype == kTuple || value.dtype == kList) {
    const auto all = [&](AttributeKind kind) {
      for (const ReadValue& element : value.values) {
        if (element.kind != kind) return false;
      }
      return !value.values.empty();
    };
    if (all(AttributeKind::integer) || all(AttributeKind::boolean)) {
      out.kind = all(AttributeKind::integer) ? AttributeKind::integers : AttributeKind::booleans;
      for (const ReadValue& element : value.values) out.integers.push_back(element.integer);
    } else if (all(AttributeKind::real)) {
      out.kind = AttributeKind::reals;
      for (const ReadValue& element : value.values) out.reals.push_back(element.real);
    } else {
      out.kind = AttributeKind::text;
      for (const ReadValue& element : value.values) out.text += (out.text.empty() ? "[" : ", ") + text_of(element);
      out.text += out.text.empty() ? "[]" : "]";
    }
  } else {
    return false;
  }
  return true;
}

// --- the message as it is stored
// ---------------------------------------------------------------------------------------

struct RawType {
  bool is_monad = false;
  std::size_t elements = 0;       // of a tuple; 0: it is none
  std::vector<HostType> tensors;  // its own, or one for each element of a tuple
};

struct RawNode {
  std::string_view name, op_type, full_name, source;
  std::vector<std::string_view> inputs;
  std::vector<std::pair<std::string_view, pbf_reader>> attributes;
  RawType type;
};

struct RawConstant {
  bool is_monad = false;
  std::string_view name;  // "data-3"
  std::optional<double> value;
};

struct RawGraph {
  std::vector<RawNode> nodes;
  std::unordered_map<std::string_view, std::uint32_t> by_name;  // nodes
  std::unordered_map<std::string_view, bool> parameters;        // whether it is a monad
  std::vector<std::string_view> parameter_order;
  std::vector<HostType> parameter_types;
  std::unordered_map<std::string_view, RawConstant> constants;
};

bool is_monad(std::int64_t data_type) { return data_type == kMonad || data_type == kIoMonad; }

DType element_type(std::int64_t data_type) {
  constexpr std::array<DType, 13> kTypes = {
      DType::undefined, DType::bool8,  DType::int8,   DType::int16,   DType::int32,   DType::int64,  DType::uint8,
      DType::uint16,    DType::uint32, DType::uint64, DType::float16, DType::float32, DType::float64};
  if (data_type == kBFloat16) return DType::bfloat16;
  const bool known = data_type >= 0 && data_type < static_cast<std::int64_t>(kTypes.size());
  return known ? kTypes[static_cast<std::size_t>(data_type)] : DType::undefined;
}

HostType take_tensor_type(pbf_reader bytes) {
  HostType type;
  type.has_shape = true;
  std::vector<std::int64_t> shape;
  pbf_message<TensorType> message(bytes);
  while (message.next()) {
    if (message.tag() == TensorType::elem_type) {
      type.dtype = element_type(number_in(message));
    } else if (message.tag() == TensorType::shape) {
      pbf_reader dims = message_in(message);
      while (dims.next()) {
        if (dims.tag() != Tag(Shape::dim) || shape.size() >= kMostDims) {
          dims.skip();
          continue;
        }
        std::int64_t size = 0;  // a field that is zero is not set
        pbf_reader dim = message_in(dims);
        while (dim.next()) {
          if (dim.tag() == Tag(Dim::size)) {
            size = number_in(dim);
          } else {
            dim.skip();
          }
        }
        shape.push_back(size);
        type.has_shape = type.has_shape && size >= 0;
      }
    } else {
      message.skip();
    }
  }
  // MindSpore leaves the sizes of a tuple's elements out, and a scalar has none.
  type.has_shape = type.has_shape && !shape.empty();
  type.shape = Dims(shape);
  return type;
}

RawType take_type(pbf_reader bytes, int depth = 2) {
  RawType type;
  pbf_message<Type> message(bytes);
  while (message.next()) {
    if (message.tag() == Type::data_type) {
      type.is_monad = is_monad(number_in(message));
    } else if (message.tag() == Type::tensor_type) {
      type.tensors = {take_tensor_type(message_in(message))};
    } else if (message.tag() == Type::sequence_type) {
      pbf_reader elements = message_in(message);
      while (elements.next()) {
        if (elements.tag() != Tag(Sequence::elem_types) || type.elements >= kMostInputs) {
          elements.skip();
          continue;
        }
        ++type.elements;
        const pbf_reader element = message_in(elements);
        const std::vector<HostType> own = depth > 0 ? take_type(element, depth - 1).tensors : std::vector<HostType>();
        if (type.tensors.size() < kMostTyped) type.tensors.push_back(own.size() == 1 ? own[0] : HostType());
      }
    } else {
      message.skip();
    }
  }
  return type;
}

// A name and, if they are given, the message after it and the text after that.
std::string_view take_named(pbf_reader message, std::optional<pbf_reader>* thing = nullptr,
                            std::string_view* full_name = nullptr) {
  std::string_view name;
  while (message.next()) {
    if (message.tag() == Tag(Named::name)) {
      name = text_in(message);
    } else if (message.tag() == Tag(Named::thing) && thing != nullptr) {
      *thing = message_in(message);
    } else if (message.tag() == Tag(Named::full_name) && full_name != nullptr) {
      *full_name = text_in(message);
    } else {
      message.skip();
    }
  }
  return name;
}

RawNode take_node(pbf_reader bytes) {
  RawNode node;
  pbf_message<Node> message(bytes);
  while (message.next()) {
    switch (message.tag()) {
      case Node::input:
        node.inputs.push_back(take_named(message_in(message)));
        break;
      case Node::name:
        node.name = text_in(message);
        break;
      case Node::op_type:
        node.op_type = text_in(message);
        break;
      case Node::attribute: {
        std::optional<pbf_reader> value;
        const std::string_view name = take_named(message_in(message), &value);
        if (value) node.attributes.emplace_back(name, *value);
        break;
      }
      case Node::output_type:
        node.type = take_type(message_in(message));
        break;
      case Node::full_name:
        node.full_name = text_in(message);
        break;
      case Node::source_address:
        node.source = text_in(message);
        break;
      default:
        message.skip();
    }
  }
  return node;
}

// A tensor has no value here; a monad has an empty one.
RawConstant constant_of(const std::optional<pbf_reader>& value) {
  RawConstant constant;
  if (!value) return constant;
  constant.is_monad = value->length() == 0;
  const ReadValue read = take_value(*value, 1);
  const bool is_number =
      read.kind == AttributeKind::boolean || read.kind == AttributeKind::integer || read.kind == AttributeKind::real;
  if (is_number) constant.value = read.real;
  return constant;
}

RawGraph take_graph(pbf_reader bytes) {
  RawGraph graph;
  pbf_message<GraphP> message(bytes);
  while (message.next()) {
    if (message.tag() == GraphP::node) {
      RawNode node = take_node(message_in(message));
      graph.by_name.emplace(node.name, static_cast<std::uint32_t>(graph.nodes.size()));
      graph.nodes.push_back(std::move(node));
    } else if (message.tag() == GraphP::parameters) {
      std::optional<pbf_reader> type;
      const std::string_view name = take_named(message_in(message), &type);
      const RawType read = type ? take_type(*type) : RawType();
      if (graph.parameters.emplace(name, read.is_monad).second && !read.is_monad) {
        graph.parameter_order.push_back(name);
        graph.parameter_types.push_back(read.tensors.size() == 1 ? read.tensors[0] : HostType());
      }
    } else if (message.tag() == GraphP::const_vals) {
      std::optional<pbf_reader> value;
      std::string_view full_name;
      const std::string_view name = take_named(message_in(message), &value, &full_name);
      RawConstant& constant = graph.constants.emplace(name, constant_of(value)).first->second;
      if (const std::size_t data = full_name.rfind(kDataName); data != full_name.npos)
        constant.name = full_name.substr(data);
    } else {
      message.skip();
    }
  }
  return graph;
}

// --- the sources of an op
// ----------------------------------------------------------------------------------------------

std::string parameter_name(std::string_view name) {
  if (name.starts_with(kNameless)) name.remove_prefix(kNameless.size());
  return std::string(name);
}

class Resolver {
 public:
  Resolver(const RawGraph& graph, const std::vector<std::uint32_t>& ops) : graph_(graph), ops_(ops) {}

  std::vector<HostInput> inputs_of(const RawNode& node) {
    std::vector<HostInput> inputs;
    for (const std::string_view input : node.inputs) add(input, 0, inputs);
    inputs_ += inputs.size();
    return inputs;
  }

 private:
  // A value by its name; for an op with several outputs, one of them or all.
  struct Ref {
    std::string_view name;
    const RawNode* node = nullptr;
    std::optional<std::uint32_t> slot;
    bool is_lost = false;
  };

  bool is_full(const std::vector<HostInput>& inputs) const {
    return inputs.size() >= kMostInputs || inputs_ + inputs.size() >= kMostOfGraph;
  }

  // Follows nodes that only pass a value on.
  Ref settled(std::string_view name, int depth) {
    while (++steps_ < kMostSteps) {
      const auto found = graph_.by_name.find(name);
      if (found == graph_.by_name.end()) return {name, nullptr, {}, false};
      const RawNode& node = graph_.nodes[found->second];
      const bool passes = node.op_type == "Load" || node.op_type == "Depend";
      if (passes && !node.inputs.empty()) {
        name = node.inputs[0];
        continue;
      }
      if (node.op_type != "TupleGetItem") return {name, &node, {}, false};
      const std::optional<std::uint32_t> slot = slot_of(node);
      if (!slot || depth >= kDeepest) break;
      Ref tuple = settled(node.inputs[0], depth + 1);
      if (tuple.is_lost || tuple.node == nullptr || tuple.slot) break;
      if (tuple.node->op_type != "MakeTuple") {
        tuple.slot = slot;
        return tuple;
      }
      if (*slot >= tuple.node->inputs.size()) break;
      name = tuple.node->inputs[*slot];
    }
    return {name, nullptr, {}, true};
  }

  std::optional<std::uint32_t> slot_of(const RawNode& item) const {
    if (item.inputs.size() < 2) return std::nullopt;
    const auto constant = graph_.constants.find(item.inputs[1]);
    if (constant == graph_.constants.end() || !constant->second.value) return std::nullopt;
    const double value = *constant->second.value;
    if (!(value >= 0) || value >= static_cast<double>(kMostInputs)) return std::nullopt;
    return static_cast<std::uint32_t>(value);
  }

  void add(std::string_view name, int depth, std::vector<HostInput>& out) {
    if (is_full(out) || ++steps_ >= kMostSteps) return;
    const Ref ref = settled(name, 0);
    HostInput input;
    if (ref.is_lost || depth >= kDeepest) {
      out.push_back(input);
    } else if (ref.node == nullptr) {
      add_outside(ref.name, out);
    } else if (ref.node->op_type == "MakeTuple") {
      for (const std::string_view element : ref.node->inputs) add(element, depth + 1, out);
    } else if (!ref.node->type.is_monad && !is_bookkeeping(ref.node->op_type)) {
      input.kind = HostInput::Kind::op;
      input.op = ops_[static_cast<std::size_t>(ref.node - graph_.nodes.data())];
      input.slot = ref.slot.value_or(0);
      out.push_back(input);
      if (ref.slot) return;
      for (input.slot = 1; input.slot < ref.node->type.elements && !is_full(out); ++input.slot) {
        out.push_back(input);
      }
    }
  }

  void add_outside(std::string_view name, std::vector<HostInput>& out) {
    HostInput input;
    if (const auto parameter = graph_.parameters.find(name); parameter != graph_.parameters.end()) {
      if (parameter->second) return;
      input.kind = HostInput::Kind::parameter;
      input.parameter = parameter_name(name);
    } else if (const auto constant = graph_.constants.find(name); constant != graph_.constants.end()) {
      if (constant->second.is_monad) return;
      input.kind = HostInput::Kind::constant;
      input.value = constant->second.value;
      if (!input.value) input.parameter = constant->second.name;
    }
    out.push_back(std::move(input));
  }

  const RawGraph& graph_;
  const std::vector<std::uint32_t>& ops_;
  std::size_t steps_ = 0, inputs_ = 0;
};

void add_attributes(const RawNode& node, HostOp& op) {
  for (const auto& [name, value] : node.attributes) {
    Attribute attribute;
    if (std::find(kNotes.begin(), kNotes.end(), name) != kNotes.end()) continue;
    if (attribute_of(name, take_value(value, 2), attribute)) op.attributes.push_back(std::move(attribute));
  }
}

HostGraph graph_of(const RawGraph& raw) {
  HostGraph graph;
  std::vector<std::uint32_t> ops;  // of a node: its op
  std::uint32_t count = 0;
  for (const RawNode& node : raw.nodes) ops.push_back(is_bookkeeping(node.op_type) ? 0 : count++);
  Resolver resolver(raw, ops);
  for (const RawNode& node : raw.nodes) {
    if (is_bookkeeping(node.op_type)) continue;
    HostOp& op = graph.ops.emplace_back();
    op.op_name = node.full_name;
    op.op_type = node.op_type;
    op.inputs = resolver.inputs_of(node);
    op.outputs = node.type.tensors;
    add_attributes(node, op);
    add_trace(node.source, false, op, graph.lines);
  }
  for (const std::string_view name : raw.parameter_order) graph.parameters.push_back(parameter_name(name));
  graph.parameter_types = raw.parameter_types;
  return graph;
}

}  // namespace

void add_trace(std::string_view comments, bool outermost_first, HostOp& op, HostLines& lines) {
  for (TracedLine& line : parse_trace(comments, outermost_first)) {
    if (!line.text.empty()) lines[line.place.file].try_emplace(line.place.line, std::move(line.text));
    op.trace.push_back(std::move(line.place));
  }
}

Result<HostGraph> read_model_proto(std::string_view bytes) try {
  pbf_message<Model> model(bytes.data(), bytes.size());
  while (model.next()) {
    if (model.tag() == Model::graph) return graph_of(take_graph(message_in(model)));
    model.skip();
  }
  return Error{ErrorCode::corrupt, "it holds no graph; expected a ModelProto with field 4"};
} catch (const protozero::exception& error) {
  return Error{ErrorCode::corrupt, std::string("it is not a complete ModelProto: ") + error.what()};
}

}  // namespace sonde
