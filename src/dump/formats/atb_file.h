// A tensor file of ATB (Ascend Transformer Boost): lines `key=value` up to `$End=…`, then the elements.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sonde/dtype.h"
#include "sonde/result.h"

namespace sonde {

struct AtbHeader {
  DType dtype = DType::undefined;
  std::vector<std::int64_t> shape;
  std::uint64_t data_offset = 0;
  std::string data;  // the file with the elements if they are not in this one; else empty
};

// True if a file with this start is an ATB file.
bool is_atb(std::string_view start);

// `file`: all of it. Does not check that the elements are there.
Result<AtbHeader> parse_atb(std::string_view file);

}  // namespace sonde
