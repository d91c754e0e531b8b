#include <algorithm>

#include "dump/journal/journal.h"
#include "dump/journal/run_json.h"
#include "read/catalog/catalog_readers.h"
#include "read/catalog/run_steps.h"

namespace sonde {
namespace {

void drop_outside_files(JournalRun& run, const std::filesystem::path& journal, Catalog& catalog) {
  bool reported = false;
  for (JournalRecord& record : run.records) {
    for (JournalTensor& slot : record.tensors) {
      if (stays_inside(slot.file)) continue;
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
    if (record.kind == RecordKind::step_begin) left.begins.emplace_back(record.timestamp_us, record.step);
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
    rank.runs.push_back(run_of(run, rank.metadata));
    rank.rank = parse_run_json(run.header_json).value_or(RunHeader()).rank;
    remember(run, rank.runs.back(), remains);
    RunSteps steps(rank.runs.size() - 1, filter);
    steps.define(run);
    rank.runs.back().sites = steps.kept().front().sites;
    rank.runs.back().attributes = steps.kept().front().attributes;
    steps.add(run.records, rank, *catalog.texts);
  }
  return {};
}

}  // namespace sonde
