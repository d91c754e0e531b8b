#include "record/writer/container_file.h"

#include <algorithm>
#include <cstring>

#include "dump/formats/cann_types.h"
#include "dump/layout/layout.h"
#include "ground/base/json.h"
#include "ground/tensor/format.h"

namespace sonde {
namespace {

bool has_bytes(const TensorRecord& tensor) { return tensor.wanted && tensor.bytes != nullptr; }

bool is_empty(const TensorRecord& tensor) {
  return std::ranges::any_of(tensor.shape.values(), [](std::int64_t size) { return size == 0; });
}

// N, H, W, C in memory is N, C, H, W in the program.
std::vector<std::uint64_t> original_shape(const std::vector<std::uint64_t>& shape, Format format) {
  std::vector<std::uint64_t> original = shape;
  const bool channels_last = format == Format::nhwc || format == Format::ndhwc;
  if (channels_last && original.size() > 2) std::rotate(original.begin() + 1, original.end() - 1, original.end());
  return original;
}

ContainerTensor described(const TensorRecord& tensor) {
  ContainerTensor out;
  out.data_type = cann_type(tensor.dtype);
  out.format = static_cast<std::int32_t>(named_for_cann(tensor.format, tensor.shape.size()));
  out.shape.assign(tensor.shape.values().begin(), tensor.shape.values().end());
  out.original_shape = original_shape(out.shape, tensor.format);
  out.bytes = tensor.bytes ? tensor.bytes->bytes : 0;
  return out;
}

// --- overflow --------------------------------------------------------------------------------------------------------

constexpr std::size_t kRecordBytes = 2048;
constexpr std::size_t kAiCore = 256, kAiCoreStatus = 1024;
// The code in CANN's documents for an overflow of a floating-point computation.
constexpr std::uint64_t kFloatOverflow = 0x20;

void put_u64(std::string& bytes, std::size_t offset, std::uint64_t value) {
  for (std::size_t i = 0; i < 8; ++i) bytes[offset + i] = static_cast<char>(value >> (8 * i));
}

}  // namespace

bool has_container(const Record& record) { return std::ranges::any_of(record.tensors, has_bytes); }

Container container_of(const Record& record) {
  Container container;
  container.dump_time = record.timestamp_us;
  container.op_name = record.op->op_name;
  for (const TensorRecord& tensor : record.tensors) {
    if (!tensor.wanted) continue;
    std::vector<ContainerTensor>& side = tensor.is_input ? container.inputs : container.outputs;
    if (tensor.slot >= side.size()) side.resize(tensor.slot + 1);
    if (tensor.bytes || is_empty(tensor)) side[tensor.slot] = described(tensor);
  }
  return container;
}

int write_container(const Record& record, AsideFile& file, std::uint64_t& tensor_bytes) {
  const std::string head = container_head(container_of(record));
  std::string_view before = head;
  for (const bool inputs : {true, false}) {
    for (const TensorRecord& tensor : record.tensors) {
      if (tensor.is_input != inputs || !has_bytes(tensor)) continue;
      const int error_number = file.write(before, tensor.bytes->data, tensor.bytes->bytes);
      if (error_number != 0) return error_number;
      before = {};
      tensor_bytes += tensor.bytes->bytes;
    }
  }
  return 0;
}

void put_container(const Record& record, std::string_view head, std::byte* out) {
  std::memcpy(out, head.data(), head.size());
  out += head.size();
  for (const bool inputs : {true, false}) {
    for (const TensorRecord& tensor : record.tensors) {
      if (tensor.is_input != inputs || !has_bytes(tensor)) continue;
      std::memcpy(out, tensor.bytes->data, tensor.bytes->bytes);
      out += tensor.bytes->bytes;
    }
  }
}

std::string overflow_record(const Record& record) {
  std::string bytes(kRecordBytes, '\0');
  put_u64(bytes, kAiCore, record.step.graph);          // model_id
  put_u64(bytes, kAiCore + 16, task_number(record));   // task_id, after stream_id 0
  put_u64(bytes, kAiCoreStatus + 16, kFloatOverflow);  // after kernel_code and block_idx
  return bytes;
}

std::string overflow_json(const Record& record) {
  // The keys are sorted.
  const Json nothing = {{"model_id", 0},  {"para_base", "0x0"}, {"pc_start", "0x0"}, {"status", 0},
                        {"stream_id", 0}, {"task_id", 0},       {"task_type", 0}};
  Json core = {{"block_idx", 0}, {"kernel_code", "0x0"}};
  core.update(nothing);
  core["model_id"] = record.step.graph;
  core["status"] = kFloatOverflow;
  core["task_id"] = task_number(record);
  return text_of_json({{"AI Core", core}, {"DHA Atomic Add", nothing}, {"L2 Atomic Add", nothing}});
}

std::string overflow_container(const Record& record) {
  Container container;
  container.dump_time = record.timestamp_us;
  container.op_name = "Node_OpDebug";
  ContainerTensor& output = container.outputs.emplace_back();
  output.data_type = cann_type(DType::uint8);
  output.shape = output.original_shape = {kRecordBytes};
  output.bytes = kRecordBytes;
  return container_head(container) + overflow_record(record);
}

}  // namespace sonde
