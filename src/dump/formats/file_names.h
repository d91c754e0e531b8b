// Names of the files that hold tensors, taken apart: those of every MindSpore version and of CANN.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sonde {

// A name of an op as part of a file name: each of `/`, `\`, `.` and space becomes `_`.
std::string sanitised(std::string_view name);

// Parses the name of a file with one tensor (`.npy`, or `.bin` of 1.2), read from the right; false for any other name.
// A name of 1.2 has no type, ids or time of its own, but a shape. Names of converted containers (no format) and of
// TorchAir's eager dump (`add_1-aten.add.Tensor.OUTPUT.0.{time}.npy`) are also accepted. Times may have any number of
// digits.
struct TensorFileName {
  std::string op_type, op_name, format, dtype;  // format and dtype empty when the name has none
  std::string key;                              // TorchAir: `1.0`, the place of an item of a list; else empty
  std::vector<std::int64_t> shape;              // 1.2 only: a file without a header
  std::uint64_t task_id = 0, stream_id = 0, timestamp_us = 0;
  bool is_input = false;
  std::uint32_t slot = 0;
};
bool parse_tensor_file_name(std::string_view name, TensorFileName& out);

// Parses the name of a file with all tensors of an op, as CANN writes it, or, ending in `.csv`, with their statistics.
// Also accepts the forms of 1.2 (no stream), FFTS+ (four more fields), ACL graphs (a dump number) and exceptions
// (`exception_info.{stream}.{task}.{time}`).
struct OpFileName {
  std::string op_type, op_name;
  std::uint64_t task_id = 0, stream_id = 0, timestamp_us = 0;
  bool is_table = false;  // `.csv`
  // True for the file of an overflow: `Opdebug.Node_OpDebug.…`. It does not belong to an op.
  bool is_overflow_record() const { return op_type == "Opdebug"; }
};
// `any_time`: also accepts times of fewer than 13 digits. libfoo.so.1.2.3 then matches, so the content must decide.
bool parse_op_file_name(std::string_view name, OpFileName& out, bool any_time = false);

}  // namespace sonde
