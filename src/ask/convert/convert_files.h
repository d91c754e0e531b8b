// Many files converted at the same time.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ask/convert/convert.h"
#include "ask/convert/converted_names.h"
#include "sonde/findings.h"

namespace sonde {

struct ConvertTask {
  std::filesystem::path file, directory;
  std::string name;  // set if the file's own is a number that replaces a long name
};

// The meaning of the options; fails on a type or a format that does not exist, and on a shape without a format.
Result<ConvertSpec> convert_spec(const ConvertQuestion& options);

// Each path: the file, or every binary tensor file below the directory: an operator's container, a raw file of 1.2. The tree
// below a directory is kept below `out`. Fails if there is no such file.
Result<std::vector<ConvertTask>> find_convert_tasks(std::span<const std::filesystem::path> paths,
                                                    const std::filesystem::path& out);

// Converts every file as `spec` says, on all CPUs; large ones first, each with all of them. `done` is called once for each
// task, with its number, never twice at a time; in no order.
void convert_files(std::span<const ConvertTask> tasks, const ConvertSpec& spec,
                   const std::function<void(std::size_t task, Converted&& converted)>& done);

// Adds the rows of a file's tensors, those that were lost too, with the notes and the problems.
void add_converted(const ConvertTask& task, const Converted& converted, ConvertedFiles& answer);

}  // namespace sonde
