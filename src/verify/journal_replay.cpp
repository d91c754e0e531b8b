#include "verify/journal_replay.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "config/plan.h"
#include "files/files.h"
#include "files/mapped_file.h"
#include "files/safe_path.h"
#include "journal/run_json.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string text_of(const Json& json, const char* key) {
  const auto at = json.find(key);
  return at != json.end() && at->is_string() ? at->get<std::string>() : std::string();
}

// The configuration that the dump keeps, and what the run's first entry says.
Plan plan_of(const Json& header, const fs::path& metadata) {
  Plan plan;
  if (const std::string name = text_of(header, "config_file"); !name.empty() && name.find("..") == std::string::npos) {
    const Result<std::string> text = read_whole_file(metadata / name);
    PlanResult parsed = text ? parse_plan(*text, name) : PlanResult();
    if (parsed.plan) plan = std::move(*parsed.plan);
  }
  if (const auto layout = layout_from_name(text_of(header, "layout"))) {
    plan.sonde.layout = *layout;
    if (const auto release = release_from_name(text_of(header, "version"))) {
      plan.sonde.version = *release;
    } else if (plan.source_text.empty()) {
      plan.sonde.version = info(*layout).release;
    }
  }
  plan.net_name = text_of(header, "net_name");
  plan.saved_data = saved_data_of(text_of(header, "saved_data"));
  if (const auto low = header.find("low_precision"); low != header.end() && low->is_boolean())
    plan.low_precision = *low;
  if (const auto lines = header.find("source_lines"); lines != header.end() && lines->is_number_unsigned()) {
    plan.source_lines = static_cast<SourceLines>(std::min<unsigned>(lines->get<unsigned>(), 2U));
  }
  if (const auto columns = header.find("statistic_columns"); columns != header.end() && columns->is_array()) {
    plan.statistic_category.clear();
    for (const Json& column : *columns) {
      for (const CategoryInfo& row : all_categories()) {
        if (column.is_string() && column.get<std::string>() == row.column)
          plan.statistic_category.push_back(row.category);
      }
    }
  }
  // The time of the run is part of the path there, and the journal does not say it.
  if (plan.sonde.layout == LayoutKind::o0 || plan.sonde.layout == LayoutKind::o2) plan.saved_data = SavedData::tensor;
  return plan;
}

}  // namespace

JournalReplay::JournalReplay(const CatalogRank& rank, fs::path scratch) : rank_(rank), scratch_(std::move(scratch)) {}

void JournalReplay::keep(Status status) {
  if (status_ && !status) status_ = std::move(status);
}

void JournalReplay::begin_run() { close("{}", true); }

void JournalReplay::header(const std::string& json) {
  const Json header = Json::parse(json, nullptr, false);
  if (!header.is_object() || header.contains("mends")) return;
  Plan plan = plan_of(header, rank_.metadata);
  plan.path = scratch_ / kMadeAgain;
  RunInfo run;
  run.rank = rank_.rank;
  const std::string own = rank_.metadata.filename();  // of o2: device_N
  if (own.starts_with("device_")) run.device = static_cast<std::uint32_t>(std::strtoul(own.c_str() + 7, nullptr, 10));
  layout_ = Layout::make(plan, run);
  const fs::path aside = layout_->own_directory() / "partial" / "1";
  if (Status made = make_directories(aside); !made) return keep(std::move(made));
  const bool by_host = text_of(header, "host").starts_with("MindSpore");
  Result<RunFiles> files = RunFiles::open(plan, *layout_, aside, "{}", by_host);
  if (!files) return keep(files.error());
  files_ = std::move(*files);
  directory_ = layout_->rank_directory();
}

// The text that the run saw: the dump keeps it.
void JournalReplay::add_source(const std::string& file) {
  if (file.empty() || !sources_.insert(file).second) return;
  for (const fs::path& place : {rank_.directory, rank_.metadata}) {
    const Result<std::string> text = read_whole_file(place / "graphs/sources" / fs::path(file).relative_path());
    if (text) return files_->define(SourceText{file, *text});
  }
}

void JournalReplay::site(const Site& site) {
  if (!files_) return;
  for (const SourceLine& line : site.trace) add_source(line.file);
  files_->define(site);
}

void JournalReplay::op_name(const OpName& name) {
  names_[name.id] = name;
  if (files_) files_->define(name);
}

void JournalReplay::attributes(const Attributes& attributes) {
  if (files_) files_->define(attributes);
}

void JournalReplay::record(const JournalRecord& from) {
  if (!files_ || from.kind == RecordKind::note) return;
  Record record;
  record.meta() = from;
  if (const auto name = names_.find(from.op); name != names_.end()) record.op = &name->second;
  if (from.kind == RecordKind::step_begin) next_task_[from.step.graph] = 0;
  if (from.kind == RecordKind::op && !from.completes) record.task_id = next_task_[from.step.graph]++;
  record.in_constants = from.kind == RecordKind::parameter && layout_->has_constants() && record.op != nullptr &&
                        record.op->full_name.starts_with("data-");
  for (const JournalTensor& slot : from.tensors) record.tensors.emplace_back().entry() = slot;
  keep(files_->append(record, {}));
}

void JournalReplay::end(const std::string& json) {
  const Json end = Json::parse(json, nullptr, false);
  close(json, end.is_object() && end.contains("error"));
}

// Steps that a killed run had not ended get neither a graph nor a line in the history.
void JournalReplay::close(const std::string& end_json, bool failed) {
  if (files_) keep(files_->finish(end_json, failed));
  files_.reset();
  names_.clear();
  next_task_.clear();
  sources_.clear();
}

Status JournalReplay::finish() {
  close("{}", true);
  return status_;
}

}  // namespace sonde
