#include <algorithm>
#include <map>
#include <unordered_map>

#include "catalog/catalog_readers.h"
#include "catalog/recorded_settings.h"
#include "journal/journal.h"
#include "journal/run_json.h"

namespace sonde {
namespace {

// For a run of an earlier release, or with a lost header, uses the copy of the configuration.
DumpSettings settings_of(const RunHeader& header, const std::filesystem::path& metadata) {
  if (header.settings) return *header.settings;
  const std::optional<Plan> plan = recorded_plan(metadata, header.config_file);
  return plan ? settings_of(*plan) : recorded_settings(metadata);
}

CatalogRun run_of(const JournalRun& journal, const RunHeader& header, const std::filesystem::path& metadata) {
  const RunEnd end = parse_end_json(journal.end_json);
  CatalogRun run;
  run.finished = !journal.end_json.empty();
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

// Turns the records of one run into steps.
class RunReader {
 public:
  RunReader(JournalRun& journal, std::size_t run, const StepFilter& filter, CatalogRank& rank, TextPool& texts)
      : journal_(journal), run_(run), filter_(filter), rank_(rank), texts_(texts) {}

  void read() {
    CatalogRun& run = rank_.runs[run_];
    run.sites = std::make_shared<const std::vector<Site>>(std::move(journal_.sites));
    run.attributes = std::make_shared<const std::vector<Attributes>>(std::move(journal_.attributes));
    for (const Site& site : *run.sites) sites_[site.id] = &site;
    for (const Attributes& attributes : *run.attributes) attributes_[attributes.id] = &attributes;
    for (const OpName& name : journal_.op_names) names_[name.id] = &name;
    std::ranges::stable_sort(journal_.records, {}, &JournalRecord::sequence);
    remember_contents();
    for (const JournalRecord& record : journal_.records) add(record);
  }

 private:
  // Equal tensors were read and written once; facts about one apply to all.
  struct Known {
    const JournalTensor* statistics = nullptr;
    const JournalTensor* file = nullptr;
  };

  void remember_contents() {
    for (const JournalRecord& record : journal_.records) {
      for (const JournalTensor& slot : record.tensors) {
        if (slot.content == 0) continue;
        Known& known = contents_[slot.content];
        if (slot.has_statistics && known.statistics == nullptr) known.statistics = &slot;
        if (!slot.file.empty() && known.file == nullptr) known.file = &slot;
      }
    }
  }

  void add(const JournalRecord& record) {
    if (record.kind == RecordKind::note) {
      rank_.runs[run_].notes.push_back(record.note);
      return;
    }
    if (!filter_.takes(record.step)) return;
    CatalogStep& step = step_of(record.step);
    if (record.kind == RecordKind::step_begin) {
      step.started_us = record.timestamp_us;
    } else if (record.kind == RecordKind::step_end) {
      step.ended_us = record.timestamp_us;
      step.ended = true;
    } else {
      step.is_mended = step.is_mended || record.is_supplement;
      step.ops.push_back(op_of(record));
    }
  }

  CatalogStep& step_of(StepId id) {
    const auto [at, is_new] = steps_.try_emplace({id.graph, id.number}, rank_.steps.size());
    if (is_new) {
      CatalogStep step;
      step.id = id;
      step.run = run_;
      rank_.steps.push_back(std::move(step));
    }
    return rank_.steps[at->second];
  }

  CatalogOp op_of(const JournalRecord& record) {
    CatalogOp op;
    op.is_parameter = record.kind == RecordKind::parameter;
    op.sequence = record.sequence;
    op.timestamp_us = record.timestamp_us;
    op.thread = record.thread;
    op.failed = record.failed;
    if (const auto name = names_.find(record.op); name != names_.end()) {
      op.op_name = texts_.keep(name->second->op_name);
      op.op_type = texts_.keep(name->second->op_type);
    } else {  // its definition was lost to damage
      op.op_name = texts_.keep("?op-" + std::to_string(record.op));
    }
    if (const auto site = sites_.find(record.site); site != sites_.end()) {
      op.phase = site->second->phase;
      if (!site->second->trace.empty()) {
        const SourceLine& line = site->second->trace.front();
        op.source_file = texts_.keep(line.file);
        op.line = line.line;
        op.function = texts_.keep(line.function);
        op.trace = &site->second->trace;
      }
      if (op.op_type.empty()) op.op_type = texts_.keep(site->second->op_type);
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

  CatalogTensor tensor_of(const JournalTensor& slot) {
    CatalogTensor tensor;
    tensor.meta() = slot;
    tensor.skipped = texts_.keep(slot.skipped);
    if (const auto name = names_.find(slot.parameter); name != names_.end()) {
      tensor.parameter = texts_.keep(name->second->op_name);
    }
    if (slot.wanted) add_known(slot, tensor);
    return tensor;
  }

  void add_known(const JournalTensor& slot, CatalogTensor& tensor) {
    const JournalTensor* statistics = slot.has_statistics ? &slot : nullptr;
    const JournalTensor* file = slot.file.empty() ? nullptr : &slot;
    if (const auto same = contents_.find(slot.content); same != contents_.end()) {
      if (statistics == nullptr) statistics = same->second.statistics;
      if (file == nullptr) file = same->second.file;
    }
    if (statistics != nullptr) {
      tensor.statistics = known(statistics->statistics);
      tensor.md5 = texts_.keep(statistics->md5);
      tensor.sha1 = texts_.keep(statistics->sha1);
    }
    if (file != nullptr) tensor.file = texts_.keep_unique(file->file);
  }

  JournalRun& journal_;
  std::size_t run_;
  const StepFilter& filter_;
  CatalogRank& rank_;
  TextPool& texts_;
  std::unordered_map<std::uint32_t, const Site*> sites_;
  std::unordered_map<std::uint32_t, const Attributes*> attributes_;
  std::unordered_map<std::uint32_t, const OpName*> names_;
  std::unordered_map<std::uint64_t, Known> contents_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::size_t> steps_;
};

// Paths in a journal must stay inside the rank's directory; others are not used.
void drop_outside_files(JournalRun& run, const std::filesystem::path& journal, Catalog& catalog) {
  bool reported = false;
  for (JournalRecord& record : run.records) {
    for (JournalTensor& slot : record.tensors) {
      const std::filesystem::path path(slot.file);
      if (!path.is_absolute() && std::ranges::find(path, "..") == path.end()) continue;
      slot.file.clear();
      if (!reported) {
        catalog.problems.push_back({journal, "it names files outside the dump; they are left out"});
      }
      reported = true;
    }
  }
}

// "12 at byte 345, 6 at byte 789"
std::string where_damaged(const Journal& journal) {
  constexpr std::size_t kShown = 3;
  std::string text;
  std::size_t count = 0;
  for (const JournalGap& gap : journal.gaps) {
    if (gap.is_tail) continue;
    if (++count > kShown) return text + ", …";
    text += (count > 1 ? ", " : "") + std::to_string(gap.bytes) + " at byte " + std::to_string(gap.offset);
  }
  return text;
}

void report_damage(const Journal& journal, const std::filesystem::path& path, Catalog& catalog) {
  if (const std::string damaged = where_damaged(journal); !damaged.empty()) {
    catalog.problems.push_back({path, "damaged: skipped incomplete entries: " + damaged +
                                          "; their contents are lost, except what files and tables show"});
  }
  for (const JournalGap& gap : journal.gaps) {
    if (!gap.is_tail) continue;
    const bool is_last = journal.runs.empty() || journal.runs.back().offset < gap.offset;
    catalog.problems.push_back({path,
                                std::string(is_last ? "the last entry" : "the last entry of a run before others") +
                                    " breaks off (" + std::to_string(gap.bytes) + " at byte " +
                                    std::to_string(gap.offset) + "): a run was killed" +
                                    (is_last ? ", or still writes" : ""),
                                false, is_last ? ProblemKind::torn : ProblemKind::cut_off});
  }
  if (journal.malformed_entries > 0) {
    catalog.problems.push_back({path, std::to_string(journal.malformed_entries) + " entries do not make sense"});
  }
}

void remember(const JournalRun& run, const CatalogRun& read, JournalRemains& remains) {
  if (!read.finished || !read.error.empty() || run.header_json.empty()) remains.is_incomplete = true;
  JournalRemains::Run& left = remains.runs.emplace_back();
  left.started_us = read.started_us;
  for (const JournalRecord& record : run.records) {
    if (record.sequence != kNoSequence) left.sequences.push_back(record.sequence);  // a note has none
    if (record.kind == RecordKind::op || record.kind == RecordKind::parameter) ++remains.ops;
    for (const JournalTensor& slot : record.tensors) {
      if (!slot.file.empty()) remains.files.insert(slot.file);
    }
  }
  std::ranges::sort(left.sequences);
  for (const JournalFile& file : run.lone_files) left.lone_files.emplace(file.file, file.sequence);
  for (const OpName& name : run.op_names) remains.names.emplace_back(name.op_type, name.op_name);
}

}  // namespace

Status read_rank_journal(const std::filesystem::path& path, const StepFilter& filter, CatalogRank& rank,
                         JournalRemains& remains, Catalog& catalog) {
  Result<Journal> journal = read_journal(path);
  if (!journal) return journal.error();
  rank.has_journal = true;
  rank.kind = DumpKind::journal;
  if (journal->runs.empty() && journal->gaps.empty()) return Error{ErrorCode::corrupt, "it is empty"};
  report_damage(*journal, path, catalog);
  remains.is_damaged = journal->malformed_entries > 0 ||
                       std::ranges::any_of(journal->gaps, [](const JournalGap& gap) { return !gap.is_tail; });
  remains.is_incomplete = remains.is_damaged || journal->torn_bytes > 0;
  for (JournalRun& run : journal->runs) {
    drop_outside_files(run, path, catalog);
    // If the header is not a JSON object, its fields stay empty: nothing else depends on it.
    const RunHeader header = parse_run_json(run.header_json).value_or(RunHeader());
    rank.runs.push_back(run_of(run, header, rank.metadata));
    rank.rank = header.rank;
    remember(run, rank.runs.back(), remains);
    RunReader(run, rank.runs.size() - 1, filter, rank, *catalog.texts).read();
  }
  return {};
}

}  // namespace sonde
