// Names of the files that hold tensors, taken apart: those of every MindSpore version and of CANN.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sonde {

// A name of an op as part of a file name: each of `/`, `\`, `.` and space becomes `_`.
std::string sanitised(std::string_view name);

// The parts of the name of a file with one tensor (`.npy`, or `.bin` of 1.2), read from the right; false when it is
// none. A name of 1.2 has no type, ids or time of its own, but a shape.
struct TensorFileName {
  std::string op_type, op_name, format, dtype;  // dtype empty when the name has none
  std::vector<std::int64_t> shape;              // 1.2 only: a file without a header
  std::uint64_t task_id = 0, stream_id = 0, timestamp_us = 0;
  bool is_input = false;
  std::uint32_t slot = 0;
};
bool parse_tensor_file_name(std::string_view name, TensorFileName& out);

// The parts of the name of a file with all tensors of an op, as CANN writes it, or, ending in `.csv`, with their
// statistics. Also in the forms of 1.2 (no stream), FFTS+ (four fields more) and ACL graphs (a dump number).
struct OpFileName {
  std::string op_type, op_name;
  std::uint64_t task_id = 0, stream_id = 0, timestamp_us = 0;
  bool is_table = false;  // `.csv`
  // Of an overflow, not of an op: `Opdebug.Node_OpDebug.…`.
  bool is_overflow_record() const { return op_type == "Opdebug"; }
};
bool parse_op_file_name(std::string_view name, OpFileName& out);

}  // namespace sonde
