#include "read/catalog/growing_rank.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "dump/journal/run_json.h"
#include "dump/layout/side_names.h"

namespace sonde {
namespace {

// Its operators have neither lines nor sources: the host's own graphs may have them (host_graphs.h).
bool is_bare(const CatalogRank& rank) {
  return std::ranges::all_of(rank.steps, [](const CatalogStep& step) {
    return std::ranges::all_of(step.ops, [](const CatalogOp& op) {
      return op.source_file.empty() &&
             std::ranges::all_of(op.tensors, [](const CatalogTensor& tensor) { return tensor.source == kNoSequence; });
    });
  });
}

}  // namespace

GrowingRank::GrowingRank(const CatalogRank& like) : tail_(journal_in(like.metadata)), steps_(0, {}) {
  frame_.rank = like.rank;
  frame_.dump = like.dump;
  frame_.directory = like.directory;
  frame_.metadata = like.metadata;
  frame_.has_journal = true;
}

bool GrowingRank::read(const Take& take) {
  const JournalTail::Look look =
      tail_.read([&](Journal& journal) { is_good_ = is_good_ && take_entries(journal) && close(take); });
  is_good_ = is_good_ && look == JournalTail::Look::as_before;
  return is_good_;
}

bool GrowingRank::take_entries(Journal& journal) {
  if (!journal.gaps.empty() || journal.malformed_entries > 0 || journal.runs.size() > 1) return false;
  return journal.runs.empty() || take_run(journal.runs.front());
}

bool GrowingRank::take_run(JournalRun& run) {
  if (!run.header_json.empty()) {
    const std::optional<RunHeader> header = parse_run_json(run.header_json);
    if (!frame_.runs.empty() || !header || header->mends) return false;
    frame_.runs.push_back(run_of(run, frame_.metadata));
    frame_.rank = rank_in_name(frame_.directory).value_or(header->rank);
  }
  if (frame_.runs.empty()) return false;
  if (!run.end_json.empty()) {
    const CatalogRun ended = run_of(run, frame_.metadata);
    CatalogRun& whole = frame_.runs.back();
    whole.finished = true;
    whole.error = ended.error;
    whole.ended_us = ended.ended_us;
    whole.bytes_read = ended.bytes_read;
    whole.bytes_written = ended.bytes_written;
  }
  steps_.define(run);
  return join(run);
}

JournalRecord* GrowingRank::open_record(std::uint64_t sequence) {
  const auto found = std::ranges::find(open_, sequence, &JournalRecord::sequence);
  return found == open_.end() ? nullptr : &*found;
}

// Adds the records; what belongs to an earlier one goes there.
bool GrowingRank::join(JournalRun& run) {
  for (JournalRecord& record : run.records) {
    if (record.kind == RecordKind::note) {
      frame_.runs.back().notes.push_back(std::move(record.note));
      continue;
    }
    for (const JournalTensor& slot : record.tensors) {
      if (!stays_inside(slot.file)) return false;
    }
    if (closed_.contains({record.step.graph, record.step.number})) return false;
    if (!record.completes) {
      open_.push_back(std::move(record));
      continue;
    }
    JournalRecord* const op = open_record(record.sequence);
    if (op == nullptr) return false;
    op->failed = op->failed || record.failed;
    std::ranges::move(record.tensors, std::back_inserter(op->tensors));
  }
  for (JournalFile& file : run.lone_files) {
    JournalRecord* const op = open_record(file.sequence);
    if (op == nullptr || !stays_inside(file.file)) return false;
    const auto slot = std::ranges::find_if(op->tensors, [&](const JournalTensor& tensor) {
      return tensor.is_input == file.is_input && tensor.slot == file.slot;
    });
    if (slot == op->tensors.end()) return false;
    slot->file = std::move(file.file);
  }
  return true;
}

// A step is over once it has ended and the next one has begun: until then files are entered.
bool GrowingRank::close(const Take& take) {
  std::vector<std::pair<Key, bool>> steps;  // in the order of their first records, with whether they have ended
  std::map<Key, std::size_t> places;
  for (const JournalRecord& record : open_) {
    const Key key = {record.step.graph, record.step.number};
    const auto [at, is_new] = places.try_emplace(key, steps.size());
    if (is_new) steps.emplace_back(key, false);
    steps[at->second].second |= record.kind == RecordKind::step_end;
  }
  std::size_t over = 0;
  while (over + 1 < steps.size() && steps[over].second) closed_.insert(steps[over++].first);
  if (over == 0) return true;
  const auto rest = std::stable_partition(open_.begin(), open_.end(), [&](const JournalRecord& record) {
    return places.at({record.step.graph, record.step.number}) < over;
  });
  std::vector<JournalRecord> closing(std::make_move_iterator(open_.begin()), std::make_move_iterator(rest));
  open_.erase(open_.begin(), rest);
  TextPool texts;
  CatalogRank part;
  part.rank = frame_.rank;
  part.directory = frame_.directory;
  steps_.add(closing, part, texts);
  steps_.remember_files(closing);
  if (is_bare(part)) return false;
  take(part);
  return true;
}

void GrowingRank::add_open(CatalogRank& rank, TextPool& texts) { steps_.add(open_, rank, texts); }

}  // namespace sonde
