#include "read/measure/health.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "dump/formats/tensor_file.h"
#include "ground/base/parallel.h"
#include "ground/stats/finite.h"
#include "read/measure/measure.h"
#include "read/measure/values.h"

namespace sonde {
namespace {

bool is_finite_by_type(const CatalogTensor& tensor) {
  return tensor.dtype != DType::undefined && !can_be_non_finite(tensor.dtype);
}

// For complex types, which have no statistics: both parts count.
Health health_of_complex(const TensorView& view) {
  Health health;
  health.known = true;
  const std::int64_t elements = view.elements();
  for (std::int64_t i = 0; i < elements; ++i) {
    const std::complex<double> value = element_complex(view, i);
    if (std::isnan(value.real()) || std::isnan(value.imag())) {
      ++health.counts.nan;
    } else if (std::isinf(value.real()) || std::isinf(value.imag())) {
      ++health.counts.positive_inf;
    }
  }
  health.nan = health.counts.nan > 0;
  health.positive_inf = health.counts.positive_inf > 0;
  return health;
}

}  // namespace

void Health::add(const Health& other) {
  known = known || other.known;
  nan = nan || other.nan;
  positive_inf = positive_inf || other.positive_inf;
  negative_inf = negative_inf || other.negative_inf;
  counts.nan = std::max(counts.nan, other.counts.nan);
  counts.positive_inf = std::max(counts.positive_inf, other.counts.positive_inf);
  counts.negative_inf = std::max(counts.negative_inf, other.counts.negative_inf);
}

Health health_of(const KnownStatistics& statistics) {
  Health health;
  health.counts.nan = statistics.nan_count.value_or(0);
  health.counts.positive_inf = statistics.infinity_count(1).value_or(0);
  health.counts.negative_inf = statistics.infinity_count(-1).value_or(0);
  health.nan = health.counts.nan > 0;
  health.positive_inf = health.counts.positive_inf > 0;
  health.negative_inf = health.counts.negative_inf > 0;
  const bool counted = statistics.counts_non_finite();
  if (!counted) {
    for (const auto& value : {statistics.max, statistics.min, statistics.avg, statistics.l2norm}) {
      health.nan = health.nan || (value && std::isnan(*value));
    }
    for (const auto& value : {statistics.max, statistics.min, statistics.avg}) {
      if (!value || !std::isinf(*value)) continue;
      (*value > 0 ? health.positive_inf : health.negative_inf) = true;
    }
  }
  const bool any = statistics.max || statistics.min || statistics.avg || statistics.nan_count;
  health.known = counted || any || statistics.count.value_or(1) == 0;
  return health;
}

std::optional<Health> stated_health(const CatalogTensor& tensor) {
  if (tensor.statistics) return health_of(*tensor.statistics);
  Health health;
  if (is_finite_by_type(tensor)) {
    health.known = true;
    return health;
  }
  if (!tensor.file.empty()) return std::nullopt;
  if (tensor.constant) {
    health.known = true;
    health.nan = std::isnan(*tensor.constant);
    health.positive_inf = std::isinf(*tensor.constant) && *tensor.constant > 0;
    health.negative_inf = std::isinf(*tensor.constant) && *tensor.constant < 0;
  }
  return health;
}

StepHealth health_of(const CatalogStep& step) {
  StepHealth all;
  all.is_fine = true;
  for (const CatalogOp& op : step.ops) {
    bool any_recorded = false;
    for (const CatalogTensor& tensor : op.tensors) {
      any_recorded = any_recorded || tensor.recorded();
      const std::optional<Health> health = stated_health(tensor);
      all.is_fine = all.is_fine && health && !health->bad();
      all.known += health && health->known ? 1 : 0;
    }
    all.not_recorded += !op.is_parameter && !any_recorded && !op.tensors.empty() ? 1 : 0;
  }
  return all;
}

bool alike(const Health& a, const Health& b) {
  const auto alike = [](std::uint64_t x, std::uint64_t y) { return x == 0 || y == 0 || x == y; };
  return a.known == b.known && a.nan == b.nan && a.positive_inf == b.positive_inf && a.negative_inf == b.negative_inf &&
         alike(a.counts.nan, b.counts.nan) && alike(a.counts.positive_inf, b.counts.positive_inf) &&
         alike(a.counts.negative_inf, b.counts.negative_inf);
}

HealthReader::Measured HealthReader::measure(const std::filesystem::path& path, const CatalogTensor& tensor) {
  Measured measured;
  const Result<TensorFile> file = TensorFile::open(path, spec_of(tensor));
  if (!file) {
    measured.problem = file.error().message;
    return measured;
  }
  const TensorView view = file->view();
  measured.health.known = true;
  if (all_finite(view)) return measured;
  if (!info(view.dtype).has_statistics) {
    measured.health = health_of_complex(view);
    return measured;
  }
  measured.statistics = known(summarize(view));
  measured.health = health_of(*measured.statistics);
  return measured;
}

void HealthReader::keep(const CatalogTensor& tensor, Measured measured) {
  if (!measured.problem.empty()) {
    const std::filesystem::path path = rank_.directory / tensor.file;
    if (std::ranges::find(problems_, path, &CatalogProblem::path) == problems_.end()) {
      problems_.push_back({path, measured.problem});
    }
  }
  known_.insert_or_assign(&tensor, std::move(measured));
}

void HealthReader::prepare(const std::vector<CatalogOp>& ops) {
  std::map<FileKey, std::size_t> jobs;
  std::vector<const CatalogTensor*> firsts;
  std::vector<std::pair<const CatalogTensor*, std::size_t>> wanted;
  for (const CatalogOp& op : ops) {
    for (const CatalogTensor& tensor : op.tensors) {
      if (tensor.statistics || tensor.file.empty() || is_finite_by_type(tensor) || known_.contains(&tensor)) continue;
      const std::optional<FileKey> key = file_key(rank_, tensor);
      const auto job = key ? jobs.try_emplace(*key, firsts.size()) : std::pair(jobs.end(), true);
      wanted.emplace_back(&tensor, job.second ? firsts.size() : job.first->second);
      if (job.second) firsts.push_back(&tensor);
    }
  }
  std::vector<Measured> measured(firsts.size());
  // A small file is not worth a thread of its own.
  constexpr std::size_t kFilesPerPart = 16;
  Threads(threads_).for_each((firsts.size() + kFilesPerPart - 1) / kFilesPerPart, [&](std::size_t part) {
    const std::size_t end = std::min(firsts.size(), (part + 1) * kFilesPerPart);
    for (std::size_t i = part * kFilesPerPart; i < end; ++i) {
      measured[i] = measure(rank_.directory / firsts[i]->file, *firsts[i]);
    }
  });
  files_read_ += firsts.size();
  for (const auto& [tensor, job] : wanted) keep(*tensor, measured[job]);
}

const Health& HealthReader::of(const CatalogTensor& tensor) {
  if (const auto found = known_.find(&tensor); found != known_.end()) return found->second.health;
  Measured measured;
  if (const std::optional<Health> stated = stated_health(tensor)) {
    measured.health = *stated;
  } else {
    measured = measure(rank_.directory / tensor.file, tensor);
    ++files_read_;
  }
  keep(tensor, std::move(measured));
  return known_.at(&tensor).health;
}

const KnownStatistics* HealthReader::statistics(const CatalogTensor& tensor) const {
  if (tensor.statistics) return &*tensor.statistics;
  const auto found = known_.find(&tensor);
  return found != known_.end() && found->second.statistics ? &*found->second.statistics : nullptr;
}

}  // namespace sonde
