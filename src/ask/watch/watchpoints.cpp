#include "ask/watch/watchpoints.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <unordered_map>

#include "ask/watch/watch_judge.h"
#include "ask/watch/without_effect.h"
#include "ask/watch/zero_origins.h"
#include "dump/formats/tensor_file.h"
#include "ground/base/parallel.h"
#include "ground/base/shape.h"
#include "ground/files/packed_path.h"
#include "read/catalog/overflow_records.h"
#include "read/catalog/run_history.h"
#include "read/measure/measure.h"

namespace sonde {
namespace {

struct Entry {  // one tensor under one watchpoint
  TensorPlace place;
  std::uint32_t watchpoint = 0;
  friend auto operator<=>(const Entry&, const Entry&) = default;
};

// The same tensor, one step earlier.
struct Previous {
  std::optional<TensorPlace> place;
  std::optional<std::uint64_t> step;
  bool from_history = true;
};

// One tensor with all its watchpoints, and the facts from its file.
struct Item {
  TensorPlace place;
  std::size_t first = 0, last = 0;  // its entries
  bool wants_previous = false;
  Previous previous;
  std::optional<bool> overflowed;  // operator_overflow, from records
  bool by_values = false;          // operator_overflow, from NaN and infinities

  bool read = false;    // its file was read
  bool copied = false;  // the facts were copied from the same file under another name
  std::string problem, previous_problem;
  bool unreadable = false, previous_unreadable = false;  // a file could not be read
  bool too_large = false;
  std::uint64_t bytes = 0;
  DType dtype = DType::undefined;  // of the file
  Dims shape;
  std::optional<KnownStatistics> statistics;  // if these suffice
  std::optional<ValueSummary> values;         // otherwise
  std::optional<PairSummary> pair;
  std::vector<ValueRange> ranges;
  std::vector<Tolerance> tolerances;
};

const CatalogRank& rank_of(const Catalog& catalog, const TensorPlace& place) { return catalog.ranks[place.rank]; }
const CatalogStep& step_of(const Catalog& catalog, const TensorPlace& place) {
  return rank_of(catalog, place).steps[place.step];
}
const CatalogOp& op_of(const Catalog& catalog, const TensorPlace& place) {
  return step_of(catalog, place).ops[place.op];
}
const CatalogTensor& tensor_of(const Catalog& catalog, const TensorPlace& place) {
  return op_of(catalog, place).tensors[place.tensor];
}

// Finds the tensor with the same name in another step: that of the same run of its op within the step.
class Counterparts {
 public:
  Counterparts(const Catalog& catalog, std::uint32_t rank)
      : rank_(rank), catalog_(catalog.ranks[rank]), history_(catalog_) {}

  Previous before(const TensorPlace& place) {
    const PreviousStep step = history_.before(place.step);
    Previous previous{std::nullopt, step.number, step.from_history};
    if (!step.step) return previous;
    const CatalogOp& op = catalog_.steps[place.step].ops[place.op];
    const std::vector<std::uint32_t>& runs = runs_of(place.step, op);
    const auto nth = static_cast<std::size_t>(std::ranges::find(runs, place.op) - runs.begin());
    const std::vector<std::uint32_t>& earlier = runs_of(*step.step, op);
    if (nth >= earlier.size()) return previous;
    const CatalogTensor& tensor = op.tensors[place.tensor];
    const std::vector<CatalogTensor>& tensors = catalog_.steps[*step.step].ops[earlier[nth]].tensors;
    for (std::uint32_t t = 0; t < tensors.size(); ++t) {
      if (tensors[t].is_input != tensor.is_input || tensors[t].slot != tensor.slot) continue;
      previous.place = TensorPlace{rank_, *step.step, earlier[nth], t};
      break;
    }
    return previous;
  }

 private:
  using Names = std::unordered_map<std::string_view, std::vector<std::uint32_t>>;  // ops by name

