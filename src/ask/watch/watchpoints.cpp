#include "ask/watch/watchpoints.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "ask/watch/watch_facts.h"
#include "ask/watch/watch_item.h"
#include "ask/watch/watch_reader.h"
#include "ask/watch/without_effect.h"
#include "ask/watch/zero_origins.h"
#include "read/catalog/overflow_records.h"

namespace sonde {
namespace {

class PointCheck {
 public:
  PointCheck(const Catalog& catalog, std::span<const Watchpoint> watchpoints, const WatchOptions& options)
      : catalog_(catalog), watchpoints_(watchpoints), options_(options), items_(catalog, watchpoints) {}

  WatchReport run() {
    report_.tensors = items_.all().size();
    look_at_overflows();
    look_at_effects();
    WatchReader(catalog_, items_, options_).run();
    for (const WatchItem& item : items_.all()) report_on(item);
    sort_hits();
    add_notes();
    return std::move(report_);
  }

 private:
  void look_at_overflows();
  void look_at_effects();
  void report_on(const WatchItem& item);
  void report_entry(const WatchItem& item, const WatchEntry& entry, const WatchFacts& facts);
  void report_effect(const WatchItem& item, const WatchEntry& entry);
  std::string gap_reason(const WatchItem& item, const WatchEntry& entry) const;
  void add_problems(const WatchItem& item);
  void sort_hits();
  void add_notes();

