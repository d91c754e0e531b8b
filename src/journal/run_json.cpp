#include "journal/run_json.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

namespace sonde {
namespace {

using Json = nlohmann::ordered_json;

// Paths and commands may hold any bytes; JSON may not.
std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json columns_of(const Plan& plan) {
  Json columns = Json::array();
  for (const Category category : plan.statistic_category) {
    for (const CategoryInfo& row : all_categories()) {
      if (row.category == category) columns.push_back(row.column);
    }
  }
  return columns;
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
  const bool tells = !plan.sonde.is_private;
  if (tells) json["command"] = run.command;
  json["rank"] = run.rank;
  json["pid"] = ::getpid();
  json["started_us"] = started_us;
  json["layout"] = info(plan.sonde.layout).name;
  json["dialect"] = plan.dialect;
  if (tells) json["source"] = plan.source.string();
  json["config_file"] = config_file;
  if (tells) json["path"] = plan.path.string();
  json["net_name"] = plan.net_name;
  json["iteration"] = plan.iteration.text();
  json["input_output"] = static_cast<int>(plan.input_output);
  json["saved_data"] = word_of(plan.saved_data);
  json["statistic_columns"] = columns_of(plan);
  json["version"] = info(plan.sonde.version).name;
  json["low_precision"] = plan.low_precision;
  json["source_lines"] = static_cast<int>(plan.source_lines);
  json["raw_bfloat16"] = plan.sonde.raw_bfloat16;
  return text_of(json);
}

std::string end_json(const Totals& totals, const std::optional<Error>& error, std::uint64_t ended_us) {
  Json json;
  json["ended_us"] = ended_us;
  json["steps"] = totals.steps;
  json["ops"] = totals.ops;
  json["tensors"] = totals.tensors;
  json["files"] = totals.files;
  json["rows"] = totals.rows;
  json["bytes_read"] = totals.bytes_read;
  json["bytes_written"] = totals.bytes_written;
  json["bytes_dropped"] = totals.bytes_dropped;
  json["records_dropped"] = totals.records_dropped;
  if (error) json["error"] = error->message;
  return text_of(json);
}

}  // namespace sonde
