// msaccucmp.py convert: dump files to .npy, plain bytes or .pt, in their own format or in another one.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "ask/convert/convert_files.h"
#include "ask/convert/converted_names.h"
#include "custom_scripts.h"
#include "ground/base/parse_number.h"
#include "ground/base/text.h"
#include "ground/files/files.h"
#include "ground/files/safe_path.h"
#include "msaccucmp.h"

namespace sonde::msaccucmp {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFailedList = "convert_failed_file_list.txt";
constexpr std::string_view kMappingFile = "mapping.csv";

const Option kConvertOptions[] = {
    {{"-d", "--dump_file"}, "the dump file, a list of them with commas, or a directory", Option::Takes::value, true},
    {{"-out", "--output"}, "the directory for the results (default: the current one)"},
    {{"-f", "--format"}, "the format to convert to: NCHW, NHWC, HWCN, ND, FRACTAL_Z, …"},
    {{"-s", "--shape"}, "the real shape, such as 1,3,224,224; only with -f"},
    {{"-o", "--output_tensor"}, "only this output; only with -f"},
    {{"-i", "--input_tensor"}, "only this input; only with -f"},
    {{"-c", "--custom_script_path"}, "directory with format_convert/convert_X_to_Y.py; only with -f"},
    {{"-v", "--version"}, "ignored", Option::Takes::value, false, {"1", "2"}},
    {{"-t", "--type"}, "type of the written files", Option::Takes::value, false, {"npy", "bin", "msnpy", "pt"}},
};

int status_of(ConvertFault fault) {
  switch (fault) {
    case ConvertFault::unreadable:
      return kCannotOpen;
    case ConvertFault::damaged:
      return kInvalidDump;
    case ConvertFault::size_mismatch:
      return kSizeMismatch;
    case ConvertFault::unknown_type:
      return kInvalidType;
    case ConvertFault::no_rule:
      return kInvalidFormat;
    case ConvertFault::wrong_shape:
      return kInvalidParameter;
    case ConvertFault::not_in_file:
      return kOutOfRange;
    case ConvertFault::conversion:
      return kConversionFailed;
    case ConvertFault::bad_name:
      return kInvalidPath;
    case ConvertFault::slices_mismatch:
      return kSlicesDoNotMatch;
    case ConvertFault::not_a_record:
      return kInvalidOverflowType;
    case ConvertFault::cannot_write:
      return kCannotWrite;
  }
  return kUnknown;
}

// Reads `-f` and the options for it. Returns an ExitCode.
int read_format(const Arguments& arguments, bool is_single_file, ConvertSpec& spec) {
  if (!arguments.has("-f")) {
    for (const std::string_view name : {"-s", "-o", "-i", "-c"}) {
      if (!arguments.has(name)) continue;
      log_error(fmt::format("{} is only for a conversion to another format: it needs -f", name));
      return kInvalidParameter;
    }
    return kDone;
  }
  const std::string name = arguments.value("-f");
  spec.format = format_from_name(name);
  if (!spec.format || name == "RESERVED" || name == "ALL" || name == "NULL") {
    log_error(fmt::format("'{}' is not a format that a tensor can have; try NCHW, NHWC, HWCN, ND or FRACTAL_Z", name));
    return kInvalidParameter;
  }
  if (!is_single_file) {
    for (const std::string_view option : {"-s", "-o", "-i"}) {
      if (arguments.has(option)) log_warning(fmt::format("{} is ignored: there is more than one file", option));
    }
    return kDone;
  }
  for (const auto& [option, slot] : {std::pair{"-o", &spec.output}, std::pair{"-i", &spec.input}}) {
    if (!arguments.has(option)) continue;
    std::uint32_t number = 0;
    if (!parse_number(arguments.value(option), number)) {
      log_error(fmt::format("{}: '{}' is not a number of a tensor", option, arguments.value(option)));
      return kInvalidParameter;
    }
    *slot = number;
  }
  if (!arguments.has("-s")) return kDone;
  const std::string shape = arguments.value("-s");
  for (const std::string_view size : fields_in(shape, ',')) {
    if (parse_number(size, spec.shape.emplace_back()) && spec.shape.back() > 0) continue;
    spec.shape.clear();
    break;
  }
  if (spec.shape.size() >= 2) return kDone;
  log_error(fmt::format("-s: '{}' is not a shape; expected two or more sizes above 0, such as 1,3,224,224", shape));
  return kInvalidShape;
}

// The files that -d names. Returns an ExitCode.
int find_files(const std::string& wanted, const fs::path& out, std::vector<ConvertTask>& tasks, bool& is_single_file) {
  std::error_code problem;
  const std::vector<std::string_view> paths = fields_in(wanted, ',');
  LongNames names;
  const auto add = [&](const fs::path& file) { tasks.push_back({file, out, names.of(file)}); };
  is_single_file = paths.size() == 1 && fs::is_regular_file(wanted, problem);
  if (paths.size() == 1 && !fs::exists(wanted, problem)) {
    log_error(fmt::format("'{}' does not exist", wanted));
    return kInvalidPath;
  }
  if (paths.size() == 1 && fs::is_directory(wanted, problem)) {
    const bool is_empty = fs::is_empty(wanted, problem);
    std::vector<fs::path> files;
    for (const fs::directory_entry& entry : fs::directory_iterator(wanted, problem)) {
      if (entry.is_regular_file(problem) && entry.path().filename() != kMappingFile) files.push_back(entry.path());
    }
    if (problem || is_empty) {
      log_error(fmt::format("'{}' {}", wanted, problem ? "cannot be read: " + problem.message() : "is empty"));
      return problem ? kInvalidPath : kInvalidParameter;
    }
    std::ranges::sort(files);
    for (const fs::path& file : files) add(fs::absolute(file).lexically_normal());
    return kDone;
  }
  for (const std::string_view path : paths) {
    const std::size_t begin = std::min(path.find_first_not_of(' '), path.size());
    const fs::path file = path.substr(begin, path.find_last_not_of(' ') + 1 - begin);
    if (!fs::exists(file, problem)) {
      log_error(fmt::format("'{}' does not exist", file.string()));
    } else if (fs::is_regular_file(file, problem)) {
      add(fs::absolute(file).lexically_normal());
    } else if (paths.size() == 1) {
      log_error(fmt::format("'{}' is neither a file nor a directory", wanted));
      return kInvalidPath;
    } else {
      log_warning(fmt::format("'{}' is skipped: in a list only files are converted", file.string()));
    }
  }
  if (!tasks.empty()) return kDone;
  log_error(fmt::format("'{}' does not contain a file", wanted));
  return kInvalidPath;
}

// One line for each file with lost tensors; with -f the tensors follow it.
void write_failed_list(const fs::path& out, std::span<const ConvertTask> tasks, std::span<const Converted> results,
                       bool with_tensors) {
  std::string lines;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (results[i].lost.empty()) continue;
    lines += tasks[i].file.string();
    for (const LostTensor& lost : results[i].lost) {
      if (!with_tensors || lost.what.empty()) continue;
      std::string what = lost.what;
      std::ranges::replace(what, '.', ':');
      lines += "," + what;
    }
    lines += "\n";
  }
  if (lines.empty()) return;
  const fs::path path = out / kFailedList;
  const Result<Fd> file = open_output(path, OutputMode::append, kOpenMode);
  if (!file || write_all(file->get(), lines.data(), lines.size()) != 0) {
    log_error(file ? fmt::format("cannot write '{}'", path.string()) : file.error().message);
  } else {
    log_info(fmt::format("'{}' lists the files with lost tensors", path.string()));
  }
}

