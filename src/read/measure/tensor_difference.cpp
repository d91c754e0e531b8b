#include "read/measure/tensor_difference.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <unordered_map>

#include "dump/formats/tensor_file.h"
#include "ground/base/shape.h"
#include "ground/files/packed_path.h"
#include "ground/tensor/mix.h"
#include "read/measure/measure.h"

namespace sonde {
namespace {

constexpr std::uint64_t kLargeBytes = 4 << 20;  // larger tensors are cut into pieces for the threads

double square_root_of_mean(double squares, std::uint64_t count) {
  return count == 0 ? 0 : std::sqrt(squares / static_cast<double>(count));
}

double deviation_of(double sum, double squares, std::uint64_t count) {
  if (count == 0) return 0;
  const double mean = sum / static_cast<double>(count);
  return std::sqrt(std::max(0.0, squares / static_cast<double>(count) - mean * mean));
}

void take_sums(TensorDifference& out, const PairSums& sums) {
  out.by = ComparedBy::values;
  out.sums = sums;
  out.count = sums.count;
  out.mismatches = sums.mismatches;
  out.equal = sums.mismatches == 0;
  out.non_finite = sums.non_finite.all();
  out.golden_non_finite = sums.golden_non_finite.all();
  out.different_non_finite = sums.different_non_finite();
  out.rms_error = square_root_of_mean(sums.error_squares, sums.finite_pairs);
  out.max_error = sums.max_error;
  out.mean_error = sums.finite_pairs == 0 ? 0 : sums.errors / static_cast<double>(sums.finite_pairs);
  out.rms = square_root_of_mean(sums.golden_squares, sums.finite_pairs);
  out.max_size = std::max(std::abs(sums.golden_min), std::abs(sums.golden_max));
  out.deviation = deviation_of(sums.golden_sum, sums.golden_squares, sums.finite_pairs);
  const double lengths = std::sqrt(sums.squares) * std::sqrt(sums.golden_squares);
  out.cosine = out.equal || lengths == 0 ? (sums.squares == sums.golden_squares ? 1 : 0)
                                         : std::min(1.0, sums.products / lengths);
  out.worst_index = sums.worst.index;
  out.worst_value = sums.worst.value;
  out.worst_golden = sums.worst.golden;
}

// The golden view with its axes in another order.
struct Permuted {
  std::vector<std::int64_t> shape, strides;
  TensorView view;
  Permuted(const TensorView& of, const std::vector<std::size_t>& axes) : view(of) {
    for (const std::size_t axis : axes) {
      shape.push_back(of.shape[axis]);
      strides.push_back(of.strides[axis]);
    }
    view.shape = shape;
    view.strides = strides;
  }
};

std::vector<std::int64_t> shape_of(const TensorView& view) { return {view.shape.begin(), view.shape.end()}; }

// Orders of axes in which frameworks store one tensor, and that give this shape: images, weights, matrices.
std::vector<std::vector<std::size_t>> axes_that_give(const std::vector<std::int64_t>& from,
                                                     const std::vector<std::int64_t>& to) {
  std::vector<std::vector<std::size_t>> candidates;
  switch (from.size()) {
    case 2:
      candidates = {{1, 0}};
      break;
    case 3:
      candidates = {{0, 2, 1}, {1, 0, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}};
      break;
    case 4:  // NHWC, NCHW; HWIO, OIHW; heads before or after the sequence
      candidates = {{0, 3, 1, 2}, {0, 2, 3, 1}, {3, 2, 0, 1}, {2, 3, 1, 0}, {0, 2, 1, 3}, {0, 1, 3, 2}, {1, 0, 2, 3}};
      break;
    case 5:
      candidates = {{0, 4, 1, 2, 3}, {0, 2, 3, 4, 1}, {4, 3, 0, 1, 2}, {2, 3, 4, 1, 0}};
      break;
    default:
      return {};
  }
  std::erase_if(candidates, [&](const std::vector<std::size_t>& axes) {
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (from[axes[i]] != to[i]) return true;
    }
    return false;
  });
  return candidates;
}

PairSums sums_of(const TensorView& target, const TensorView& golden, const DifferenceOptions& options,
                 const ForEach& for_each) {
  return compare_pair(target, golden, {.all_sums = options.all_sums}, for_each);
}

void compare_views(TensorDifference& out, const TensorView& target, const TensorView& golden,
                   const DifferenceOptions& options, const ForEach& for_each) {
  const std::vector<std::int64_t> shape = shape_of(target), golden_shape = shape_of(golden);
  if (squeezed(shape) == squeezed(golden_shape)) return take_sums(out, sums_of(target, golden, options, for_each));
  out.same_shape = false;
  if (!options.any_axes || target.elements() != golden.elements() || target.elements() == 0) return;
  double least = std::numeric_limits<double>::infinity();
  for (const std::vector<std::size_t>& axes : axes_that_give(golden_shape, shape)) {
    const PairSums sums = sums_of(target, Permuted(golden, axes).view, options, for_each);
    if (sums.error_squares >= least && out.same_shape) continue;
    least = sums.error_squares;
    out.same_shape = true;
    out.axes = axes;
    take_sums(out, sums);
  }
  if (out.same_shape) return;
  // The same elements in other dimensions: a reshape.
  const PairSums sums = sums_of(target, golden, options, for_each);
  take_sums(out, sums);
  out.same_shape = true;
}

std::optional<double> size_of(const KnownStatistics& statistics) {
  if (!statistics.max && !statistics.min) return std::nullopt;
  const auto finite = [](double value) { return std::isfinite(value) ? std::abs(value) : 0.0; };
  return std::max(finite(statistics.max.value_or(0)), finite(statistics.min.value_or(0)));
}

double apart(const std::optional<double>& a, const std::optional<double>& b) {
  if (!a || !b || !std::isfinite(*a) || !std::isfinite(*b)) return 0;
  return std::abs(*a - *b);
}

bool differs(const std::optional<std::uint64_t>& a, const std::optional<std::uint64_t>& b) {
  return a && b && *a != *b;
}

bool differs_in_kind(const std::optional<double>& a, const std::optional<double>& b) {
  return a && b && std::isfinite(*a) != std::isfinite(*b);
}

// The least root mean square of the differences between elements, with the means and the norms that both have.
//   |‖a‖ - ‖b‖| <= ‖a - b‖, and for a, b less their means too; a - b less its mean is orthogonal to its mean, so that
//   (mean(a) - mean(b))² + (sd(a) - sd(b))² <= ‖a - b‖²/n.
double least_rms(const KnownStatistics& a, const KnownStatistics& b, double count, double digits) {
  const double norms = apart(a.l2norm, b.l2norm) / std::sqrt(count), means = apart(a.avg, b.avg);
  const auto has_both = [](const KnownStatistics& s) { return s.l2norm && s.avg && s.all_finite(); };
  if (!has_both(a) || !has_both(b)) return std::max(norms, means);
  const double squares = *a.l2norm * *a.l2norm / count, golden_squares = *b.l2norm * *b.l2norm / count;
  const double variance = squares - *a.avg * *a.avg, golden_variance = golden_squares - *b.avg * *b.avg;
  // Both are differences of numbers that were rounded.
  const double rounding = 4 * std::max(digits, 1e-9) * (squares + golden_squares);
  const double left = std::abs(variance - golden_variance) - rounding;
  if (!(left > 0)) return std::max(norms, means);
  const double deviations =
      left / (std::sqrt(std::max(0.0, variance) + rounding) + std::sqrt(std::max(0.0, golden_variance) + rounding));
  return std::max(norms, std::hypot(means, deviations));
}

// The same from the extremes. Of two elements or more, the largest of one side and the smallest of one side are two, or
// one that differs by both.
double least_rms_of_extremes(const KnownStatistics& a, const KnownStatistics& b, double count) {
  const double largest = apart(a.max, b.max), smallest = apart(a.min, b.min);
  return count < 2 ? std::max(largest, smallest) : std::hypot(largest, smallest) / std::sqrt(count);
}

void compare_statistics(TensorDifference& out, const TensorOf& left, const TensorOf& right) {
  const CatalogTensor &target = *left.tensor, &golden = *right.tensor;
  const KnownStatistics &a = out.statistics, &b = out.golden_statistics;
  out.by = ComparedBy::statistics;
  if (target.has_shape && golden.has_shape) out.same_shape = squeezed(target.shape) == squeezed(golden.shape);
  // Layouts permute elements, which statistics do not see.
  if (!out.same_shape) out.same_shape = element_count(target.shape) == element_count(golden.shape);
  out.count = b.count ? *b.count : golden.has_shape ? element_count(golden.shape) : 1;
  const auto count = static_cast<double>(std::max<std::uint64_t>(out.count, 1));
  out.max_size = size_of(b).value_or(b.l2norm.value_or(0));
  if (!std::isfinite(out.max_size)) out.max_size = 0;
  out.rms = b.l2norm && std::isfinite(*b.l2norm) ? *b.l2norm / std::sqrt(count) : out.max_size;
  out.deviation =
      b.avg && std::isfinite(*b.avg) ? std::sqrt(std::max(0.0, out.rms * out.rms - *b.avg * *b.avg)) : out.rms;
  out.max_error = std::max(apart(a.max, b.max), apart(a.min, b.min));
  // Tables have six digits; a journal has all of them.
  const bool whole = left.rank->has_journal && right.rank->has_journal;
  out.text_digits = whole ? 0 : 5e-6;
  out.rms_error = std::max(least_rms(a, b, count, out.text_digits), least_rms_of_extremes(a, b, count));
  out.max_error = std::max(out.max_error, out.rms_error);
  out.non_finite = a.non_finite_count();
  out.golden_non_finite = b.non_finite_count();
  bool kind = differs_in_kind(a.max, b.max) || differs_in_kind(a.min, b.min);
  for_each_non_finite_count([&](const auto& x, const auto& y) { kind = kind || differs(x, y); }, a, b);
  out.different_non_finite = kind ? 1 : 0;
  const bool signs = differs(a.zero_count, b.zero_count) || differs(a.positive_count, b.positive_count) ||
                     differs(a.negative_count, b.negative_count);
  out.mismatches = kind || signs || out.rms_error > 0 ? 1 : 0;
  out.equal = out.mismatches == 0;
}

bool has_values(const CatalogTensor& tensor) { return !tensor.file.empty(); }

// One file under two names, or a dump compared with itself.
bool same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
  struct stat first {
  }, second{};
  return stat_tensor(a, first) == 0 && stat_tensor(b, second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

void fail(TensorDifference& out, const Error& error) {
  out.by = ComparedBy::nothing;
  out.problem = error.message;
  out.unreadable = true;
}

void compare_files(TensorDifference& out, const TensorOf& target, const TensorOf& golden,
                   const DifferenceOptions& options, const ForEach& for_each) {
  const std::filesystem::path left = target.rank->directory / target.tensor->file;
  const std::filesystem::path right = golden.rank->directory / golden.tensor->file;
  const Result<TensorFile> x = open_file(*target.rank, *target.tensor);
  if (!x) return fail(out, x.error());
  const Result<TensorFile> y = open_file(*golden.rank, *golden.tensor);
  if (!y) return fail(out, y.error());
  if (out.dtype == DType::undefined) out.dtype = x->dtype();
  if (out.golden_dtype == DType::undefined) out.golden_dtype = y->dtype();
  out.shape = x->shape();
  out.golden_shape = y->shape();
  const bool one = same_file(left, right) && x->shape() == y->shape() && x->dtype() == y->dtype() &&
                   !is_container_name(left.filename().string());
  // A file compared with itself is read too: its values scale the errors of other tensors.
  const TensorView view = x->view();
  compare_views(out, view, one ? view : y->view(), options, for_each);
}

TensorDifference failed(TensorDifference out, const Error& error) {
  fail(out, error);
  return out;
}

// Sets the facts about both that are known without their values.
TensorDifference begin(const TensorOf& target, const TensorOf& golden) {
  TensorDifference out;
  out.dtype = target.tensor->dtype;
  out.golden_dtype = golden.tensor->dtype;
  out.shape = target.tensor->shape;
  out.golden_shape = golden.tensor->shape;
  if (target.tensor->statistics) out.statistics = *target.tensor->statistics;
  if (golden.tensor->statistics) out.golden_statistics = *golden.tensor->statistics;
  return out;
}

// Computes the statistics of a tensor that is in the dump only as a file.
Status measure(const TensorOf& of, KnownStatistics& into) {
  CatalogTensor copy = *of.tensor;
  Measurer measurer;
  if (Status measured = measurer.measure(*of.rank, copy); !measured) return measured;
  if (copy.statistics) into = *copy.statistics;
  return {};
}

bool can_be_measured(const CatalogTensor& tensor) { return tensor.statistics.has_value() || has_values(tensor); }

std::string_view checksum_of(const CatalogTensor& tensor, bool sha) { return sha ? tensor.sha1 : tensor.md5; }

}  // namespace

std::string_view word_of(ComparedBy by) {
  constexpr std::string_view kWords[] = {"", "values", "statistics", "checksum"};
  return kWords[static_cast<std::size_t>(by)];
}

double TensorDifference::relative() const {
  if (rms_error == 0) return 0;
  return rms > 0 ? rms_error / rms : std::numeric_limits<double>::infinity();
}

TensorDifference difference_of(const TensorOf& target, const TensorOf& golden, const DifferenceOptions& options,
                               const ForEach& for_each) {
  TensorDifference out = begin(target, golden);
  const CatalogTensor &a = *target.tensor, &b = *golden.tensor;
  if (has_values(a) && has_values(b)) {
    compare_files(out, target, golden, options, for_each);
    return out;
  }
  for (const bool sha : {false, true}) {
    if (checksum_of(a, sha).empty() || checksum_of(a, sha).size() != checksum_of(b, sha).size()) continue;
    const bool equal = checksum_of(a, sha) == checksum_of(b, sha);
    if (!equal && can_be_measured(a) && can_be_measured(b)) continue;  // statistics give the size of the difference
    out.by = ComparedBy::checksum;
    out.equal = equal;
    out.mismatches = equal ? 0 : 1;
    return out;
  }
  if (can_be_measured(a) && can_be_measured(b)) {
    if (!a.statistics) {
      if (const Status measured = measure(target, out.statistics); !measured) return failed(out, measured.error());
    }
    if (!b.statistics) {
      if (const Status measured = measure(golden, out.golden_statistics); !measured) {
        return failed(out, measured.error());
      }
    }
    compare_statistics(out, target, golden);
    return out;
  }
  out.problem = !a.recorded() && !b.recorded() ? "neither dump has it"
                : !a.recorded()                ? "the target's dump does not have it"
                                               : "the golden dump does not have it";
  return out;
}

TensorDifference difference_of_sums(const TensorOf& target, const TensorOf& golden, const PairSums& sums) {
  TensorDifference out = begin(target, golden);
  take_sums(out, sums);
  return out;
}

TensorDifference difference_of_values(const TensorView& target, const TensorView& golden) {
  TensorDifference out;
  out.dtype = target.dtype;
  out.golden_dtype = golden.dtype;
  out.shape = shape_of(target);
  out.golden_shape = shape_of(golden);
  take_sums(out, compare_pair(target, golden, {.all_sums = false}));
  return out;
}

TensorDifference difference_along(const TensorOf& target, const TensorOf& golden, const std::vector<std::size_t>& axes,
                                  const ForEach& for_each) {
  TensorDifference out = begin(target, golden);
  if (!has_values(*target.tensor) || !has_values(*golden.tensor)) return out;
  const Result<TensorFile> x = open_file(*target.rank, *target.tensor);
  if (!x) return failed(out, x.error());
  const Result<TensorFile> y = open_file(*golden.rank, *golden.tensor);
  if (!y) return failed(out, y.error());
  if (y->shape().size() != axes.size()) return out;
  const Permuted permuted(y->view(), axes);
  if (permuted.shape != x->shape()) return out;
  out.axes = axes;
  take_sums(out, compare_pair(x->view(), permuted.view, {.all_sums = false}, for_each));
  return out;
}

struct Differences::State {
  // The identity of a tensor: its file, its slot in the file, and its type; for a tensor without a file, the tensor
  // itself.
  struct Key {
    std::uint64_t target, golden;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const { return key.target * 31 + key.golden; }
  };
  struct Entry {
    TensorOf target, golden;
    TensorDifference difference;
    std::uint64_t bytes = 0;
    bool done = false;
  };

