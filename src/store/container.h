// CANN's dump container: one file with all tensors of an op. docs/format.md, "Container".
//
//   u64 H, little-endian · H bytes of the protobuf message DumpData · the bytes of all inputs, then of all outputs
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sonde/result.h"

namespace sonde {

// What the header says of one tensor. Its place in the list is its slot.
struct ContainerTensor {
  std::int32_t data_type = 0;                        // cann_types.h; 0 with `bytes` 0: a slot without a tensor
  std::int32_t format = 2;                           // tensor/format.h
  std::vector<std::uint64_t> shape, original_shape;  // as the elements lie; as the program sees it
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  // from the beginning of the file; a reader's
};

struct Container {
  std::string version = "2.0";
  std::uint64_t dump_time = 0;  // microseconds since the Unix epoch
  std::string op_name;          // with `/`
  std::vector<ContainerTensor> inputs, outputs;
};

// Everything of a file that stands before the bytes of its first tensor.
std::string container_head(const Container& container);

// How many bytes a reader needs for parse_container: the length and the message. `start`: the first 12 bytes of the
// file, or all that it has. Fails with `corrupt`, or `unsupported` for the dump of a nano device.
Result<std::uint64_t> container_head_bytes(std::string_view start, std::uint64_t file_bytes);
// `start`: the first bytes of the file, the whole header at least; `file_bytes`: how long the file is. Every size is
// held against it: what the result names lies inside the file. Unknown fields, and bytes at the end, are passed over.
Result<Container> parse_container(std::string_view start, std::uint64_t file_bytes);

}  // namespace sonde
