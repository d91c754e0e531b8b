#include "ask/convert/convert_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <system_error>

#include "dump/formats/file_names.h"
#include "ground/base/parallel.h"
#include "ground/files/brought_files.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

// A file that would keep one thread busy when the others have nothing left to do.
constexpr std::uintmax_t kLargeBytes = 64 << 20;

// By its own name. Everything else in a tree is passed over.
bool is_binary(const fs::path& file) {
  const std::string name = file.filename().string();
  TensorFileName raw;
  OpFileName container;
  if (name.ends_with(".bin")) return parse_tensor_file_name(name, raw);
  // A number that replaces a name too long for the file system; mapping.csv has the name.
  if (std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; })) return true;
  return file.extension() != ".csv" && parse_op_file_name(name, container);
}

std::optional<ConvertedType> type_of(std::string_view word) {
  if (word == "npy") return ConvertedType::npy;
  if (word == "bin") return ConvertedType::bin;
  if (word == "msnpy") return ConvertedType::msnpy;
  if (word == "pt") return ConvertedType::pt;
  return std::nullopt;
}

Status add_tasks(const fs::path& path, const fs::path& out, LongNames& names, std::vector<ConvertTask>& tasks) {
  std::error_code problem;
  if (!fs::exists(path, problem)) return Error{ErrorCode::not_found, fmt::format("'{}' does not exist", path.string())};
  if (!fs::is_directory(path, problem)) {
    tasks.push_back({path, out, names.of(path)});
    return {};
  }
  if (Status listed = bring_tree(path); !listed) return listed;
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path, problem)) {
    if (!entry.is_directory(problem) && is_binary(entry.path())) found.push_back(entry.path());
  }
  if (found.empty()) {
    return Error{ErrorCode::not_found,
                 fmt::format("'{}' holds no binary tensor files; .npy files need no conversion", path.string())};
  }
  std::ranges::sort(found);
  for (fs::path& file : found) {
    const fs::path below = file.parent_path().lexically_relative(path);
    std::string name = names.of(file);
    tasks.push_back({std::move(file), below == "." ? out : out / below, std::move(name)});
  }
  return {};
}

}  // namespace

Result<ConvertSpec> convert_spec(const ConvertQuestion& options) {
  ConvertSpec spec;
  spec.shape = options.shape;
  spec.input = options.input;
  spec.output = options.output;
  const std::optional<ConvertedType> type = type_of(options.type);
  if (!type) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("type '{}' is unknown; expected npy, bin, msnpy or pt", options.type)};
  }
  spec.type = *type;
  if (options.format.empty()) {
    if (options.shape.empty()) return spec;
    return Error{ErrorCode::invalid_argument, "a shape is for a conversion: it needs a format"};
  }
  spec.format = format_from_name(options.format);
  if (spec.format) return spec;
  return Error{
      ErrorCode::invalid_argument,
      fmt::format("'{}' is not a format; try NCHW, NHWC, HWCN, ND, NC1HWC0, FRACTAL_Z or FRACTAL_NZ", options.format)};
}

Result<std::vector<ConvertTask>> find_convert_tasks(std::span<const fs::path> paths, const fs::path& out) {
  std::vector<ConvertTask> tasks;
  LongNames names;
  for (const fs::path& path : paths) {
    const Status found = add_tasks(path, out, names, tasks);
    if (!found) return found.error();
  }
  return tasks;
}

void convert_files(std::span<const ConvertTask> tasks, const ConvertSpec& spec,
                   const std::function<void(std::size_t task, Converted&& converted)>& done) {
  const Threads threads;
  std::mutex mutex;
  const auto convert_one = [&](std::size_t i, std::size_t threads_of_one) {
    ConvertSpec own = spec;
    own.threads = threads_of_one;
    if (!tasks[i].name.empty()) own.name = tasks[i].name;
    Converted converted = convert_file(tasks[i].file, tasks[i].directory, own);
    const std::scoped_lock lock(mutex);
    done(i, std::move(converted));
  };
  std::vector<std::size_t> small;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    std::error_code problem;
    const std::uintmax_t bytes = std::filesystem::file_size(tasks[i].file, problem);
    if (!problem && bytes >= kLargeBytes) {
      convert_one(i, threads.count());
    } else {
      small.push_back(i);
    }
  }
  threads.for_each(small.size(), [&](std::size_t i) { convert_one(small[i], 1); });
}

void add_converted(const ConvertTask& task, const Converted& converted, ConvertedFiles& answer) {
  for (const ConvertedFile& file : converted.written) {
    ConvertedTensor& row = answer.files.emplace_back();
    row.from = task.file.string();
    row.to = file.path.string();
    row.bytes = file.bytes;
  }
  for (const LostTensor& lost : converted.lost) {
    ConvertedTensor& row = answer.files.emplace_back();
    row.from = task.file.string();
    row.lost = lost.what;
    row.why = lost.message;
    answer.problems.push_back({task.file, lost.message});
  }
  answer.warnings.insert(answer.warnings.end(), converted.notes.begin(), converted.notes.end());
}

}  // namespace sonde
