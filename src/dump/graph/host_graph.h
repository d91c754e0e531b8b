// HostGraph: the facts in MindSpore's own graph files about the operators of one graph: source lines, sources of each
// input, attributes. Read from `.pb`, or, lines only, from `.ir`. Formats: docs/format.md, "MindSpore's own graphs".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ground/model/attribute.h"
#include "ground/model/source_line.h"
#include "sonde/dims.h"
#include "sonde/dtype.h"
#include "sonde/result.h"

namespace sonde {

// The type that the graph infers for a tensor. On a CPU, memory may have another one: adapters/mindspore/README.md.
struct HostType {
  DType dtype = DType::undefined;
  bool has_shape = false;  // false: unknown, or not the same in every run
  Dims shape;
};

// One input of an operator.
struct HostInput {
  enum class Kind : std::uint8_t { unknown, op, parameter, constant };
  Kind kind = Kind::unknown;
  std::uint32_t op = 0, slot = 0;  // op: in HostGraph::ops, and which of its outputs
  std::string parameter;           // parameter: its name; constant that is not a number: `data-N`, or empty
  std::optional<double> value;     // constant that is a number
  friend bool operator==(const HostInput&, const HostInput&) = default;
};

struct HostOp {
  std::string op_name, op_type;
  std::vector<HostInput> inputs;  // by slot, as in the names of the files
  std::vector<HostType> outputs;  // empty: unknown
  std::vector<Attribute> attributes;
  std::vector<SourceLine> trace;  // innermost first
};

// Lines of source files at the time when the graph was made, by file and number.
using HostLines = std::map<std::string, std::map<std::uint32_t, std::string>>;

struct HostGraph {
  std::vector<HostOp> ops;  // those with a kernel, in the order of the file, which is not the order of the run
  std::vector<std::string> parameters;
  std::vector<HostType> parameter_types;  // one for each
  HostLines lines;
};

// Reads a `.pb`. Fails with `corrupt` if the bytes are not such a message, or are truncated.
Result<HostGraph> read_model_proto(std::string_view bytes);

// Reads an `.ir` of any version, names and lines only. Lines that are not part of an operator are skipped.
HostGraph read_ir_text(std::string_view text);

// True for MindSpore's types that select a tuple's item, join items, or keep an order; they have no kernel.
bool is_bookkeeping(std::string_view op_type);

}  // namespace sonde
