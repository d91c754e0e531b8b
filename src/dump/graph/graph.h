// Graph: the ops of one step and the data flow between them. Plain data; built by GraphBuilder (graph/build.h), written
// as MindSpore's `.ir` (graph/ir_text.h) and `.pb` (graph/model_proto.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ground/model/attribute.h"
#include "ground/model/source_line.h"
#include "sonde/dims.h"
#include "sonde/dtype.h"

namespace sonde {

struct ValueType {
  DType dtype = DType::undefined;
  Dims shape;
  bool is_tensor = true;  // false: the argument was given as None
  bool has_shape = true;  // false: the dump does not say
};

// The value that an op reads at one slot.
struct Operand {
  enum class Kind : std::uint8_t { none, node, parameter, constant };
  Kind kind = Kind::none;
  std::uint32_t index = 0;  // node: in Graph::nodes; parameter: in Graph::parameters
  std::uint32_t slot = 0;   // node: the number of its output; a number beyond them is an internal result
  double value = 0;         // constant
  ValueType type;
};

struct GraphNode {
  std::uint64_t sequence = 0;  // of the record it comes from
  std::string op_type;
  std::string op_name;
  std::vector<Operand> inputs;  // by slot
  std::vector<ValueType> outputs;
  std::vector<Attribute> attributes;
  std::vector<SourceLine> trace;  // innermost first
  // TupleGetItem and MakeTuple: no ops of the program, but MindSpore's notation for tuples
  bool is_bookkeeping = false;
};

// A value that the step reads but none of its ops produced.
struct GraphParameter {
  enum class Kind : std::uint8_t {
    weight,  // a parameter, buffer, gradient or optimizer state, by its name
    data,    // no op in the dump wrote it: `data-N`
    carried  // an op of an earlier step, or one that was not recorded, wrote it: `carried-N`
  };
  Kind kind = Kind::data;
  std::string name;
  ValueType type;
};

struct Graph {
  std::uint32_t id = 0;
  std::vector<GraphParameter> parameters;
  std::vector<GraphNode> nodes;  // in the order in which they ran
};

}  // namespace sonde
