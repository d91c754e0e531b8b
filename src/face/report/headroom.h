// The result of `headroom`, for people.
#pragma once

#include <cstddef>
#include <string>

#include "sonde/answers.h"

namespace sonde {

// The first rows, or all; `width` 0: unlimited.
std::string text_of(const HeadroomReport& report, bool all, std::size_t width);  // with marks (line_kind.h)

}  // namespace sonde
