// The result of `first-bad`, for people and for programs (docs/json/first-bad.schema.json).
#pragma once

#include <cstddef>
#include <string>

#include "first_bad/first_bad.h"
#include "report/json.h"

namespace sonde {

std::string text_of(const FirstBad& report, std::size_t width);  // `width` of the terminal; 0: none
Json json_of(const FirstBad& report);

}  // namespace sonde
