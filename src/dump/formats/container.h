// CANN's dump container: one file with all tensors of an op. docs/format.md, "Container".
//
//   u64 H, little-endian · H bytes of the protobuf message DumpData · the bytes of all inputs, outputs, buffers, spaces
//
// Small devices write a header of their own in the message's place (nano_header.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sonde/result.h"

namespace sonde {

// The operator of the user's model that made an output, before CANN fused or rewrote it.
struct OriginalOutput {
  std::string op_name;
  std::uint32_t slot = 0;
  std::int32_t data_type = 0, format = 0;
};

// The header's facts about one tensor. Its place in the list is its slot.
struct ContainerTensor {
  std::int32_t data_type = 0;                        // cann_types.h; 0 with `bytes` 0: a slot without a tensor
  std::int32_t format = 2;                           // tensor/format.h
  std::vector<std::uint64_t> shape, original_shape;  // in memory order; as the program sees it
  std::uint64_t bytes = 0;
  // Only readers set the following fields.
  std::uint64_t offset = 0;     // from the beginning of the file
  bool is_cut = false;          // the file ends before the tensor does; `bytes` is 0
  std::int32_t sub_format = 0;  // of a weight in FRACTAL_Z: the number of groups of the convolution
  std::uint64_t address = 0;    // on the device
  std::optional<OriginalOutput> original;
};

// A buffer of the device's first-level memory, or a workspace: bytes without type or shape.
struct ContainerBytes {
  std::int32_t type = 0;
  std::uint64_t bytes = 0, offset = 0;
  bool is_cut = false;
};

struct Container {
  std::string version = "2.0";
  std::uint64_t dump_time = 0;  // microseconds since the Unix epoch
  std::string op_name;          // with `/`
  std::vector<ContainerTensor> inputs, outputs;
  // Only readers set the following fields.
  std::vector<ContainerBytes> buffers, spaces;
  std::vector<std::pair<std::string, std::string>> attributes;  // name, value
  std::string dfx_message;                                      // of the dump of an exception
  bool is_nano = false;                                         // of a small device; its types are still CANN's
  std::uint64_t total_bytes = 0;  // expected size of the file; more than 2^63 if the header is wrong
  std::string cut;                // the part that is cut off and its place, if a cut is allowed
};

// The part of a file before the bytes of its first tensor.
std::string container_head(const Container& container);

// The number of bytes that parse_container needs: the length and the message. `start`: the first 12 bytes of the file,
// or all of a shorter one. Fails with `corrupt`.
Result<std::uint64_t> container_head_bytes(std::string_view start, std::uint64_t file_bytes);
// `start`: the first bytes of the file, with the whole header. `file_bytes`: the size of the file; every size is
// checked against it, so all parts in the result lie inside the file. Unknown fields, and bytes at the end, are
// skipped. A file that ends too early is `corrupt`, or, with `allow_cut`, has tensors that are marked as cut.
Result<Container> parse_container(std::string_view start, std::uint64_t file_bytes, bool allow_cut = false);

}  // namespace sonde
