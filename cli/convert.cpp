#include "convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "analysis/convert.h"
#include "dump.h"
#include "json.h"
#include "store/file_names.h"
#include "text.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

struct ConvertOptions {
  std::vector<std::string> paths;
  std::string out;
  bool json = false;
};

struct Task {
  fs::path file, directory;
};

// What a dump's own name tells: an operator's container, or a raw file of 1.2. Everything else in a tree is passed over.
bool is_binary(const fs::path& file) {
  const std::string name = file.filename().string();
  TensorFileName raw;
  OpFileName container;
  if (name.ends_with(".bin")) return parse_tensor_file_name(name, raw);
  // A number that stands for a name too long for the file system; mapping.csv has it.
  if (std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; })) return true;
  return file.extension() != ".csv" && parse_op_file_name(name, container);
}

// The files below `path`, each with the directory its tensors go to: the same tree below `out`.
void collect(const fs::path& path, const fs::path& out, std::vector<Task>& tasks) {
  std::error_code problem;
  if (!fs::is_directory(path, problem)) {
    tasks.push_back({path, out});
    return;
  }
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path, problem)) {
    if (entry.is_regular_file(problem) && is_binary(entry.path())) found.push_back(entry.path());
  }
  std::ranges::sort(found);
  for (fs::path& file : found) {
    const fs::path below = file.parent_path().lexically_relative(path);
    tasks.push_back({std::move(file), below == "." ? out : out / below});
  }
}

int convert(const ConvertOptions& options) {
  std::vector<Task> tasks;
  for (const std::string& path : options.paths) {
    const std::size_t before = tasks.size();
    collect(path, options.out, tasks);
    if (tasks.size() > before) continue;
    print_error(fmt::format("'{}' holds no binary tensor files; .npy files need no conversion", path));
    return kUnreadable;
  }
  Progress progress("converting", tasks.size());
  std::size_t files = 0, failed = 0;
  std::uint64_t bytes = 0;
  std::string lines;
  for (const Task& task : tasks) {
    const auto converted = convert_file(task.file, task.directory);
    progress.advance();
    if (!converted) {
      ++failed;
      print_error(converted.error().message);
      continue;
    }
    for (const ConvertedFile& file : *converted) {
      ++files;
      bytes += file.bytes;
      if (options.json) {
        lines += Json{{"from", task.file.string()}, {"to", file.path.string()}, {"bytes", file.bytes}}.dump() + "\n";
      }
    }
  }
  if (!options.json) {
    lines = fmt::format("{} of {} with {} in {}{}\n", count_text(files, "tensor"), count_text(tasks.size(), "file"),
                        bytes_text(bytes), options.out,
                        failed == 0 ? "" : fmt::format("; {} could not be read", count_text(failed, "file")));
  }
  return print_text(lines) && failed == 0 ? kNothingFound : kUnreadable;
}

}  // namespace

void add_convert(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App* verb = app.add_subcommand("convert", "Turn binary tensor files (CANN's containers, raw .bin) into .npy.");
  verb->add_option("PATH", options->paths, "files, or directories: then all binary files below")
      ->required()
      ->type_name("");
  verb->add_option("--out", options->out, "directory for the .npy files; a directory's own tree is kept below it")
      ->required()
      ->type_name("DIR");
  verb->add_flag("--json", options->json, "one line for each .npy file");
  verb->footer(
      "Names: FILE.{input|output}.SLOT.npy. Types that NumPy does not have become float32, exactly.\n"
      "Exit status: 0 all converted, 2 bad usage, 3 something could not be read or written.\n"
      "Example: sonde convert run7 --out run7_npy");
  verb->callback([options, &exit_status] { exit_status = convert(*options); });
}

}  // namespace sonde