  const Catalog& catalog_;
  std::span<const Watchpoint> watchpoints_;
  const WatchOptions& options_;
  WatchItems items_;
  std::map<TensorPlace, Effect> effects_;  // of operator_without_effect
  bool overflow_is_known_ = false;
  WatchReport report_;
};

void PointCheck::look_at_overflows() {
  std::map<std::uint32_t, OverflowRecords> by_rank;
  for (WatchItem& item : items_.all()) {
    const bool asked = std::ranges::any_of(items_.entries_of(item), [&](const WatchEntry& entry) {
      return items_.condition(entry).info->check == WatchCheck::operator_overflow;
    });
    const CatalogOp& op = op_of(catalog_, item.place);
    if (!asked || op.is_parameter) continue;
    OverflowRecords& records = by_rank.try_emplace(item.place.rank, rank_of(catalog_, item.place)).first->second;
    item.overflowed = records.of(step_of(catalog_, item.place), op);
    item.by_values = !item.overflowed && records.only_overflows();
    overflow_is_known_ = overflow_is_known_ || item.overflowed || item.by_values;
  }
}

std::string PointCheck::gap_reason(const WatchItem& item, const WatchEntry& entry) const {
  if (!item.problem.empty()) return item.problem;
  if (needs_previous(items_.condition(entry).info->check) && !item.previous_problem.empty())
    return item.previous_problem;
  const CatalogTensor& tensor = tensor_of(catalog_, item.place);
  if (!tensor.skipped.empty()) return std::string(tensor.skipped);
  return tensor.statistics ? "its values were not saved, and its statistics do not decide it"
                           : "its values were not saved";
}

// Operators in the order of the run: the data flow says what an input was.
void PointCheck::look_at_effects() {
  std::map<TensorPlace, const WatchEntry*> wanted;
  for (const WatchEntry& entry : items_.entries()) {
    if (items_.condition(entry).info->check == WatchCheck::without_effect) wanted[entry.place] = &entry;
  }
  if (wanted.empty()) return;
  for (std::uint32_t r = 0; r < catalog_.ranks.size(); ++r) {
    EffectJudge judge(catalog_.ranks[r]);
    for (std::uint32_t s = 0; s < catalog_.ranks[r].steps.size(); ++s) {
      const CatalogStep& step = catalog_.ranks[r].steps[s];
      judge.begin_step(step);
      for (std::uint32_t o = 0; o < step.ops.size(); ++o) {
        for (auto at = wanted.lower_bound({r, s, o, 0}); at != wanted.end() && at->first < TensorPlace{r, s, o + 1, 0};
             ++at) {
          effects_[at->first] = judge.judge(step.ops[o], step.ops[o].tensors[at->first.tensor]);
        }
        judge.add(step.ops[o]);
      }
    }
    report_.files += judge.files_read();
  }
}

void PointCheck::report_effect(const WatchItem& item, const WatchEntry& entry) {
  const Effect& effect = effects_.at(item.place);
  if (effect.kind == Effect::Kind::seen) return;
  const CatalogTensor& tensor = tensor_of(catalog_, item.place);
  if (effect.kind == Effect::Kind::unknown) {
    report_.gaps.push_back({entry.watchpoint, item.place, effect.text});
    return;
  }
  WatchHit hit;
  hit.watchpoint = entry.watchpoint;
  hit.tensor = item.place;
  hit.hit = true;
  hit.timestamp_us = tensor.timestamp_us != 0 ? tensor.timestamp_us : op_of(catalog_, item.place).timestamp_us;
  hit.dtype = tensor.dtype;
  if (tensor.has_shape) hit.shape = tensor.shape;
  hit.found = effect.text;
  report_.hits.push_back(std::move(hit));
}

void PointCheck::report_entry(const WatchItem& item, const WatchEntry& entry, const WatchFacts& facts) {
  if (items_.condition(entry).info->check == WatchCheck::without_effect) return report_effect(item, entry);
  const CatalogTensor& tensor = tensor_of(catalog_, item.place);
  WatchHit hit;
  hit.watchpoint = entry.watchpoint;
  hit.tensor = item.place;
  hit.timestamp_us = tensor.timestamp_us != 0 ? tensor.timestamp_us : op_of(catalog_, item.place).timestamp_us;
  Judgement judgement = judge(items_.condition(entry), facts, true);
  hit.parameters = std::move(judgement.parameters);
  hit.error_code = judgement.error_code;
  hit.dtype = tensor.dtype != DType::undefined ? tensor.dtype : item.dtype;
  if (tensor.has_shape) {
    hit.shape = tensor.shape;
  } else if (item.values || item.statistics) {
    hit.shape = item.shape;
  }
  if (item.values) {
    hit.nan_count = item.values->nan_count;
    hit.inf_count = item.values->inf_count;
  } else if (item.statistics || tensor.statistics) {
    const KnownStatistics& known = item.statistics ? *item.statistics : *tensor.statistics;
    hit.nan_count = known.nan_count;
    if (known.counts_infinities()) hit.inf_count = known.infinity_count();
  }
  const bool compares = needs_previous(items_.condition(entry).info->check);
  if (compares) {
    hit.previous_step = item.previous.step;
    if (!item.previous.place) hit.error_code |= kWatchNoPrevious;
    if (!item.previous.from_history && (!item.previous.place || judgement.kind == Judgement::Kind::hit)) {
      hit.error_code |= kWatchNoHistory;
    }
  }
  if (judgement.kind == Judgement::Kind::quiet) return;
  hit.hit = judgement.kind == Judgement::Kind::hit;
  if (judgement.kind == Judgement::Kind::unknown) {
    if (item.too_large) hit.error_code |= kWatchTooLarge;
    const bool no_value = tensor.file.empty();
    if (no_value && options_.error_on_no_value) hit.error_code |= kWatchNoValue;
    if (hit.error_code == 0) {
      report_.gaps.push_back({entry.watchpoint, item.place, gap_reason(item, entry)});
      return;
    }
  }
  report_.hits.push_back(std::move(hit));
}

void PointCheck::report_on(const WatchItem& item) {
  if (item.read) {
    ++report_.files;
    report_.bytes += item.bytes;
  } else if (!item.copied) {
    ++report_.not_read;
  }
  const WatchFacts facts = item.values || item.statistics ? read_facts(item) : known_facts(catalog_, item);
  for (const WatchEntry& entry : items_.entries_of(item)) report_entry(item, entry, facts);
  add_problems(item);
}

void PointCheck::add_problems(const WatchItem& item) {
  const auto add = [&](const TensorPlace& place, const std::string& message) {
    const std::filesystem::path path = rank_of(catalog_, place).directory / tensor_of(catalog_, place).file;
    const bool is_known = !report_.problems.empty() && report_.problems.back().path == path;
    if (!is_known) report_.problems.push_back({path, message});
  };
  if (item.unreadable) add(item.place, item.problem);
  if (item.previous_unreadable) add(*item.previous.place, item.previous_problem);
}

void PointCheck::sort_hits() {
  std::ranges::stable_sort(
      report_.hits, {}, [](const WatchHit& hit) { return std::tuple(hit.timestamp_us, hit.tensor, hit.watchpoint); });
}

void PointCheck::add_notes() {
  for (const Watchpoint& watchpoint : watchpoints_) {
    const WatchCheck check = watchpoint.condition.info->check;
    const auto is_at_start = [&](const TensorPlace& place) { return step_of(catalog_, place).id.number == 0; };
    if (check == WatchCheck::operator_overflow && !overflow_is_known_) {
      report_.notes.push_back(
          "operator_overflow: this dump has no record of operators that overflowed; a dump with op_debug_mode 3, or "
          "dump_debug "
          "of CANN, does");
    }
    if (check == WatchCheck::initialization && std::ranges::none_of(watchpoint.tensors, is_at_start)) {
      report_.notes.push_back("weight_initialization: step 0 is not among the steps that were looked at");
    }
  }
  std::ranges::sort(report_.notes);
  report_.notes.erase(std::unique(report_.notes.begin(), report_.notes.end()), report_.notes.end());
}

}  // namespace

WatchReport check_watchpoints(const Catalog& catalog, std::span<const Watchpoint> watchpoints,
                              const WatchOptions& options) {
  WatchReport report = PointCheck(catalog, watchpoints, options).run();
  keep_origins_of_zeros(catalog, watchpoints, report);
  return report;
}

}  // namespace sonde
