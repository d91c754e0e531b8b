// The result of `first-bad`, for people.
#pragma once

#include <cstddef>
#include <string>

#include "ask/first_bad/first_bad.h"

namespace sonde {

std::string text_of(const FirstBad& report,
                    std::size_t width);  // with marks (line_kind.h). `width` of the terminal; 0: none

}  // namespace sonde
