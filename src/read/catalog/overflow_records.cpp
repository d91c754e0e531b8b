#include "read/catalog/overflow_records.h"

#include <array>
#include <cstring>
#include <filesystem>
#include <vector>

#include "dump/formats/file_names.h"
#include "dump/formats/tensor_file.h"
#include "ground/base/json.h"
#include "ground/files/mapped_file.h"
#include "read/catalog/name_mapping.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;
using Task = std::pair<std::uint64_t, std::uint64_t>;  // task, stream

constexpr std::uint64_t kTasks = 65536;  // task ids are compared modulo this
constexpr std::uintmax_t kLongestText = 1 << 20;
constexpr std::size_t kOldRecord = 2048;  // bytes
constexpr std::uint32_t kNewMagic = 0x5A5A5A5A;

template <typename T>
T load(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

// Uses the last of the three sections with a non-zero status (docs/format.md, "Overflow records").
std::optional<Task> task_of_old(const std::byte* record) {
  struct Section {
    std::size_t info, status;
  };
  constexpr std::array<Section, 3> kSections = {{{0, 512}, {128, 768}, {256, 1040}}};
  std::optional<Task> task;
  for (const Section& section : kSections) {
    if (load<std::uint64_t>(record + section.status) == 0) continue;
    task = Task(load<std::uint64_t>(record + section.info + 16), load<std::uint64_t>(record + section.info + 8));
  }
  return task;
}

// A container of outputs of bytes, each a record.
std::optional<Task> task_in_container(const fs::path& path) {
  const Result<TensorFile> file = TensorFile::open(path, {.is_input = false, .slot = 0});
  if (!file) return std::nullopt;
  const TensorView view = file->view();
  if (view.bytes() >= 48 && load<std::uint32_t>(view.data) == kNewMagic) {
    return Task(load<std::uint64_t>(view.data + 40), load<std::uint64_t>(view.data + 32));
  }
  return view.bytes() == kOldRecord ? task_of_old(view.data) : std::nullopt;
}

std::uint64_t number(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

bool has_status(const Json& section) {
  const auto status = section.find("status");
  if (status == section.end()) return false;
  return status->is_array() ? !status->empty() : *status != 0;
}

// The same record as text.
std::optional<Task> task_in_text(const fs::path& path) {
  const Result<std::string> text = read_whole_file(path, kLongestText);
  if (!text) return std::nullopt;
  const Json json = json_of_others(*text);
  if (!json.is_object()) return std::nullopt;
  std::optional<Task> task;
  const auto take = [&](const Json& section) {
    if (section.is_object() && has_status(section))
      task = Task(number(section, "task_id"), number(section, "stream_id"));
  };
  for (const char* name : {"DHA Atomic Add", "L2 Atomic Add", "AI Core"}) {
    if (json.contains(name)) take(json[name]);
  }
  if (json.contains("acc_list") && json["acc_list"].is_object() && json["acc_list"].contains("data")) {
    take(json["acc_list"]["data"]);
  }
  return task;
}

// "Opdebug.Node_OpDebug.{task}.{stream}.{time}[.output.0.json]"
bool parse_record_name(std::string name, OpFileName& out) {
  if (!name.starts_with("Opdebug.")) return false;
  if (name.ends_with(".json")) {
    const std::size_t side = name.find(".output.");
    if (side == std::string::npos) return false;
    name.resize(side);
  }
  return parse_op_file_name(name, out) && out.is_overflow_record();
}

// Parses the op that a file belongs to; false if it is not an op's file.
bool parse_op(const std::string& name, Task& task, std::string& op_name) {
  TensorFileName tensor;
  if (parse_tensor_file_name(name, tensor)) {
    task = {tensor.task_id % kTasks, tensor.stream_id};
    op_name = tensor.op_name;
    return true;
  }
  OpFileName op;
  if (!parse_op_file_name(name, op) || op.is_overflow_record()) return false;
  task = {op.task_id % kTasks, op.stream_id};
  op_name = op.op_name;
  return true;
}

}  // namespace

OverflowRecords::OverflowRecords(const CatalogRank& rank)
    : rank_(rank), only_overflows_(settings_of(rank).only_overflows) {}

OverflowRecords::Records OverflowRecords::read(const std::string& directory) const {
  Records records;
  const fs::path path = rank_.directory / directory;
  std::map<std::string, std::string> mapping;
  std::vector<std::string> others;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, ignored)) {
    std::string name = entry.path().filename();
    if (!entry.is_regular_file(ignored)) continue;
    OpFileName record;
    if (!parse_record_name(name, record)) {
      others.push_back(std::move(name));
      continue;
    }
    records.any = true;
    const std::optional<Task> written =
        name.ends_with(".json") ? task_in_text(entry.path()) : task_in_container(entry.path());
    const Task task = written.value_or(Task(record.task_id, record.stream_id));
    records.tasks.emplace(task.first % kTasks, task.second);
  }
  if (!records.any) return records;
  mapping = read_name_mapping(path).names;
  for (const std::string& name : others) {
    const auto mapped = mapping.find(name);
    Task task;
    std::string op_name;
    if (!parse_op(mapped != mapping.end() ? mapped->second : name, task, op_name)) continue;
    if (records.tasks.contains(task)) records.ops.insert(sanitised(op_name));
  }
  return records;
}

const OverflowRecords::Records& OverflowRecords::in(const std::string& directory) {
  const auto known = by_directory_.find(directory);
  return known != by_directory_.end() ? known->second : by_directory_.emplace(directory, read(directory)).first->second;
}

std::optional<bool> OverflowRecords::of(const CatalogStep& step, const CatalogOp& op) {
  bool any = false;
  for (const CatalogTensor& tensor : op.tensors) {
    if (tensor.file.empty()) continue;
    const fs::path file(tensor.file);
    const Records& records = in(file.parent_path().string());
    any = any || records.any;
    if (!records.any) continue;
    Task task;
    std::string op_name;
    if (parse_op(file.filename().string(), task, op_name)) {
      if (records.tasks.contains(task)) return true;
    } else if (records.ops.contains(sanitised(op.op_name))) {  // a number that replaces a long name
      return true;
    }
  }
  if (any) return false;
  const Records& records = in(std::string(step.directory));
  if (!records.any) return std::nullopt;
  return records.ops.contains(sanitised(op.op_name));
}

}  // namespace sonde
