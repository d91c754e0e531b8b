#include "face/server/nan_watch.h"

#include <algorithm>

#include "dump/journal/journal.h"
#include "dump/journal/run_json.h"
#include "dump/layout/side_names.h"
#include "face/report/catalog_text.h"

namespace sonde::server {
namespace {

const JournalTensor* nan_of(const JournalRecord& record) {
  const auto found = std::ranges::find_if(record.tensors, [](const JournalTensor& tensor) {
    return tensor.has_statistics && tensor.statistics.nan_count > 0;
  });
  return found == record.tensors.end() ? nullptr : &*found;
}

}  // namespace

LastEnd end_of_run(bool has_ended, bool has_failed) {
  return has_failed ? LastEnd::stopped : has_ended ? LastEnd::finished : LastEnd::killed;
}

NanWatch::Tail::Tail(const CatalogRank& rank, std::size_t chunk_bytes)
    : journal(journal_in(rank.metadata), chunk_bytes) {}

void NanWatch::Tail::begin() {
  names.clear();
  found.reset();
  has_ended = has_failed = false;
}

const std::optional<FirstNan>& NanWatch::look(const Catalog& frame) {
  for (const CatalogRank& rank : frame.ranks) {
    if (!rank.has_journal) continue;
    Tail& tail = tails_.try_emplace(rank.metadata, rank, chunk_bytes_).first->second;
    const auto take_all = [&](Journal& journal) {
      for (const JournalRun& run : journal.runs) take(run, rank, tail);
    };
    while (tail.journal.read(take_all) == JournalTail::Look::anew) tail.begin();
    if (!found_) found_ = tail.found;
  }
  return found_;
}

void NanWatch::take(const JournalRun& run, const CatalogRank& rank, Tail& tail) {
  if (!run.header_json.empty()) tail.begin();
  if (!run.end_json.empty()) {
    tail.has_ended = true;
    tail.has_failed |= parse_end_json(run.end_json).error.has_value();
  }
  for (const sonde::OpName& name : run.op_names) tail.names[name.id] = name.op_name;
  const JournalRecord* first = nullptr;
  for (const JournalRecord& record : run.records) {
    if (record.kind == RecordKind::note) tail.has_failed |= record.note.starts_with(kRecordingStopped);
    if (tail.found || nan_of(record) == nullptr) continue;
    if (first == nullptr || record.sequence < first->sequence) first = &record;
  }
  if (first == nullptr) return;
  const JournalTensor& tensor = *nan_of(*first);
  tail.found = {.rank = rank_text(rank),
                .graph = first->step.graph,
                .step = first->step.number,
                .op_name = tail.names[first->op],
                .side = tensor.is_input ? Side::input : Side::output,
                .slot = tensor.slot};
}

LastEnd NanWatch::end() const {
  LastEnd end = LastEnd::finished;
  for (const auto& [path, tail] : tails_) end = std::max(end, end_of_run(tail.has_ended, tail.has_failed));
  return end;
}

}  // namespace sonde::server
