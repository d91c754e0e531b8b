#include "dump/journal/run_json.h"

#include <unistd.h>

#include <algorithm>

#include "contract/names.h"
#include "ground/base/json.h"

namespace sonde {
namespace {

Json columns_of(const Plan& plan) {
  Json columns = Json::array();
  for (const Category category : plan.statistic_category) {
    for (const CategoryInfo& row : all_categories()) {
      if (row.category == category) columns.push_back(row.column);
    }
  }
  return columns;
}

std::vector<Category> categories_of(const Json& columns) {
  std::vector<Category> categories;
  for (const Json& column : columns) {
    for (const CategoryInfo& row : all_categories()) {
      if (column.is_string() && column.get_ref<const std::string&>() == row.column) categories.push_back(row.category);
    }
  }
  return categories;
}

// The members of an object; empty for another value. A member of a wrong type counts as missing.
class Members {
 public:
  explicit Members(std::string_view text) : json_(json_of_others(text)) {}

  std::string text(const char* key) const { return known_text(key).value_or(""); }
  std::uint64_t number(const char* key) const { return known_number(key).value_or(0); }
  std::optional<std::string> known_text(const char* key) const {
    const Json* found = find(key);
    return found != nullptr && found->is_string() ? std::optional(found->get<std::string>()) : std::nullopt;
  }
  std::optional<std::uint64_t> known_number(const char* key) const {
    const Json* found = find(key);
    return found != nullptr && found->is_number_unsigned() ? std::optional(found->get<std::uint64_t>()) : std::nullopt;
  }
  std::optional<bool> known_boolean(const char* key) const {
    const Json* found = find(key);
    return found != nullptr && found->is_boolean() ? std::optional(found->get<bool>()) : std::nullopt;
  }
  bool is_object() const { return json_.is_object(); }
  const Json* find(const char* key) const {
    if (!json_.is_object()) return nullptr;
    const auto found = json_.find(key);
    return found != json_.end() ? &*found : nullptr;
  }

 private:
  Json json_;
};

// Set only if the entry has all of them: earlier releases wrote none.
std::optional<DumpSettings> settings_in(const Members& members) {
  const auto mode = members.known_number("op_debug_mode");
  const auto inputs = members.known_text("inputs");
  const auto reread = members.known_boolean("reread");
  if (!mode || !inputs || std::ranges::count(kInputsWords, *inputs) == 0 || !reread) return std::nullopt;
  Plan plan;
  plan.op_debug_mode = *mode;
  plan.overflow_number = members.known_number("overflow_number").value_or(0);
  plan.sonde.inputs_after = *inputs == kInputsWords[1];
  plan.sonde.reread = *reread;
  return settings_of(plan);
}

}  // namespace

std::string_view word_of(SavedData saved) {
  switch (saved) {
    case SavedData::tensor:
      return "tensor";
    case SavedData::statistic:
      return "statistic";
    case SavedData::full:
      return "full";
    case SavedData::summary:
      return "summary";
    case SavedData::graph:
      return "graph";
  }
  return "";
}

SavedData saved_data_of(std::string_view word) {
  for (const SavedData saved : {SavedData::statistic, SavedData::full, SavedData::graph}) {
    if (word_of(saved) == word) return saved;
  }
  return SavedData::tensor;
}

std::string run_json(const Plan& plan, const RunInfo& run, const std::string& config_file, std::uint64_t started_us) {
  Json json;
  json["sonde"] = SONDE_VERSION;
  json["host"] = run.host;
  const bool is_open = !plan.sonde.is_private;
  if (is_open) json["command"] = run.command;
  json["rank"] = run.rank;
  json[names::world_size] = run.world_size;
  json["pid"] = ::getpid();
  json[names::started_us] = started_us;
  json["layout"] = info(plan.sonde.layout).name;
  json["dialect"] = plan.dialect;
  if (is_open) json["source"] = plan.source.string();
  json["config_file"] = config_file;
  if (is_open) json["path"] = plan.path.string();
  json[names::net_name] = plan.net_name;
  json["iteration"] = plan.iteration.text();
  json["input_output"] = static_cast<int>(plan.input_output);
  json[names::saved_data] = word_of(plan.saved_data);
  json["statistic_columns"] = columns_of(plan);
  json["version"] = info(plan.sonde.version).name;
  json["low_precision"] = plan.low_precision;
  json[names::source_lines] = static_cast<int>(plan.source_lines);
  json["raw_bfloat16"] = plan.sonde.raw_bfloat16;
  json["op_debug_mode"] = plan.op_debug_mode;
  if (plan.overflow_only() && plan.overflow_number > 0) json["overflow_number"] = plan.overflow_number;
  json["inputs"] = kInputsWords[plan.sonde.inputs_after ? 1 : 0];
  json["reread"] = plan.sonde.reread;
  if (plan.sonde.max_overhead > 0) json["max_overhead"] = plan.sonde.max_overhead;
  if (plan.sonde.ring > 0) {
    json["ring"] = plan.sonde.ring;
    json["ring_bytes"] = plan.sonde.ring_bytes;
    json["ring_writes"] = plan.sonde.ring_writes;
  }
  return text_of_json(json);
}

std::optional<RunHeader> parse_run_json(std::string_view text) {
  const Members members(text);
  if (!members.is_object()) return std::nullopt;
  RunHeader header;
  header.host = members.text("host");
  header.command = members.text("command");
  header.config_file = members.text("config_file");
  header.rank = static_cast<std::uint32_t>(members.number("rank"));
  header.sonde_version = members.text("sonde");
  header.world_size = static_cast<std::uint32_t>(members.number(names::world_size));
  header.pid = members.number("pid");
  header.started_us = members.number(names::started_us);
  header.mends = members.known_number("mends");
  header.layout = members.text("layout");
  header.version = members.text("version");
  header.net_name = members.text(names::net_name);
  header.saved_data = members.text(names::saved_data);
  if (const Json* columns = members.find("statistic_columns"); columns != nullptr && columns->is_array()) {
    header.statistic_category = categories_of(*columns);
  }
  header.low_precision = members.known_boolean("low_precision");
  if (const auto lines = members.known_number(names::source_lines)) {
    header.source_lines = static_cast<SourceLines>(std::min<std::uint64_t>(*lines, 2));
  }
  header.settings = settings_in(members);
  return header;
}

std::string end_json(const Totals& totals, const std::optional<Error>& error, std::uint64_t ended_us) {
  Json json;
  json[names::ended_us] = ended_us;
  json["steps"] = totals.steps;
  json["ops"] = totals.ops;
  json["tensors"] = totals.tensors;
  json["files"] = totals.files;
  json["rows"] = totals.rows;
  json[names::bytes_read] = totals.bytes_read;
  json[names::bytes_written] = totals.bytes_written;
  json["bytes_dropped"] = totals.bytes_dropped;
  json["records_dropped"] = totals.records_dropped;
  if (error) json["error"] = error->message;
  return text_of_json(json);
}

RunEnd parse_end_json(std::string_view text) {
  const Members members(text);
  return {.ended_us = members.number(names::ended_us),
          .bytes_read = members.number(names::bytes_read),
          .bytes_written = members.number(names::bytes_written),
          .error = members.known_text("error")};
}

}  // namespace sonde
