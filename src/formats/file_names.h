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
// none. A name of 1.2 has no type, ids or time of its own, but a shape. Converted containers (no format) and TorchAir's
// eager dump (`add_1-aten.add.Tensor.OUTPUT.0.{time}.npy`) are read too. Times may have any number of digits.
struct TensorFileName {
  std::string op_type, op_name, format, dtype;  // format and dtype empty when the name has none
  std::string key;                              // TorchAir: `1.0`, the place of an item of a list; else empty
  std::vector<std::int64_t> shape;              // 1.2 only: a file without a header
  std::uint64_t task_id = 0, stream_id = 0, timestamp_us = 0;
  bool is_input = false;
  std::uint32_t slot = 0;
};
bool parse_tensor_file_name(std::string_view name, TensorFileName& out);

// The parts of the name of a file with all tensors of an op, as CANN writes it, or, ending in `.csv`, with their
// statistics. Also in the forms of 1.2 (no stream), FFTS+ (four fields more), ACL graphs (a dump number) and exceptions
// (`exception_info.{stream}.{task}.{time}`).
struct OpFileName {
  std::string op_type, op_name;
  std::uint64_t task_id = 0, stream_id = 0, timestamp_us = 0;
  bool is_table = false;  // `.csv`
  // The file of an overflow, not of an op: `Opdebug.Node_OpDebug.…`.
  bool is_overflow_record() const { return op_type == "Opdebug"; }
};
// `any_time`: also with fewer than 13 digits, where only the content can decide: libfoo.so.1.2.3 would match.
bool parse_op_file_name(std::string_view name, OpFileName& out, bool any_time = false);

}  // namespace sonde
