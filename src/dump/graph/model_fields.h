// The fields of MindSpore's graph files (`.pb`: mind_ir.proto), as protocol buffers number them.
#pragma once

#include <cstdint>
#include <protozero/types.hpp>

namespace sonde::pb {

using Tag = protozero::pbf_tag_type;

enum class Model : Tag { ir_version = 1, graph = 4 };
enum class GraphP : Tag { node = 1, name = 2, parameters = 3, outputs = 4, const_vals = 5, root_name = 6 };
enum class Node : Tag {
  input = 1,
  name = 2,
  op_type = 3,
  scope = 4,
  attribute = 5,
  output_type = 6,
  output_i = 7,
  full_name = 8,
  source_address = 9
};
enum class Input : Tag { name = 1, type = 2 };
// ParameterProto, OutputProto, AttributeProto: a name, and a type or value. `full_name` is of NamedValueProto.
enum class Named : Tag { name = 1, thing = 2, full_name = 3 };
enum class Type : Tag { data_type = 1, tensor_type = 2, sequence_type = 3 };
enum class TensorType : Tag { elem_type = 1, shape = 2 };
enum class Sequence : Tag { elem_types = 1 };
enum class Shape : Tag { dim = 1 };
enum class Dim : Tag { size = 1 };
enum class Value : Tag {
  dtype = 1,
  bool_val = 2,
  int_val = 3,
  uint_val = 4,
  float_val = 5,
  double_val = 6,
  str_val = 7,
  values = 18
};

// enum DataType
inline constexpr std::int32_t kBool = 1, kInt64 = 5, kFloat64 = 12, kString = 13, kTensor = 14, kTuple = 31, kList = 32,
                              kNone = 34, kMonad = 43, kIoMonad = 44, kBFloat16 = 46;

}  // namespace sonde::pb
