#include "ask/convert/overflow_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include "ground/base/json.h"

namespace sonde {
namespace {

constexpr std::uint32_t kMagic = 0x5A5A5A5A;
constexpr std::size_t kOldBytes = 2048;
constexpr std::size_t kHeadBytes = 24;

constexpr std::array<std::string_view, 4> kKinds = {"AIC", "AIV", "AICPU", "SDMA"};
constexpr std::string_view kHex[] = {"pc_start", "para_base", "src_addr", "dst_addr", "kernel_code"};

std::vector<std::string_view> fields_of(std::string_view kind) {
  if (kind == "SDMA") {
    return {"model_id",  "stream_id", "task_id",  "task_type",  "context_id",
            "thread_id", "src_addr",  "dst_addr", "channel_id", "status"};
  }
  if (kind == "AICPU") {
    return {"model_id", "stream_id", "task_id", "task_type", "context_id", "cpu_id", "thread_id", "status"};
  }
  return {"model_id", "stream_id", "task_id", "task_type", "context_id", "thread_id",
          "pc_start", "para_base", "core_id", "block_id",  "status"};
}

template <typename T>
T load(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

Json json_of(std::string_view field, std::uint64_t value) {
  if (std::ranges::find(kHex, field) != std::end(kHex)) return fmt::format("{:#x}", value);
  return value;
}

Error corrupt(std::string message) { return Error{ErrorCode::corrupt, std::move(message)}; }

std::string summary_line(std::string_view kind, const OverflowRecord& record, const std::string& status) {
  return fmt::format(" [{}][TaskId:{}][StreamId:{}][Status:{}]", kind, record.task_id, record.stream_id, status);
}

Result<OverflowRecord> read_new(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeadBytes) return corrupt(fmt::format("an overflow record of {} bytes", bytes.size()));
  const auto word = [&](std::size_t i) { return load<std::uint32_t>(bytes, 4 * i); };
  const std::uint32_t version = word(1), type = word(3);
  if (type >= kKinds.size()) {
    return Error{ErrorCode::unsupported, fmt::format("an overflow record of kind {}; 0 to 3 are known", type)};
  }
  const std::string_view kind = kKinds[type];
  OverflowRecord record;
  record.has_context = true;
  const std::vector<std::string_view> fields = fields_of(kind);
  const std::size_t statuses = type < 2 && version == 1 ? 4 : 1;
  const std::size_t needed = kHeadBytes + 8 * (fields.size() - 1 + statuses);
  if (bytes.size() < needed) {
    return corrupt(fmt::format("an overflow record of {} bytes; one of kind {} has {}", bytes.size(), kind, needed));
  }
  Json data;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto value = load<std::uint64_t>(bytes, kHeadBytes + 8 * i);
    data[std::string(fields[i])] = json_of(fields[i], value);
    if (fields[i] == "stream_id") record.stream_id = value;
    if (fields[i] == "task_id") record.task_id = value;
    if (fields[i] == "context_id") record.context_id = value;
    if (fields[i] == "thread_id") record.thread_id = value;
  }
  std::vector<std::uint64_t> status;
  for (std::size_t i = 0; i < statuses; ++i) {
    status.push_back(load<std::uint64_t>(bytes, kHeadBytes + 8 * (fields.size() - 1 + i)));
  }
  if (statuses > 1) data["status"] = status;
  const std::string words = statuses > 1 ? fmt::format("[{}]", fmt::join(status, ", ")) : std::to_string(status[0]);
  if (statuses > 1 || status[0] != 0) record.summary_lines.push_back(summary_line(kind, record, words));
  const Json root = {
      {"magic", fmt::format("{:#x}", word(0))},
      {"version", version},
      {"acc_list", {{"valid", word(2)}, {"acc_type", kind}, {"rsv", word(4)}, {"data_len", word(5)}, {"data", data}}}};
  record.json = text_of_json(root, 4);
  return record;
}

Result<OverflowRecord> read_old(std::span<const std::byte> bytes) {
  if (bytes.size() != kOldBytes) {
    return corrupt(fmt::format("an overflow record of {} bytes; an old one has {}, a new one begins with 5a5a5a5a",
                               bytes.size(), kOldBytes));
  }
  struct Section {
    std::string_view name;
    std::size_t info, status;
  };
  constexpr std::array<Section, 3> kSections = {
      {{"DHA Atomic Add", 0, 512}, {"L2 Atomic Add", 128, 768}, {"AI Core", 256, 1024}}};
  constexpr std::string_view kFields[] = {"model_id", "stream_id", "task_id", "task_type", "pc_start", "para_base"};
  constexpr std::string_view kCoreStatus[] = {"kernel_code", "block_idx", "status"};
  OverflowRecord record;
  Json root;
  for (const Section& section : kSections) {
    Json json;
    std::size_t at = section.info;
    for (const std::string_view field : kFields) {
      json[std::string(field)] = json_of(field, load<std::uint64_t>(bytes, at));
      at += 8;
    }
    at = section.status;
    const bool is_core = section.name == "AI Core";
    for (const std::string_view field : kCoreStatus) {
      if (!is_core && field != "status") continue;
      json[std::string(field)] = json_of(field, load<std::uint64_t>(bytes, at));
      at += 8;
    }
    if (const auto status = json["status"].get<std::uint64_t>(); status != 0) {  // the last of them counts
      record.stream_id = json["stream_id"].get<std::uint64_t>();
      record.task_id = json["task_id"].get<std::uint64_t>();
      record.summary_lines.push_back(summary_line(section.name, record, std::to_string(status)));
    }
    root[std::string(section.name)] = std::move(json);
  }
  record.json = text_of_json(root, 4);
  return record;
}

}  // namespace

Result<OverflowRecord> read_overflow_record(std::span<const std::byte> bytes) {
  if (bytes.size() >= 4 && load<std::uint32_t>(bytes, 0) == kMagic) return read_new(bytes);
  return read_old(bytes);
}

bool is_overflow_file(std::string_view name) { return name.starts_with("Opdebug.Node_OpDebug."); }

}  // namespace sonde