  Threads threads;
  DifferenceOptions options;
  std::unordered_map<Key, std::size_t, Hash> known;
  std::unordered_map<const CatalogTensor*, std::uint64_t> identities;
  std::deque<Entry> entries;
  std::vector<std::size_t> waiting;

  State(const Threads& with, DifferenceOptions chosen) : threads(with), options(chosen) {}

  std::uint64_t identity(const TensorOf& of) {
    const auto [at, is_new] = identities.try_emplace(of.tensor);
    if (!is_new) return at->second;
    std::uint64_t hash = 7;
    struct stat status {};
    const bool is_file = !of.tensor->file.empty() && stat_tensor(of.rank->directory / of.tensor->file, status) == 0;
    if (is_file) {
      mix(hash, status.st_dev);
      mix(hash, status.st_ino);
      mix(hash, static_cast<std::uint64_t>(of.tensor->dtype));
      if (is_container_name(of.tensor->file)) mix(hash, 2 * std::uint64_t{of.tensor->slot} + of.tensor->is_input);
      for (const std::int64_t size : of.tensor->shape) mix(hash, static_cast<std::uint64_t>(size));
    } else {
      mix(hash, reinterpret_cast<std::uintptr_t>(of.tensor));
    }
    return at->second = hash;
  }

  std::size_t entry_of(const TensorOf& target, const TensorOf& golden) {
    const auto [at, is_new] = known.try_emplace(Key{identity(target), identity(golden)}, entries.size());
    if (!is_new) return at->second;
    Entry& entry = entries.emplace_back();
    entry.target = target;
    entry.golden = golden;
    if (target.tensor->has_shape) {
      entry.bytes = element_count(target.tensor->shape) * info(target.tensor->dtype).item_bytes;
    } else if (!target.tensor->file.empty()) {
      struct stat status {};
      if (stat_tensor(target.rank->directory / target.tensor->file, status) == 0) {
        entry.bytes = static_cast<std::uint64_t>(status.st_size);
      }
    }
    return at->second;
  }

