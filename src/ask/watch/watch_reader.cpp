#include "ask/watch/watch_reader.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "ask/watch/watch_facts.h"
#include "dump/formats/tensor_file.h"
#include "ground/base/parallel.h"
#include "ground/base/shape.h"
#include "ground/files/packed_path.h"
#include "read/measure/measure.h"

namespace sonde {

// Whether the known facts are insufficient for some condition.
bool WatchReader::has_to_be_read(const WatchItem& item) const {
  if (tensor_of(catalog_, item.place).file.empty()) return false;
  const WatchFacts facts = known_facts(catalog_, item);
  return std::ranges::any_of(items_.entries_of(item), [&](const WatchEntry& entry) {
    if (needs_previous(items_.condition(entry).info->check) && !item.previous.place) return false;
    return judge(items_.condition(entry), facts, false).kind == Judgement::Kind::unknown;
  });
}

// Groups the items to read one after the other, so that each file is opened once: a tensor through the steps, if it is
// compared with the step before; and the names of one file.
std::vector<std::vector<WatchItem*>> WatchReader::jobs() {
  std::vector<std::vector<WatchItem*>> jobs;
  std::map<TensorPlace, std::size_t> ends;  // jobs by their last tensor
  std::map<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>, std::size_t> files;
  for (WatchItem& item : items_.all()) {
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

void WatchReader::compare_item(WatchItem& item, const TensorFile& file, std::optional<TensorFile>& earlier) const {
  if (!item.previous.place) return;
  if (!earlier) {
    const CatalogTensor& tensor = tensor_of(catalog_, *item.previous.place);
    if (tensor.file.empty()) {
      item.previous_problem = "the values of the step before were not saved";
      return;
    }
    Result<TensorFile> opened = open_file(rank_of(catalog_, item.place), tensor);
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
void WatchReader::collect_needs(WatchItem& item) const {
  for (const WatchEntry& entry : items_.entries_of(item)) {
    if (const std::optional<ValueRange> range = range_of(items_.condition(entry));
        range && !std::ranges::count(item.ranges, *range)) {
      item.ranges.push_back(*range);
    }
    if (items_.condition(entry).info->check == WatchCheck::not_changed &&
        !std::ranges::count(item.tolerances, tolerance_of(items_.condition(entry)))) {
      item.tolerances.push_back(tolerance_of(items_.condition(entry)));
    }
  }
}

// The statistics of a dump are several times as fast as the other values of conditions.
bool WatchReader::is_judged_by_statistics(WatchItem& item, const TensorFile& file) const {
  if (item.wants_previous) return false;
  const KnownStatistics found = known(summarize(file.view()));
  if (answers(item, found)) item.statistics = found;
  return item.statistics.has_value();
}

// Computes everything that the conditions need, and not only enough for a hit: the content of a hit must not depend on
// the way it was found.
bool WatchReader::answers(const WatchItem& item, const KnownStatistics& statistics) const {
  const WatchFacts facts = statistics_facts(item, statistics);
  return std::ranges::none_of(items_.entries_of(item), [&](const WatchEntry& entry) {
    return judge(items_.condition(entry), facts, false).kind == Judgement::Kind::unknown;
  });
}

// `earlier`: the step before, if it is already open. False if nothing could be read.
bool WatchReader::read_item(WatchItem& item, const TensorFile& file, std::optional<TensorFile>& earlier) const {
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
bool WatchReader::copy_item(WatchItem& item, const WatchItem& other) const {
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

void WatchReader::read_job(std::span<WatchItem* const> job) const {
  std::optional<TensorFile> earlier;
  const WatchItem* before = nullptr;
  for (WatchItem* item : job) {
    const CatalogTensor& tensor = tensor_of(catalog_, item->place);
    if (before != nullptr && copy_item(*item, *before)) {
      if (options_.progress) options_.progress();
      continue;
    }
    if (before == nullptr || item->previous.place != before->place) earlier.reset();
    Result<TensorFile> file = open_file(rank_of(catalog_, item->place), tensor);
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

void WatchReader::run() {
  const std::vector<std::vector<WatchItem*>> all = jobs();
  Threads(options_.threads).for_each(all.size(), [&](std::size_t i) { read_job(all[i]); });
}

}  // namespace sonde