  const std::vector<std::uint32_t>& runs_of(std::uint32_t step, const CatalogOp& op) {
    const auto [at, is_new] = steps_.try_emplace(step);
    if (is_new) {
      const std::vector<CatalogOp>& ops = catalog_.steps[step].ops;
      for (std::uint32_t i = 0; i < ops.size(); ++i) at->second[ops[i].is_parameter][ops[i].op_name].push_back(i);
    }
    return at->second[op.is_parameter][op.op_name];
  }

  std::uint32_t rank_;
  const CatalogRank& catalog_;
  RunHistory history_;
  std::map<std::uint32_t, std::array<Names, 2>> steps_;
};

class Check {
 public:
  Check(const Catalog& catalog, std::span<const Watchpoint> watchpoints, const WatchOptions& options)
      : catalog_(catalog), watchpoints_(watchpoints), options_(options) {}

  WatchReport run() {
    collect();
    find_previous();
    look_at_overflows();
    look_at_effects();
    read_files();
    for (Item& item : items_) report_on(item);
    sort_hits();
    add_notes();
    return std::move(report_);
  }

 private:
  const WatchCondition& condition(const Entry& entry) const { return watchpoints_[entry.watchpoint].condition; }
  std::span<const Entry> entries_of(const Item& item) const {
    return std::span(entries_).subspan(item.first, item.last - item.first);
  }

  void collect();
  void look_at_effects();
  void report_effect(const Item& item, const Entry& entry);
  void find_previous();
  void look_at_overflows();
  WatchFacts known_facts(const Item& item) const;
  WatchFacts facts_of_dump(const TensorPlace& place) const;
  void add_previous(const TensorPlace& place, const CatalogTensor& now, WatchFacts& facts) const;
  WatchFacts read_facts(const Item& item) const;
  WatchFacts statistics_facts(const Item& item, const KnownStatistics& statistics) const;
  bool applies(const Entry& entry) const;
  bool has_to_be_read(const Item& item) const;
  std::vector<std::vector<Item*>> jobs();
  void read_files();
  void read_job(std::span<Item* const> job) const;
  void collect_needs(Item& item) const;
  bool is_judged_by_statistics(Item& item, const TensorFile& file) const;
  bool answers(const Item& item, const KnownStatistics& statistics) const;
  bool copy_item(Item& item, const Item& other) const;
  bool read_item(Item& item, const TensorFile& file, std::optional<TensorFile>& earlier) const;
  void compare_item(Item& item, const TensorFile& file, std::optional<TensorFile>& earlier) const;
  void report_on(const Item& item);
  void report_entry(const Item& item, const Entry& entry, const WatchFacts& facts);
  void add_problems(const Item& item);
  void sort_hits();
  void add_notes();
  std::string gap_reason(const Item& item, const Entry& entry) const;

