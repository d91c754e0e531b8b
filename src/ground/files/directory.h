// The entries of a directory, for directories with so many that a path for each of them would cost more than to read them.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>
#include <system_error>

#include "ground/files/files.h"

namespace sonde {

// Calls take(name, type) for each entry but `.` and `..`, in the order of the file system. `type` is that of a link itself.
// The name is valid during the call.
std::error_code for_each_entry(const std::filesystem::path& directory,
                               const std::function<void(std::string_view, std::filesystem::file_type)>& take);
// Of an open one; without it the error is in errno.
std::error_code for_each_entry(Fd directory,
                               const std::function<void(std::string_view, std::filesystem::file_type)>& take);

}  // namespace sonde
