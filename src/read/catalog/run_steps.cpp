#include "read/catalog/run_steps.h"

#include <algorithm>
#include <set>

#include "dump/journal/run_json.h"
#include "read/catalog/recorded_settings.h"
#include "read/catalog/replicas.h"

namespace sonde {
namespace {

// A content is met again in the two steps after the last that had it, at most (capture/content_cache.h).
constexpr std::uint64_t kStepsRemembered = 4;

// For a run of an earlier release, or with a lost header, uses the copy of the configuration.
DumpSettings settings_of(const RunHeader& header, const std::filesystem::path& metadata) {
  if (header.settings) return *header.settings;
  const std::optional<Plan> plan = recorded_plan(metadata, header.config_file);
  return plan ? settings_of(*plan) : recorded_settings(metadata);
}

// The host says of an operator's arguments how they are distributed. A result is distributed as an operator of the same
// step reads it.
void place_results(std::vector<JournalRecord>& records) {
  for (const JournalRecord& reader : records) {
    for (const JournalTensor& input : reader.tensors) {
      if (!input.is_input || input.placement == 0 || input.source == kNoSequence) continue;
      const auto maker = std::ranges::lower_bound(records, input.source, {}, &JournalRecord::sequence);
      if (maker == records.end() || maker->sequence != input.source || maker->step != reader.step) continue;
      for (JournalTensor& made : maker->tensors) {
        const bool is_it = !made.is_input && made.slot == input.source_slot && made.shape == input.shape;
        if (is_it && made.placement == 0) made.placement = input.placement;
      }
    }
  }
}

}  // namespace

CatalogRun run_of(const JournalRun& journal, const std::filesystem::path& metadata) {
  const RunHeader header = parse_run_json(journal.header_json).value_or(RunHeader());
  const RunEnd end = parse_end_json(journal.end_json);
  CatalogRun run;
  run.finished = !journal.end_json.empty();
  run.sonde_version = header.sonde_version;
  run.world_size = header.world_size;
  run.host = header.host;
  run.command = header.command;
  run.layout = header.layout;
  run.saved_data = header.saved_data;
  run.net_name = header.net_name;
  run.settings = settings_of(header, metadata);
  run.error = end.error.value_or("");
  run.pid = header.pid;
  run.started_us = header.started_us;
  run.ended_us = end.ended_us;
  run.bytes_read = end.bytes_read;
  run.bytes_written = end.bytes_written;
  return run;
}

bool stays_inside(const std::string& file) {
  const std::filesystem::path path(file);
  return !path.is_absolute() && std::ranges::find(path, "..") == path.end();
}

void RunSteps::define(JournalRun& journal) {
  Kept kept;
  kept.sites = std::make_shared<const std::vector<Site>>(std::move(journal.sites));
  kept.attributes = std::make_shared<const std::vector<Attributes>>(std::move(journal.attributes));
  for (const Site& site : *kept.sites) sites_[site.id] = &site;
  for (const Attributes& attributes : *kept.attributes) attributes_[attributes.id] = &attributes;
  for (OpName& name : journal.op_names) {
    const OpName& owned = op_names_.emplace_back(std::move(name));
    names_[owned.id] = &owned;
  }
  if (!kept.sites->empty() || !kept.attributes->empty() || kept_.empty()) kept_.push_back(std::move(kept));
}

void RunSteps::add(std::vector<JournalRecord>& records, CatalogRank& rank, TextPool& texts) {
  texts_ = &texts;
  std::ranges::stable_sort(records, {}, &JournalRecord::sequence);
  remember_contents(records);
  place_results(records);
  steps_.clear();
  for (const JournalRecord& record : records) add(record, rank);
  contents_.clear();  // they point into `records`
}

void RunSteps::remember_contents(const std::vector<JournalRecord>& records) {
  for (const JournalRecord& record : records) {
    for (const JournalTensor& slot : record.tensors) {
      if (slot.content == 0) continue;
      Known& known = contents_[slot.content];
      if (slot.has_statistics && known.statistics == nullptr) known.statistics = &slot;
      if (!slot.file.empty() && known.file == nullptr) known.file = &slot;
    }
  }
}

void RunSteps::remember_files(const std::vector<JournalRecord>& records) {
  std::set<std::pair<std::uint32_t, std::uint64_t>> steps;
  for (const JournalRecord& record : records) {
    if (record.kind == RecordKind::note) continue;
    if (steps.emplace(record.step.graph, record.step.number).second) ++steps_remembered_;
    for (const JournalTensor& slot : record.tensors) {
      if (slot.content == 0) continue;
      const auto known = files_.find(slot.content);
      if (known != files_.end()) {
        known->second.last_step = steps_remembered_;
      } else if (!slot.file.empty()) {
        files_.emplace(slot.content, KnownFile{slot.file, steps_remembered_});
      }
    }
  }
  std::erase_if(files_,
                [&](const auto& known) { return known.second.last_step + kStepsRemembered < steps_remembered_; });
}

void RunSteps::add(const JournalRecord& record, CatalogRank& rank) {
  if (record.kind == RecordKind::note) {
    rank.runs[run_].notes.push_back(record.note);
    return;
  }
  if (!filter_.takes(record.step)) return;
  CatalogStep& step = step_of(record.step, rank);
  if (record.kind == RecordKind::step_begin) {
    step.started_us = record.timestamp_us;
    if (const auto found = attributes_.find(record.attributes); found != attributes_.end()) {
      for (const Attribute& one : found->second->values) step.requests.push_back(request_of(one));
    }
  } else if (record.kind == RecordKind::step_end) {
    step.ended_us = record.timestamp_us;
    step.ended = true;
  } else {
    step.is_mended = step.is_mended || record.is_supplement;
    step.ops.push_back(op_of(record));
    find_replicas(rank.directory, step.ops.back(), *texts_);
  }
}

CatalogStep& RunSteps::step_of(StepId id, CatalogRank& rank) {
  const auto [at, is_new] = steps_.try_emplace({id.graph, id.number}, rank.steps.size());
  if (is_new) {
    CatalogStep step;
    step.id = id;
    step.run = run_;
    rank.steps.push_back(std::move(step));
  }
  return rank.steps[at->second];
}

CatalogOp RunSteps::op_of(const JournalRecord& record) {
  CatalogOp op;
  op.is_parameter = record.kind == RecordKind::parameter;
  op.sequence = record.sequence;
  op.timestamp_us = record.timestamp_us;
  op.thread = record.thread;
  op.call_number = record.call_number;
  op.failed = record.failed;
  if (const auto name = names_.find(record.op); name != names_.end()) {
    op.op_name = texts_->keep(name->second->op_name);
    op.op_type = texts_->keep(name->second->op_type);
  } else {  // its definition was lost to damage
    op.op_name = texts_->keep("?op-" + std::to_string(record.op));
  }
  if (const auto site = sites_.find(record.site); site != sites_.end()) {
    op.phase = site->second->phase;
    if (!site->second->trace.empty()) {
      const SourceLine& line = site->second->trace.front();
      op.source_file = texts_->keep(line.file);
      op.line = line.line;
      op.function = texts_->keep(line.function);
      op.trace = &site->second->trace;
    }
    if (op.op_type.empty()) op.op_type = texts_->keep(site->second->op_type);
  }
  if (const auto found = attributes_.find(record.attributes); found != attributes_.end()) {
    op.attributes = &found->second->values;
  }
  op.tensors.reserve(record.tensors.size());
  for (const JournalTensor& slot : record.tensors) op.tensors.push_back(tensor_of(slot));
  std::ranges::stable_sort(op.tensors, [](const CatalogTensor& a, const CatalogTensor& b) {
    return a.is_input != b.is_input ? a.is_input : a.slot < b.slot;
  });
  return op;
}

CatalogTensor RunSteps::tensor_of(const JournalTensor& slot) {
  CatalogTensor tensor;
  tensor.meta() = slot;
  tensor.skipped = texts_->keep(slot.skipped);
  if (const auto name = names_.find(slot.parameter); name != names_.end()) {
    tensor.parameter = texts_->keep(name->second->op_name);
  }
  if (const auto placement = names_.find(slot.placement); placement != names_.end()) {
    tensor.placement = texts_->keep(placement->second->op_name);
  }
  if (slot.wanted) add_known(slot, tensor);
  return tensor;
}

void RunSteps::add_known(const JournalTensor& slot, CatalogTensor& tensor) {
  const JournalTensor* statistics = slot.has_statistics ? &slot : nullptr;
  const JournalTensor* file = slot.file.empty() ? nullptr : &slot;
  if (const auto same = contents_.find(slot.content); same != contents_.end()) {
    if (statistics == nullptr) statistics = same->second.statistics;
    if (file == nullptr) file = same->second.file;
  }
  if (statistics != nullptr) {
    tensor.statistics = known(statistics->statistics);
    tensor.md5 = texts_->keep(statistics->md5);
    tensor.sha1 = texts_->keep(statistics->sha1);
  }
  if (file != nullptr) {
    tensor.file = texts_->keep_unique(file->file);
  } else if (const auto earlier = files_.find(slot.content); earlier != files_.end()) {
    tensor.file = texts_->keep_unique(earlier->second.file);
  }
}

}  // namespace sonde
