// The result of `stomp`, for people.
#pragma once

#include <string>

#include "ask/stomp/memory_stomp.h"

namespace sonde {

std::string text_of(const StompReport& report);  // with marks (line_kind.h)

}  // namespace sonde
