#include "guests/msaccucmp/directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

#include "ground/base/text.h"
#include "ground/files/mapped_file.h"

namespace sonde::msaccucmp {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMapping = "mapping.csv", kFailedList = "convert_failed_file_list.txt";
constexpr std::size_t kTimestampDigits = 16, kLongestNumber = 255;
constexpr std::size_t kOrdinaryFields = 5;
constexpr std::array<std::string_view, 11> kQuantMarkers = {
    "_quant_layer",  "_anti_quant_layer", "AscendQuant",    "AscendWeightQuant", "AntiQuant", "_quant",
    "_weight_quant", "_anti_quant",       "_dequant_layer", "AscendDequant",     "_dequant"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_char(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
}
bool is_digits(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_digit); }

// Reads a name from its beginning: each call takes the named part, or nothing.
struct NameReader {
  std::string_view rest;

  std::string_view take(bool (*accepts)(char)) {
    std::size_t length = 0;
    while (length < rest.size() && accepts(rest[length])) ++length;
    const std::string_view taken = rest.substr(0, length);
    rest.remove_prefix(length);
    return taken;
  }
  bool dot() {
    if (!rest.starts_with('.')) return false;
    rest.remove_prefix(1);
    return true;
  }
};

bool is_golden(std::string_view name) {
  return name.ends_with(".npy") || name.ends_with(".pb") || name.ends_with(".quant");
}

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::uint64_t timestamp_of(std::string_view name, SliceMode mode) {
  const std::vector<std::string_view> fields = fields_in(name, '.');
  std::string_view text = fields.back();
  if (is_golden(name)) {
    text = fields.size() > 2 ? fields[2] : "";
  } else if (mode != SliceMode::whole) {
    text = fields.size() > 4 ? fields[4] : "";
    if (text.size() != kTimestampDigits && fields.size() > kOrdinaryFields) text = fields[5];  // after a dump number
  }
  return text.size() == kTimestampDigits && is_digits(text) ? number(text) : 0;
}

// The first field that can be a time.
std::uint64_t moment_of(std::string_view name) {
  for (const std::string_view field : fields_in(name, '.')) {
    if (field.size() == kTimestampDigits && is_digits(field)) return number(field);
  }
  return 0;
}

// The number that orders the slices of an operator.
std::uint64_t slice_of(std::string_view name, SliceMode mode) {
  const std::vector<std::string_view> fields = fields_in(name, '.');
  if (mode == SliceMode::automatic) return fields.size() > 1 ? number(fields[fields.size() - 2]) : 0;
  const std::string_view op_name = fields.size() > 1 ? fields[1] : "";
  return op_name.empty() || !is_digit(op_name.back()) ? 0 : static_cast<std::uint64_t>(op_name.back() - '0');
}

void sort_files(OpFiles& op) {
  const auto by = [&](auto key) {
    std::ranges::stable_sort(op.files, {}, [&](const DumpFile& file) { return key(file.name); });
  };
  by(moment_of);
  by([&](std::string_view name) { return timestamp_of(name, op.mode); });
  if (op.mode != SliceMode::whole) by([&](std::string_view name) { return slice_of(name, op.mode); });
  op.timestamp = timestamp_of(op.files.back().name, op.mode);
  op.moment = moment_of(op.files.back().name);
}

// A name in the form of CANN's newest writer for captured graphs: a dump number before the task.
bool is_acl_graph_name(const std::vector<std::string_view>& fields) {
  return fields.size() == kOrdinaryFields + 1 && std::all_of(fields.begin() + 2, fields.end(), is_digits) &&
         fields.back().size() == kTimestampDigits;
}

Outcome<SliceMode> slice_mode(std::string_view name) {
  const std::vector<std::string_view> fields = fields_in(name, '.');
  if (is_golden(name) || fields.size() <= kOrdinaryFields || is_acl_graph_name(fields)) return SliceMode::whole;
  const std::string_view task_type = fields[fields.size() - 4];
  if (task_type == "4" || task_type == "FFTSPLUS") {
    return name.find("_lxslice") != std::string_view::npos ? SliceMode::manual : SliceMode::automatic;
  }
  if (task_type.size() == 1 && task_type[0] >= '0' && task_type[0] <= '3') return SliceMode::whole;
  return Failure{
      Code::invalid_task_type,
      fmt::format("'{}': the task type '{}', the fourth field from the end, is not 0 to 4", name, task_type)};
}

using NameMap = std::unordered_map<std::string, std::string>;

constexpr std::uint64_t kLongestMapping = 64 << 20;  // bytes

NameMap read_mapping(const fs::path& directory) {
  NameMap names;
  const Result<std::string> text = read_whole_file(directory / kMapping, kLongestMapping);
  if (!text) return names;
  std::istringstream file(*text);
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with('\r')) line.pop_back();
    const std::size_t comma = line.find(',');
    if (comma != std::string::npos) names[line.substr(0, comma)] = line.substr(comma + 1);
  }
  return names;
}

