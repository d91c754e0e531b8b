// The same journal with other paths of files.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace sonde {

// Damaged and incomplete parts are kept as they are.
std::string rename_files(std::string_view journal, const std::function<std::string(const std::string& file)>& rename);

}  // namespace sonde