// The progress bar of a directory, at most once a second.
class ProgressLog {
 public:
  explicit ProgressLog(std::size_t total) : total_(total) {}

  void advance() {
    ++done_;
    const auto now = std::chrono::steady_clock::now();
    if (total_ < 2 || (done_ < total_ && now - last_ < std::chrono::seconds(1))) return;
    last_ = now;
    const std::size_t part = done_ * 50 / total_;
    log_info(fmt::format("[{}{}] {}%", std::string(part, '>'), std::string(50 - part, ' '), done_ * 100 / total_));
  }

 private:
  std::size_t total_, done_ = 0;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

int convert_all(const std::vector<ConvertTask>& tasks, const ConvertSpec& spec, const fs::path& out,
                bool is_single_file) {
  std::vector<Converted> results(tasks.size());
  ProgressLog progress(tasks.size());
  convert_files(tasks, spec, [&](std::size_t task, Converted&& converted) {
    for (const ConvertedFile& file : converted.written) log_info(fmt::format("wrote '{}'", file.path.string()));
    for (const std::string& note : converted.notes) log_warning(note);
    for (const LostTensor& lost : converted.lost) log_error(lost.message);
    results[task] = std::move(converted);
    progress.advance();
  });
  if (!is_single_file) write_failed_list(out, tasks, results, spec.format.has_value());
  // The last error of the first file that has one.
  for (const Converted& result : results) {
    if (!result.lost.empty()) return status_of(result.lost.back().fault);
  }
  return kDone;
}

// Checks the paths by the original's rules for characters.
int check_paths(const Arguments& arguments) {
  for (const std::string_view option : {"-d", "-c"}) {
    const std::string path = arguments.value(option);
    if (is_allowed_path(path)) continue;
    log_error(fmt::format("{}: '{}' has characters other than A-Z a-z 0-9 _ / . , -", option, path));
    return kBadArguments;
  }
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_\\./:()=-";
  const std::string out = arguments.value("-out");
  if (out.find_first_not_of(kAllowed) == std::string::npos) return kDone;
  log_error(fmt::format("-out: '{}' has characters other than A-Z a-z 0-9 _ \\ . / : ( ) = -", out));
  return kInvalidParameter;
}

int convert(const Arguments& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  if (const int status = check_paths(arguments); status != kDone) return status;
  const std::string wanted = arguments.value("-d"), out = arguments.value("-out", ".");
  ConvertSpec spec;
  spec.is_strict = true;
  const std::string type = arguments.value("-t", "npy");
  spec.type = type == "bin"     ? ConvertedType::bin
              : type == "msnpy" ? ConvertedType::msnpy
              : type == "pt"    ? ConvertedType::pt
                                : ConvertedType::npy;
  if (arguments.has("-o") && arguments.has("-i")) {
    log_error("-o and -i exclude each other");
    return kBadArguments;
  }
  if (arguments.value("-v") == "1") log_warning("version 1 is read like version 2");
  std::vector<ConvertTask> tasks;
  bool is_single_file = false;
  const fs::path directory = fs::absolute(out.empty() ? "." : out).lexically_normal();
  const int found = find_files(wanted, directory, tasks, is_single_file);
  if (const int status = read_format(arguments, is_single_file, spec); status != kDone) return status;
  if (found != kDone) return found;
  std::unique_ptr<CustomConversions> custom;
  if (arguments.has("-c")) {
    Result<std::unique_ptr<CustomConversions>> scripts = custom_scripts(arguments.value("-c"));
    if (!scripts) {
      log_error(scripts.error().message);
      return kInvalidPath;
    }
    custom = std::move(*scripts);
    spec.custom = custom.get();
  }
  if (Status made = make_directories(directory); !made) {
    log_error(made.error().message);
    return kInvalidPath;
  }
  const int status = convert_all(tasks, spec, directory, is_single_file);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  log_info(fmt::format("the conversion took {:.2f} s", seconds.count()));
  return status;
}

}  // namespace

const Command kConvert = {"convert", "Convert dump files to npy, bin or pt, in their own format or in another one.",
                          kConvertOptions, convert};

}  // namespace sonde::msaccucmp
