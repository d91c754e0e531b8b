// The user's own rules for pairs of formats: Python scripts, run by a separate python3, only on request.
#pragma once

#include <filesystem>
#include <memory>

#include "ask/convert/convert.h"

namespace sonde {

// The scripts `directory`/format_convert/convert_FROM_to_TO.py. Each has a function convert(shape_from, shape_to,
// array) (for results in FRACTAL_Z: and group) that gets the flat array and returns an array. Fails if the directory
// has no format_convert, or if there are too many or too large scripts.
Result<std::unique_ptr<CustomConversions>> custom_scripts(const std::filesystem::path& directory);

}  // namespace sonde
