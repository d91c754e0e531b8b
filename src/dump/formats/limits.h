// Limits that every file reader checks, for all formats.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "sonde/result.h"

namespace sonde {

// As many as NumPy allows: a file with more dimensions is damaged.
inline constexpr std::size_t kMostDimensions = 64;

inline Error corrupt(std::string message) { return Error{ErrorCode::corrupt, std::move(message)}; }

}  // namespace sonde
