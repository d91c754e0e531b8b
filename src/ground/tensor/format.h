// Formats: the memory order of a tensor's elements, by CANN's numbers (the field `format` of its dump container).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sonde {

// Sonde can rearrange these (reformat.h); the others have only a name.
enum class Format : std::uint16_t {
  nchw = 0,
  nhwc = 1,
  nd = 2,
  nc1hwc0 = 3,
  fractal_z = 4,
  nhwc1c0 = 6,
  c1hwnc0 = 9,
  nc1hwc0_c04 = 12,
  fractal_z_c04 = 13,
  chwn = 14,
  hwcn = 16,
  filter_hwck = 19,
  c1hwncoc0 = 25,
  ndhwc = 27,
  fractal_zz = 28,
  fractal_nz = 29,
  ncdhw = 30,
  dhwcn = 31,
  ndc1hwc0 = 32,
  fractal_z_3d = 33,
  cn = 34,
  nc = 35,
  dhwnc = 36,
  fractal_z_g = 39,
  ncl = 47,
  c1hwc0 = 49,
  default_format = 0xFFFF,  // MindSpore's name for the host's own, C order; in a container nchw, ncdhw or nd by rank
};

// CANN's name for it: the default of a tensor with so many dimensions is nchw, ncdhw or nd; others are unchanged.
Format named_for_cann(Format format, std::size_t dimensions);
// "NHWC", "FRACTAL_Z", "DefaultFormat"; empty for a number without a name.
std::string_view name_of(Format format);
// The format of that name, in capitals as CANN spells it; empty for an unknown name.
std::optional<Format> format_from_name(std::string_view name);

}  // namespace sonde
