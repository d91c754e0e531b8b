// msaccucmp.py overflow: show the operators that overflowed first, and their tensors.
#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "answer.h"
#include "ask/convert/convert.h"
#include "ask/convert/converted_names.h"
#include "ask/convert/overflow_json.h"
#include "dump/formats/npy_reader.h"
#include "dump/formats/tensor_file.h"
#include "face/report/text.h"
#include "ground/base/text.h"
#include "ground/files/files.h"
#include "ground/files/safe_path.h"
#include "ground/tensor/format.h"
#include "msaccucmp.h"
#include "read/measure/numpy_summary.h"

namespace sonde::msaccucmp {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 30;
constexpr std::uint64_t kNoId = 65535;

const Option kOverflowOptions[] = {
    {{"-d", "--dump_path"}, "the directory of the dump", Option::Takes::value, true},
    {{"-out", "--output"}, "the directory for the results", Option::Takes::value, true},
    {{"-n", "--top_n"}, "number of overflows to examine", Option::Takes::value, false, {"1", "2", "3", "4", "5"}},
};

// The name of a dump file: type, name, task[, stream], time[, task type, context, thread, device].
struct DumpName {
  fs::path path;
  std::string name, op_type;
  std::uint64_t task_id = 0, timestamp = 0;
  std::optional<std::uint64_t> stream_id, context_id, thread_id;
};

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<DumpName> parse_name(const fs::path& path, const std::string& name) {
  std::vector<std::string_view> fields = fields_in(name, '.');
  if (fields.size() < 4 || fields[0].empty() || fields[1].empty()) return std::nullopt;
  std::vector<std::uint64_t> numbers;
  for (std::size_t i = 2; i < fields.size(); ++i) {
    if (fields[i] == "FFTSPLUS") fields[i] = "4";
    const auto value = number(fields[i]);
    if (!value) return std::nullopt;
    numbers.push_back(*value);
  }
  DumpName out{path, name, std::string(fields[0]), numbers[0], numbers[1], {}, {}, {}};
  if (numbers.size() == 4) numbers.erase(numbers.begin());  // a graph's dump number before the task
  if (numbers.size() >= 3) {
    out.task_id = numbers[0];
    out.stream_id = numbers[1];
    out.timestamp = numbers[2];
  }
  if (numbers.size() >= 6) {
    out.context_id = numbers[4];
    out.thread_id = numbers[5];
  }
  return out;
}

std::vector<DumpName> dump_files(const fs::path& directory) {
  std::vector<DumpName> files;
  LongNames names;
  std::error_code problem;
  for (auto entry = fs::recursive_directory_iterator(directory, fs::directory_options::skip_permission_denied, problem);
       !problem && entry != fs::recursive_directory_iterator(); entry.increment(problem)) {
    if (entry.depth() >= kDeepest) entry.disable_recursion_pending();
    if (!entry->is_regular_file(problem)) continue;
    if (auto file = parse_name(entry->path(), names.of(entry->path()))) files.push_back(std::move(*file));
  }
  std::ranges::sort(files, [](const DumpName& a, const DumpName& b) {
    return std::pair(a.timestamp, a.path) < std::pair(b.timestamp, b.path);
  });
  return files;
}

// Converts all tensors of a file, and reports lost ones. False if nothing could be read.
bool convert_into(const DumpName& file, const fs::path& out) {
  ConvertSpec spec;
  spec.is_strict = true;
  if (file.name != file.path.filename()) spec.name = file.name;
  const Converted converted = convert_file(file.path, out, spec);
  for (const LostTensor& lost : converted.lost) log_error(lost.message);
  return converted.lost.empty() || !converted.written.empty();
}

Result<OverflowRecord> record_of(const DumpName& file) {
  const Result<TensorFile> tensor = TensorFile::open(file.path, {.is_input = false, .slot = 0});
  if (!tensor) return tensor.error();
  const TensorView view = tensor->view();
  return read_overflow_record({view.data, view.bytes()});
}

bool is_same_task(const DumpName& file, const OverflowRecord& record) {
  if (file.task_id != record.task_id || (file.stream_id && *file.stream_id != record.stream_id)) return false;
  const auto agrees = [&](std::uint64_t wanted, const std::optional<std::uint64_t>& has) {
    return !record.has_context || wanted == 0 || wanted == kNoId || has == wanted;
  };
  return agrees(record.context_id, file.context_id) && agrees(record.thread_id, file.thread_id);
}

// Appends the lines of one operator's tensors. Returns an ExitCode.
int report_tensors(const DumpName& file, const fs::path& out, std::string& text) {
  const Result<Container> container = read_container(file.path);
  if (!container) {
    log_error(container.error().message);
    return kInvalidDump;
  }
  for (const bool is_input : {true, false}) {
    const auto& side = is_input ? container->inputs : container->outputs;
    for (std::size_t slot = 0; slot < side.size(); ++slot) {
      const std::string name =
          fmt::format("{}.{}.{}.npy", file.path.filename().string(), is_input ? "input" : "output", slot);
      const Result<NpyFile> npy = NpyFile::open(out / name);
      if (!npy) continue;  // reported as lost
      const TensorView view = npy->view();
      const std::string_view format = name_of(static_cast<Format>(side[slot].format & 0xFF));
      if (view.elements() == 0) {
        log_warning(fmt::format("'{}' holds no elements", name));
        text += fmt::format(" {}\n -[Format: {}] [Shape: (0,)]\n", name, format);
        continue;
      }
      const NumpySummary summary = numpy_summary(view);
      text += fmt::format(" {}\n -[Format: {}] [Shape: {}] [Dtype: {}] [Max: {}] [Min: {}] [Mean: {}]\n", name, format,
                          summary.shape, summary.dtype, summary.max, summary.min, summary.mean);
    }
  }
  return kDone;
}

int report_overflow(std::size_t index, const DumpName& debug, const fs::path& out, std::string& text) {
  text += fmt::format("{}[{}]{}\n", std::string(49, '='), index, std::string(50, '='));
  if (!convert_into(debug, out)) return kInvalidDump;
  const Result<OverflowRecord> record = record_of(debug);
  if (!record) {
    log_error(fmt::format("'{}': {}", debug.path.string(), record.error().message));
    return record.error().code == ErrorCode::unsupported ? kInvalidOverflowType : kInvalidDump;
  }
  if (record->summary_lines.empty()) {
    log_error(fmt::format("'{}' reports no overflow: its status is 0", debug.path.string()));
    return record->has_context ? kInvalidOverflowStatus : kInvalidOverflowType;
  }
  std::string lines;
  for (const std::string& line : record->summary_lines) lines += line + "\n";
  lines += fmt::format(" [timestamp:{}]\n", debug.timestamp);
  for (const DumpName& file : dump_files(debug.path.parent_path())) {
    if (file.op_type == "Opdebug" || !is_same_task(file, *record)) continue;
    if (!convert_into(file, out)) return kInvalidDump;
    const Result<Container> container = read_container(file.path);
    text += printable(fmt::format("[{}] {}", file.op_type, container ? container->op_name : "")) + "\n";
    text += lines;
    return report_tensors(file, out, text);
  }
  log_warning(fmt::format("no dump file of task {} of stream {} is beside '{}'", record->task_id, record->stream_id,
                          debug.path.string()));
  text += lines;
  return kDone;
}

int overflow(const Arguments& arguments) {
  for (const std::string_view option : {"-d", "-out"}) {
    if (is_allowed_path(arguments.value(option))) continue;
    log_error(fmt::format("{}: '{}' has characters other than A-Z a-z 0-9 _ / . , -", option, arguments.value(option)));
    return kBadArguments;
  }
  std::error_code problem;
  const fs::path directory = fs::absolute(arguments.value("-d")).lexically_normal();
  const fs::path out = fs::absolute(arguments.value("-out")).lexically_normal();
  if (!fs::is_directory(directory, problem)) {
    log_error(fmt::format("-d: '{}' is not a directory", directory.string()));
    return kInvalidPath;
  }
  if (Status made = make_directories(out); !made) {
    log_error(made.error().message);
    return kInvalidPath;
  }
  std::vector<DumpName> debugs = dump_files(directory);
  std::erase_if(debugs, [](const DumpName& file) { return !is_overflow_file(file.name); });
  if (debugs.empty()) {
    log_warning(fmt::format("no overflow is recorded in '{}'", directory.string()));
    return kDone;
  }
  const std::size_t count = std::min(debugs.size(), static_cast<std::size_t>(*number(arguments.value("-n", "1"))));
  log_info(fmt::format("{} overflows are recorded; the first {} follow", debugs.size(), count));
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    if (const int status = report_overflow(i + 1, debugs[i], out, text); status != kDone) return status;
  }
  print_notice(text);
  const std::time_t now = std::time(nullptr);
  const fs::path summary = out / fmt::format("overflow_summary_{:%Y%m%d%H%M%S}.txt", fmt::localtime(now));
  const Result<Fd> file = open_output(summary, OutputMode::rewrite, kOpenMode);
  if (file && write_all(file->get(), text.data(), text.size()) == 0) return kDone;
  log_error(file ? fmt::format("cannot write '{}'", summary.string()) : file.error().message);
  return kCannotWrite;
}

}  // namespace

const Command kOverflow = {"overflow", "Show the operators that overflowed first, and their tensors.", kOverflowOptions,
                           overflow};

}  // namespace sonde::msaccucmp
