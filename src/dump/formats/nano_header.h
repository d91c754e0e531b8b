// The header of a dump that a small device wrote: CANN's container with plain records instead of a protobuf message.
//
//   u32 5a5a5a5a · u32 version · u32 4, u32 bytes, u32 count, the inputs · u32 5, u32 bytes, u32 count, the outputs
#pragma once

#include <string_view>

#include "dump/formats/container.h"
#include "sonde/result.h"

namespace sonde {

inline constexpr std::uint32_t kNanoMagic = 0x5A5A5A5A;

// The tensors without their places in the file; their types are the container's. A tensor without a shape has one
// dimension of all its bytes. Fails with `corrupt` if a tensor reaches beyond the header.
Result<Container> parse_nano_header(std::string_view header);

}  // namespace sonde