  void compare(Entry& entry, const ForEach& for_each) {
    entry.difference = difference_of(entry.target, entry.golden, options, for_each);
    entry.done = true;
  }
};

Differences::Differences(const Threads& threads, DifferenceOptions options)
    : state_(std::make_unique<State>(threads, options)) {}
Differences::~Differences() = default;

void Differences::want(const TensorOf& target, const TensorOf& golden) {
  const std::size_t entry = state_->entry_of(target, golden);
  if (!state_->entries[entry].done) state_->waiting.push_back(entry);
}

void Differences::run() {
  std::ranges::sort(state_->waiting);
  state_->waiting.erase(std::unique(state_->waiting.begin(), state_->waiting.end()), state_->waiting.end());
  std::vector<std::size_t> small;
  for (const std::size_t entry : state_->waiting) {
    if (state_->entries[entry].bytes >= kLargeBytes) {
      state_->compare(state_->entries[entry], state_->threads.runner());
    } else {
      small.push_back(entry);
    }
  }
  // Takes a few at a time, because the counter is shared.
  constexpr std::size_t kGrain = 16;
  state_->threads.for_each((small.size() + kGrain - 1) / kGrain, [&](std::size_t part) {
    for (std::size_t i = part * kGrain; i < std::min(small.size(), (part + 1) * kGrain); ++i) {
      state_->compare(state_->entries[small[i]], in_order);
    }
  });
  state_->waiting.clear();
}

const TensorDifference& Differences::of(const TensorOf& target, const TensorOf& golden) {
  State::Entry& entry = state_->entries[state_->entry_of(target, golden)];
  if (!entry.done) state_->compare(entry, state_->threads.runner());
  return entry.difference;
}

std::vector<std::int64_t> squeezed(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> kept;
  std::ranges::copy_if(shape, std::back_inserter(kept), [](std::int64_t size) { return size != 1; });
  return kept;
}

}  // namespace sonde
