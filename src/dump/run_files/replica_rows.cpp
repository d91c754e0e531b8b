#include "dump/run_files/replica_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "dump/layout/side_names.h"
#include "ground/base/json.h"
#include "sonde/dtype.h"

namespace sonde {
namespace {

bool is_below(const std::filesystem::path& file) {
  return !file.empty() && !file.is_absolute() && std::ranges::find(file, "..") == file.end();
}

}  // namespace

std::string content_key(std::string_view md5, DType dtype, std::span<const std::int64_t> shape) {
  return content_key(md5, info(dtype).lower, fmt::format("({})", fmt::join(shape, ",")));
}

std::string content_key(std::string_view md5, std::string_view dtype, std::string_view shape) {
  return fmt::format("{} {}{}", md5, dtype, shape);
}

std::string slot_key(bool is_input, std::uint32_t slot) {
  return fmt::format("{}.{}", is_input ? "input" : "output", slot);
}

std::filesystem::path replicas_in(const std::filesystem::path& metadata) {
  return replicas_in_own(own_directory_in(metadata));
}

std::filesystem::path replicas_in_own(const std::filesystem::path& own_directory) { return own_directory / "replicas"; }

std::string line_of(const ReplicaRow& row) {
  const Json json = {{"graph", row.step.graph}, {"step", row.step.number}, {"op", row.op_name},
                     {"slot", row.slot},        {"content", row.content},  {"file", row.file}};
  return text_of_json(json) + "\n";
}

std::optional<ReplicaRow> replica_row(std::string_view line) {
  const Json json = json_of_others(line);
  const auto text = [&](const char* name) {
    const auto found = json.is_object() ? json.find(name) : json.end();
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const auto number = [&](const char* name) -> std::uint64_t {
    const auto found = json.is_object() ? json.find(name) : json.end();
    return found != json.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
  };
  ReplicaRow row;
  row.step = {static_cast<std::uint32_t>(number("graph")), number("step")};
  row.op_name = text("op");
  row.slot = text("slot");
  row.content = text("content");
  row.file = text("file");
  if (row.content.empty() || !is_below(row.file)) return std::nullopt;
  return row;
}

std::string replica_lines(const Record& record, const std::vector<StoredFile>& stored) {
  std::string lines;
  for (const TensorRecord& tensor : record.tensors) {
    if (tensor.md5.empty() || record.op == nullptr) continue;
    const auto file = std::ranges::find_if(
        stored, [&](const StoredFile& one) { return one.is_input == tensor.is_input && one.slot == tensor.slot; });
    if (file == stored.end()) continue;
    lines += line_of({.step = record.step,
                      .op_name = record.op->op_name,
                      .slot = slot_key(tensor.is_input, tensor.slot),
                      .content = content_key(tensor.md5, tensor.dtype, tensor.shape.values()),
                      .file = file->path});
  }
  return lines;
}

}  // namespace sonde
