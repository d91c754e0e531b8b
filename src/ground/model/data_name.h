// The names of tensors that no operator of a step made: parameters have the program's names; all else is data of the
// program (`data-3`), or left over from an earlier step (`carried-1`).
#pragma once

#include <string_view>

namespace sonde {

inline bool is_data_name(std::string_view name) {
  return name.empty() || name.starts_with("data-") || name.starts_with("carried-");
}

}  // namespace sonde