  const Catalog& catalog_;
  std::span<const Watchpoint> watchpoints_;
  const WatchOptions& options_;
  std::vector<Entry> entries_;
  std::vector<Item> items_;
  std::map<TensorPlace, Effect> effects_;  // of operator_without_effect
  bool overflow_is_known_ = false;
  WatchReport report_;
};

// Initialisation is only checked in step 0.
bool Check::applies(const Entry& entry) const {
  return condition(entry).info->check != WatchCheck::initialization || step_of(catalog_, entry.place).id.number == 0;
}

void Check::collect() {
  for (std::uint32_t w = 0; w < watchpoints_.size(); ++w) {
    for (const TensorPlace& place : watchpoints_[w].tensors) {
      if (const Entry entry{place, w}; applies(entry)) entries_.push_back(entry);
    }
  }
  std::ranges::sort(entries_);
  entries_.erase(std::unique(entries_.begin(), entries_.end()), entries_.end());
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (items_.empty() || items_.back().place != entries_[i].place) {
      items_.emplace_back();
      items_.back().place = entries_[i].place;
      items_.back().first = i;
    }
    Item& item = items_.back();
    item.last = i + 1;
    item.wants_previous = item.wants_previous || needs_previous(condition(entries_[i]).info->check);
  }
  report_.tensors = items_.size();
}

void Check::find_previous() {
  std::map<std::uint32_t, Counterparts> by_rank;
  for (Item& item : items_) {
    if (!item.wants_previous) continue;
    const std::uint32_t rank = item.place.rank;
    item.previous = by_rank.try_emplace(rank, catalog_, rank).first->second.before(item.place);
  }
}

void Check::look_at_overflows() {
  std::map<std::uint32_t, OverflowRecords> by_rank;
  for (Item& item : items_) {
    const bool asked = std::ranges::any_of(entries_of(item), [&](const Entry& entry) {
      return condition(entry).info->check == WatchCheck::operator_overflow;
    });
    const CatalogOp& op = op_of(catalog_, item.place);
    if (!asked || op.is_parameter) continue;
    OverflowRecords& records = by_rank.try_emplace(item.place.rank, rank_of(catalog_, item.place)).first->second;
    item.overflowed = records.of(step_of(catalog_, item.place), op);
    item.by_values = !item.overflowed && records.only_overflows();
    overflow_is_known_ = overflow_is_known_ || item.overflowed || item.by_values;
  }
}

void set_overflow(const std::optional<bool>& recorded, bool by_values, WatchFacts& facts) {
  facts.overflowed = recorded;
  if (!by_values) {
    facts.overflowed = recorded.value_or(false);
  } else if (facts.has_nan.value_or(false) || facts.has_inf.value_or(false)) {
    facts.overflowed = true;
  } else if (facts.has_nan && facts.has_inf) {
    facts.overflowed = false;
  }
}

// msprobe computes in the tensor's own type.
double rounding_of(DType type) { return type == DType::bfloat16 ? 0x1p-5 : type == DType::float16 ? 0x1p-8 : 1e-5; }

bool is_same_size(const CatalogTensor& a, const CatalogTensor& b) {
  return a.has_shape && b.has_shape && a.shape == b.shape && a.dtype == b.dtype;
}

// From the statistics of the dump.
WatchFacts Check::facts_of_dump(const TensorPlace& place) const {
  const CatalogTensor& tensor = tensor_of(catalog_, place);
  const CatalogRank& rank = rank_of(catalog_, place);
  WatchFacts facts = facts_of(*tensor.statistics, rank.has_journal);
  if (!facts.known.count && tensor.has_shape) facts.known.count = element_count(tensor.shape.values());
  if (rank.kind == DumpKind::msprobe) facts.known.rounding = std::max(facts.known.rounding, rounding_of(tensor.dtype));
  return facts;
}

void Check::add_previous(const TensorPlace& place, const CatalogTensor& now, WatchFacts& facts) const {
  const CatalogTensor& before = tensor_of(catalog_, place);
  if (!is_same_size(now, before)) return;
  facts.is_as_before = (!now.md5.empty() && now.md5 == before.md5) || (!now.sha1.empty() && now.sha1 == before.sha1);
  if (before.statistics && before.statistics->all_finite()) facts.previous = facts_of_dump(place).known;
}

WatchFacts Check::known_facts(const Item& item) const {
  const CatalogTensor& tensor = tensor_of(catalog_, item.place);
  WatchFacts facts;
  if (tensor.statistics) facts = facts_of_dump(item.place);
  if (item.previous.place) add_previous(*item.previous.place, tensor, facts);
  set_overflow(item.overflowed, item.by_values, facts);
  return facts;
}

// The facts from new statistics.
WatchFacts Check::statistics_facts(const Item& item, const KnownStatistics& statistics) const {
  WatchFacts facts = facts_of(statistics, true);
  facts.known.rounding = 0;
  set_overflow(item.overflowed, item.by_values, facts);
  return facts;
}

WatchFacts Check::read_facts(const Item& item) const {
  if (item.statistics) return statistics_facts(item, *item.statistics);
  WatchFacts facts = facts_of(*item.values, item.ranges);
  facts.tolerances = item.tolerances;
  if (item.pair) facts.pair = &*item.pair;
  set_overflow(item.overflowed, item.by_values, facts);
  return facts;
}

// Whether the known facts are insufficient for some condition.
bool Check::has_to_be_read(const Item& item) const {
  if (tensor_of(catalog_, item.place).file.empty()) return false;
  const WatchFacts facts = known_facts(item);
  return std::ranges::any_of(entries_of(item), [&](const Entry& entry) {
    if (needs_previous(condition(entry).info->check) && !item.previous.place) return false;
    return judge(condition(entry), facts, false).kind == Judgement::Kind::unknown;
  });
}

// Groups the items to read one after the other, so that each file is opened once: a tensor through the steps, if it is
// compared with the step before; and the names of one file.
std::vector<std::vector<Item*>> Check::jobs() {
  std::vector<std::vector<Item*>> jobs;
  std::map<TensorPlace, std::size_t> ends;  // jobs by their last tensor
  std::map<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>, std::size_t> files;
  for (Item& item : items_) {
    if (!has_to_be_read(item)) continue;
    const CatalogTensor& tensor = tensor_of(catalog_, item.place);
    if (item.wants_previous) {
      const auto before = item.previous.place ? ends.find(*item.previous.place) : ends.end();
      if (before == ends.end()) {
        ends[item.place] = jobs.size();
        jobs.push_back({&item});
      } else {
        const std::size_t job = before->second;
        ends.erase(before);
        ends[item.place] = job;
        jobs[job].push_back(&item);
      }
      continue;
    }
    struct stat status {};
    const std::filesystem::path path = rank_of(catalog_, item.place).directory / tensor.file;
    if (stat_tensor(path, status) != 0 || status.st_nlink < 2 || !path.native().ends_with(".npy")) {
      jobs.push_back({&item});
      continue;
    }
    const auto [at, is_new] = files.try_emplace({status.st_dev, status.st_ino, 0}, jobs.size());
    if (is_new) jobs.emplace_back();
    jobs[at->second].push_back(&item);
  }
  return jobs;
}

void Check::compare_item(Item& item, const TensorFile& file, std::optional<TensorFile>& earlier) const {
  if (!item.previous.place) return;
  if (!earlier) {
    const CatalogTensor& tensor = tensor_of(catalog_, *item.previous.place);
    if (tensor.file.empty()) {
      item.previous_problem = "the values of the step before were not saved";
      return;
    }
    Result<TensorFile> opened =
        TensorFile::open(rank_of(catalog_, item.place).directory / tensor.file, spec_of(tensor));
    if (!opened) {
      item.previous_problem = opened.error().message;
      item.previous_unreadable = true;
      return;
    }
    earlier = std::move(*opened);
  }
  if (!can_watch(earlier->dtype())) {
    item.previous_problem = fmt::format("the step before has {}", info(earlier->dtype()).lower);
  } else if (earlier->view().elements() != file.view().elements()) {
    item.previous_problem = fmt::format("the step before has {}, this one {}", shape_text(earlier->shape(), '(', ')'),
                                        shape_text(file.shape(), '(', ')'));
  } else if (options_.most_bytes > 0 && file.view().bytes() + earlier->view().bytes() > options_.most_bytes) {
    item.too_large = true;
  } else {
    item.pair = compare_values(file.view(), earlier->view(), item.tolerances);
  }
}

// The ranges and tolerances that its conditions need.
void Check::collect_needs(Item& item) const {
  for (const Entry& entry : entries_of(item)) {
    if (const std::optional<ValueRange> range = range_of(condition(entry));
        range && !std::ranges::count(item.ranges, *range)) {
      item.ranges.push_back(*range);
    }
    if (condition(entry).info->check == WatchCheck::not_changed &&
        !std::ranges::count(item.tolerances, tolerance_of(condition(entry)))) {
      item.tolerances.push_back(tolerance_of(condition(entry)));
    }
  }
}

// The statistics of a dump are several times as fast as the other values of conditions.
bool Check::is_judged_by_statistics(Item& item, const TensorFile& file) const {
  if (item.wants_previous) return false;
  const KnownStatistics found = known(summarize(file.view()));
  if (answers(item, found)) item.statistics = found;
  return item.statistics.has_value();
}

// Computes everything that the conditions need, and not only enough for a hit: the content of a hit must not depend on
// the way it was found.
bool Check::answers(const Item& item, const KnownStatistics& statistics) const {
  const WatchFacts facts = statistics_facts(item, statistics);
  return std::ranges::none_of(entries_of(item), [&](const Entry& entry) {
    return judge(condition(entry), facts, false).kind == Judgement::Kind::unknown;
  });
}

// `earlier`: the step before, if it is already open. False if nothing could be read.
bool Check::read_item(Item& item, const TensorFile& file, std::optional<TensorFile>& earlier) const {
  item.bytes = file.view().bytes();
  if (!can_watch(file.dtype())) {
    item.problem = fmt::format("{} has no order that conditions could use", info(file.dtype()).lower);
    return false;
  }
  if (options_.most_bytes > 0 && item.bytes > options_.most_bytes) {
    item.too_large = true;
    return false;
  }
  item.dtype = file.dtype();
  item.shape = file.shape();
  collect_needs(item);
  if (is_judged_by_statistics(item, file)) return true;
  item.values = summarize_values(file.view(), item.ranges);
  if (item.wants_previous) compare_item(item, file, earlier);
  return true;
}

// Copies the results from another name of the same file; false if they do not suffice here.
bool Check::copy_item(Item& item, const Item& other) const {
  if (item.wants_previous || other.wants_previous) return false;
  collect_needs(item);
  if (item.ranges != other.ranges || (other.statistics && !answers(item, *other.statistics))) {
    item.ranges.clear();
    return false;
  }
  item.statistics = other.statistics;
  item.problem = other.problem;
  item.too_large = other.too_large;
  item.dtype = other.dtype;
  item.shape = other.shape;
  item.values = other.values;
  item.copied = true;
  return true;
}

void Check::read_job(std::span<Item* const> job) const {
  std::optional<TensorFile> earlier;
  const Item* before = nullptr;
  for (Item* item : job) {
    const CatalogTensor& tensor = tensor_of(catalog_, item->place);
    if (before != nullptr && copy_item(*item, *before)) {
      if (options_.progress) options_.progress();
      continue;
    }
    if (before == nullptr || item->previous.place != before->place) earlier.reset();
    Result<TensorFile> file = TensorFile::open(rank_of(catalog_, item->place).directory / tensor.file, spec_of(tensor));
    item->read = true;
    if (!file) {
      item->problem = file.error().message;
      item->unreadable = true;
      earlier.reset();
    } else {
      read_item(*item, *file, earlier);
      earlier = std::move(*file);
    }
    before = item;
    if (options_.progress) options_.progress();
  }
}

void Check::read_files() {
  const std::vector<std::vector<Item*>> all = jobs();
  Threads(options_.threads).for_each(all.size(), [&](std::size_t i) { read_job(all[i]); });
}

std::string Check::gap_reason(const Item& item, const Entry& entry) const {
  if (!item.problem.empty()) return item.problem;
  if (needs_previous(condition(entry).info->check) && !item.previous_problem.empty()) return item.previous_problem;
  const CatalogTensor& tensor = tensor_of(catalog_, item.place);
  if (!tensor.skipped.empty()) return std::string(tensor.skipped);
  return tensor.statistics ? "its values were not saved, and its statistics do not decide it"
                           : "its values were not saved";
}

// Operators in the order of the run: the data flow says what an input was.
void Check::look_at_effects() {
  std::map<TensorPlace, const Entry*> wanted;
  for (const Entry& entry : entries_) {
    if (condition(entry).info->check == WatchCheck::without_effect) wanted[entry.place] = &entry;
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

void Check::report_effect(const Item& item, const Entry& entry) {
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

void Check::report_entry(const Item& item, const Entry& entry, const WatchFacts& facts) {
  if (condition(entry).info->check == WatchCheck::without_effect) return report_effect(item, entry);
  const CatalogTensor& tensor = tensor_of(catalog_, item.place);
  WatchHit hit;
  hit.watchpoint = entry.watchpoint;
  hit.tensor = item.place;
  hit.timestamp_us = tensor.timestamp_us != 0 ? tensor.timestamp_us : op_of(catalog_, item.place).timestamp_us;
  Judgement judgement = judge(condition(entry), facts, true);
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
    if (known.positive_inf_count && known.negative_inf_count) {
      hit.inf_count = *known.positive_inf_count + *known.negative_inf_count;
    }
  }
  const bool compares = needs_previous(condition(entry).info->check);
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

void Check::report_on(const Item& item) {
  if (item.read) {
    ++report_.files;
    report_.bytes += item.bytes;
  } else if (!item.copied) {
    ++report_.not_read;
  }
  const WatchFacts facts = item.values || item.statistics ? read_facts(item) : known_facts(item);
  for (const Entry& entry : entries_of(item)) report_entry(item, entry, facts);
  add_problems(item);
}

void Check::add_problems(const Item& item) {
  const auto add = [&](const TensorPlace& place, const std::string& message) {
    const std::filesystem::path path = rank_of(catalog_, place).directory / tensor_of(catalog_, place).file;
    const bool is_known = !report_.problems.empty() && report_.problems.back().path == path;
    if (!is_known) report_.problems.push_back({path, message});
  };
  if (item.unreadable) add(item.place, item.problem);
  if (item.previous_unreadable) add(*item.previous.place, item.previous_problem);
}

void Check::sort_hits() {
  std::ranges::stable_sort(
      report_.hits, {}, [](const WatchHit& hit) { return std::tuple(hit.timestamp_us, hit.tensor, hit.watchpoint); });
}

void Check::add_notes() {
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

struct ErrorText {
  std::uint32_t bit;
  std::string_view message, word;
};
constexpr std::array<ErrorText, 6> kErrors = {{
    {kWatchNan, "Tensor contains NaN.", "nan"},
    {kWatchInf, "A tensor contains +/-INF.", "inf"},
    {kWatchNoPrevious, "The previous step value cannot be found.", "no_prev_tensor"},
    {kWatchTooLarge, "The tensor size exceeds the memory limit.", "out_of_mem"},
    {kWatchNoHistory, "Graph history file is not available.", "no_history"},
    {kWatchNoValue, "Tensor has no value.", "no_value"},
}};

}  // namespace

std::vector<std::string_view> error_messages(std::uint32_t code) {
  std::vector<std::string_view> messages;
  for (const ErrorText& text : kErrors) {
    if ((code & text.bit) != 0) messages.push_back(text.message);
  }
  return messages;
}

std::vector<std::string_view> error_words(std::uint32_t code) {
  std::vector<std::string_view> words;
  for (const ErrorText& text : kErrors) {
    if ((code & text.bit) != 0) words.push_back(text.word);
  }
  return words;
}

std::string detail_of(const WatchHit& hit) {
  std::string text = hit.found;
  for (const WatchParameter& parameter : hit.parameters) {
    if (!parameter.hit || !(parameter.actual || parameter.at_least || parameter.at_most)) continue;
    const std::string_view name = parameter.parameter->name;
    const std::string_view relation = parameter.actual ? "=" : parameter.at_least ? ">=" : "<=";
    const double found = parameter.actual     ? *parameter.actual
                         : parameter.at_least ? *parameter.at_least
                                              : *parameter.at_most;
    text += fmt::format("{}The setting for watchpoint is {} = {}. The actual value of the tensor is {} {} {}.",
                        text.empty() ? "" : " ", name, parameter.value, name, relation, found);
  }
  return text;
}

WatchReport check_watchpoints(const Catalog& catalog, std::span<const Watchpoint> watchpoints,
                              const WatchOptions& options) {
  WatchReport report = Check(catalog, watchpoints, options).run();
  keep_origins_of_zeros(catalog, watchpoints, report);
  return report;
}

}  // namespace sonde