struct Found {
  std::string key;
  DumpKind kind = DumpKind::offline;
  bool is_npy = false;
};

std::optional<Found> classify(std::string_view name, const ScanOptions& options) {
  Found found;
  std::string_view matched;
  if (name.ends_with(".npy")) {
    matched = golden_key(name, ".npy");
    found.kind = DumpKind::standard;
    found.is_npy = true;
  } else if (name.ends_with(".pb")) {
    matched = golden_key(name, ".pb");
    found.kind = DumpKind::standard;
  } else if (name.ends_with(".quant")) {
    matched = golden_key(name, ".quant");
    found.kind = DumpKind::quant;
  } else {
    matched = name.ends_with(".csv") ? "" : npu_op_name(name);  // statistics of an operator are not a dump of it
  }
  if (matched.empty()) return std::nullopt;
  found.key = op_key(matched, options);
  return found;
}

// The facts of the first file; all others must have the same.
struct Classes {
  std::optional<DumpKind> kind;
  bool is_npy = false;
};

Code take_file(Directory& directory, Classes& classes, DumpFile file, const ScanOptions& options, std::string& reason,
               const std::function<void(const std::string&)>& warn) {
  const std::optional<Found> found = classify(file.name, options);
  if (!found) {
    warn(
        fmt::format("'{}' is skipped: its name is neither op_type.op_name.task_id[.stream_id].timestamp nor "
                    "op_name.output_index.timestamp with .npy, .pb or .quant",
                    file.path.string()));
    return Code::ok;
  }
  if (found->key.empty()) return Code::ok;
  const Outcome<SliceMode> mode = slice_mode(file.name);
  if (!mode) {
    reason = mode.failure().reason;
    return mode.failure().status;
  }
  if (found->kind == DumpKind::offline || found->is_npy) {
    directory.quantised |= std::ranges::any_of(
        kQuantMarkers, [&](std::string_view marker) { return found->key.find(marker) != std::string::npos; });
  }
  if (!classes.kind) classes = {found->kind, found->is_npy};
  if (*classes.kind != found->kind || classes.is_npy != found->is_npy) {
    reason = fmt::format("'{}' holds files of different kinds, such as '{}'", directory.path.string(), file.name);
    return Code::unusable_directory;
  }
  const auto [place, is_new] = directory.by_key.try_emplace(found->key, directory.ops.size());
  if (is_new) directory.ops.push_back({found->key, {}, *mode, 0});
  OpFiles& op = directory.ops[place->second];
  op.mode = *mode;
  op.files.push_back(std::move(file));
  return Code::ok;
}

// The name that identifies a file; empty for a number that mapping.csv does not explain.
std::string real_name(const std::string& name, const NameMap& names,
                      const std::function<void(const std::string&)>& warn) {
  const std::string_view stem =
      std::string_view(name).substr(0, name.ends_with(".npy") ? name.size() - 4 : name.size());
  if (!is_digits(stem)) return name;
  const auto known = names.find(name);
  if (known != names.end()) return known->second;
  warn(fmt::format("'{}' is skipped: {} does not give the name for this number", name, kMapping));
  return "";
}

}  // namespace

std::string_view name_of(DumpKind kind) {
  switch (kind) {
    case DumpKind::offline:
      return "an NPU's dump";
    case DumpKind::standard:
      return "a framework's dump";
    case DumpKind::quant:
      return "a quantised framework's dump";
  }
  return "";
}

std::string_view npu_op_name(std::string_view name) {
  NameReader reader{name};
  if (reader.take(is_name_char).empty() || !reader.dot()) return "";
  const std::string_view op_name = reader.take(is_name_char);
  if (op_name.empty() || !reader.dot() || reader.take(is_digit).empty() || !reader.dot()) return "";
  const std::string_view last = reader.take(is_digit);  // the stream or, in the old form, the timestamp
  return last.empty() ? "" : op_name;
}

