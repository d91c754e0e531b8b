// Many files converted at the same time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "convert/convert.h"

namespace sonde {

struct ConvertTask {
  std::filesystem::path file, directory;
  std::string name;  // where the file's own is a number that stands for one too long
};

// Converts every file as `wish` says, on all CPUs; large ones first, each with all of them. `done` is called once for each
// task, with its number, never twice at a time; in no order.
void convert_files(std::span<const ConvertTask> tasks, const ConvertWish& wish,
                   const std::function<void(std::size_t task, Converted&& converted)>& done);

}  // namespace sonde
