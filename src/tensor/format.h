// Formats: how a tensor's elements lie in memory, by CANN's numbers (the field `format` of its dump container).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sonde {

enum class Format : std::uint16_t {
  nchw = 0,
  nhwc = 1,
  nd = 2,
  ndhwc = 27,
  ncdhw = 30,
  default_format = 0xFFFF,  // MindSpore's name for the host's own, C order; in a container nchw, ncdhw or nd by rank
};

// What CANN calls it: the default of a tensor with so many dimensions is nchw, ncdhw or nd; others are themselves.
Format named_for_cann(Format format, std::size_t dimensions);
// "NHWC", "FRACTAL_Z", "DefaultFormat"; empty for a number that CANN has no name for.
std::string_view name_of(Format format);

}  // namespace sonde