std::string_view golden_key(std::string_view name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return "";
  name.remove_suffix(suffix.size());
  const std::size_t time = name.rfind('.');
  if (time == std::string_view::npos || !is_digits(name.substr(time + 1)) || name.size() - time - 1 > kLongestNumber) {
    return "";
  }
  const std::string_view key = name.substr(0, time);
  const std::size_t index = key.rfind('.');
  if (index == std::string_view::npos || index == 0 || !is_digits(key.substr(index + 1))) return "";
  const bool dots = suffix == ".npy";
  const auto accepts = [&](char c) { return is_name_char(c) || (dots && c == '.'); };
  return std::ranges::all_of(key.substr(0, index), accepts) ? key : "";
}

std::string without_slices(std::string_view name) {
  constexpr std::string_view kSlice = "_lxslice";
  std::string out;
  for (std::size_t at = 0; at < name.size();) {
    if (name.substr(at).starts_with(kSlice) && at + kSlice.size() < name.size() && is_digit(name[at + kSlice.size()])) {
      at += kSlice.size();
      while (at < name.size() && is_digit(name[at])) ++at;
    } else {
      out += name[at++];
    }
  }
  return out;
}

std::string op_key(std::string_view op_name, const ScanOptions& options) {
  constexpr std::string_view kSlice = "_lxslice", kGraph = "sgt_graph_";
  if (options.keep_slices) return std::string(op_name);
  if (options.with_rules) return without_slices(op_name);
  std::string name(op_name);
  if (const std::size_t slice = name.rfind(kSlice);
      slice != std::string::npos && is_digits(std::string_view(name).substr(slice + kSlice.size()))) {
    name.resize(slice);
  }
  if (name.find("_sgt_graph") != std::string::npos) {
    // The text after the last `sgt_graph_<N>_`.
    for (std::size_t graph = name.rfind(kGraph); graph != std::string::npos; graph = name.rfind(kGraph, graph - 1)) {
      std::size_t end = graph + kGraph.size();
      const std::size_t digits = end;
      while (end < name.size() && is_digit(name[end])) ++end;
      if (end > digits) {
        if (end < name.size()) name.erase(0, end + 1);
        break;
      }
      if (graph == 0) break;
    }
  }
  return name.find(kSlice) == std::string::npos ? name : "";
}

std::string op_type_of(const fs::path& file) {
  std::string name = file.filename().string();
  std::ranges::replace(name, '*', '0');  // of merged slices
  return npu_op_name(name).empty() ? "NaN" : name.substr(0, name.find('.'));
}

const OpFiles* Directory::find(std::string_view op_name, std::optional<std::int64_t> output_index) const {
  std::string key(op_name);
  std::ranges::replace(key, '/', '_');
  std::ranges::replace(key, '.', '_');
  if (output_index) key += fmt::format(".{}", *output_index);
  const auto place = by_key.find(key);
  return place == by_key.end() ? nullptr : &ops[place->second];
}

Outcome<Directory> scan_directory(const fs::path& path, const ScanOptions& options,
                                  const std::function<void(const std::string&)>& warn) {
  std::error_code problem;
  std::vector<std::string> names;
  bool has_mapping = false;
  for (fs::directory_iterator entry(path, problem), end; !problem && entry != end; entry.increment(problem)) {
    std::string name = entry->path().filename().string();
    std::error_code unreadable;
    has_mapping |= name == kMapping;
    if (name != kMapping && name != kFailedList && entry->is_regular_file(unreadable)) names.push_back(std::move(name));
  }
  if (problem) {
    return Failure{Code::invalid_path, fmt::format("cannot list '{}': {}", path.string(), problem.message())};
  }
  std::ranges::sort(names);
  const NameMap mapping = has_mapping ? read_mapping(path) : NameMap();
  Directory directory;
  directory.path = path;
  Classes classes;
  for (const std::string& name : names) {
    directory.has_npy |= name.ends_with(".npy");
    DumpFile file{path / name, real_name(name, mapping, warn)};
    if (file.name.empty()) continue;
    std::string reason;
    const Code status = take_file(directory, classes, std::move(file), options, reason, warn);
    if (status != Code::ok) return Failure{status, reason};
  }
  if (!classes.kind) {
    return Failure{Code::unusable_directory, fmt::format("'{}' holds no dump files", path.string())};
  }
  directory.kind = classes.is_npy && directory.quantised ? DumpKind::quant : *classes.kind;
  for (OpFiles& op : directory.ops) sort_files(op);
  return directory;
}

}  // namespace sonde::msaccucmp
