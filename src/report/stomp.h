// The result of `stomp`, for people and for programs (docs/json/stomp.schema.json).
#pragma once

#include <string>

#include "report/json.h"
#include "stomp/memory_stomp.h"

namespace sonde {

std::string text_of(const StompReport& report);
Json json_of(const StompReport& report);

}  // namespace sonde
