// Formats: how a tensor's elements lie in memory, by CANN's numbers (the field `format` of its dump container).
#pragma once

#include <cstdint>

namespace sonde {

enum class Format : std::uint16_t {
  nchw = 0,
  nhwc = 1,
  nd = 2,
  ndhwc = 27,
  ncdhw = 30,
  default_format = 0xFFFF,  // MindSpore's name for the host's own, C order; in a container nchw, ncdhw or nd by rank
};

}  // namespace sonde
