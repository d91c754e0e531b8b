#include "ask/verify/journal_replay.h"

#include <utility>

#include "dump/journal/run_json.h"
#include "ground/files/files.h"
#include "ground/files/mapped_file.h"
#include "ground/files/safe_path.h"
#include "ground/model/data_name.h"
#include "plan/config/plan.h"
#include "read/catalog/recorded_settings.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;
// The configuration in the dump, and the content of the run's first entry.
Plan plan_of(const RunHeader& header, const fs::path& metadata) {
  Plan plan = recorded_plan(metadata, header.config_file).value_or(Plan());
  if (const auto layout = layout_from_name(header.layout)) {
    plan.sonde.layout = *layout;
    if (const auto release = release_from_name(header.version)) {
      plan.sonde.version = *release;
    } else if (plan.source_text.empty()) {
      plan.sonde.version = info(*layout).release;
    }
  }
  plan.net_name = header.net_name;
  plan.saved_data = saved_data_of(header.saved_data);
  plan.low_precision = header.low_precision.value_or(plan.low_precision);
  plan.source_lines = header.source_lines.value_or(plan.source_lines);
  plan.statistic_category = header.statistic_category.value_or(plan.statistic_category);
  // The time of the run is part of the path there, and the journal does not contain it.
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
  const std::optional<RunHeader> header = parse_run_json(json);
  if (!header || header->mends) return;
  Plan plan = plan_of(*header, rank_.metadata);
  plan.path = scratch_ / kMadeAgain;
  RunInfo run;
  run.rank = rank_.rank;
  const std::string own = rank_.metadata.filename();  // of o2: device_N
  if (own.starts_with("device_")) run.device = static_cast<std::uint32_t>(std::strtoul(own.c_str() + 7, nullptr, 10));
  layout_ = Layout::make(plan, run);
  const fs::path aside = layout_->own_directory() / "partial" / "1";
  if (Status made = make_directories(aside); !made) return keep(std::move(made));
  Result<RunFiles> files = RunFiles::open(plan, *layout_, aside, "{}", has_host_graphs(header->host));
  if (!files) return keep(files.error());
  files_ = std::move(*files);
  directory_ = layout_->rank_directory();
}

// The text as the run read it: the dump has a copy. Without one the file itself is read, but only if it is a program:
// anybody may have written the journal, and may have named any file.
void JournalReplay::add_source(const std::string& file) {
  if (file.empty() || !sources_.insert(file).second) return;
  const fs::path inside = fs::path(file).lexically_normal().relative_path();
  const bool leads_out = inside.empty() || *inside.begin() == "..";
  for (const fs::path& place : {rank_.directory, rank_.metadata}) {
    if (leads_out) break;
    const Result<std::string> text = read_whole_file(place / kGraphsDirectory / kSourcesDirectory / inside);
    if (text) return files_->define(SourceText{file, *text});
  }
  if (inside.extension() != ".py") files_->define(SourceText{file, ""});
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
                        kind_of_name(record.op->op_name) == NameKind::data;
  for (const JournalTensor& slot : from.tensors) record.tensors.emplace_back().entry() = slot;
  keep(files_->append(record, {}));
}

void JournalReplay::end(const std::string& json) { close(json, parse_end_json(json).error.has_value()); }

// Steps that a killed run did not end get neither a graph nor a line in the history.
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
