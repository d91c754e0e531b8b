#include "ask/relations/joins.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>

#include "ask/relations/verify.h"

namespace sonde {
namespace {

struct Numbers {
  std::uint32_t tensor = 0;
  double count = 0, sum = 0, squares = 0, min = 0, max = 0;
};

Numbers numbers_of(const Pool& pool, std::uint32_t tensor) {
  const TensorPrint& print = pool.tensors[tensor].print;
  return {tensor,   static_cast<double>(print.count), print.whole.sum, print.whole.norm * print.whole.norm, print.min,
          print.max};
}

// Numbers without a file of values, of which chance does not give the same.
bool is_evidence(const TensorPrint& print) {
  return print.count > 0 && !print.by_values && !print.proves_nothing() && print.non_finite == 0;
}

// Tensors of one pool, of which some together may be one of the other.
class Sets {
 public:
  // Of several with the same numbers, as a tensor and its views, the first one counts.
  Sets(const Pool& pool, const std::vector<std::uint32_t>& tensors) : pool_(pool) {
    std::set<std::tuple<double, double, double, double, double>> known;
    for (const std::uint32_t tensor : tensors) {
      const Numbers own = numbers_of(pool, tensor);
      if (!known.emplace(own.count, own.sum, own.squares, own.min, own.max).second) continue;
      by_count_[pool.tensors[tensor].print.count].push_back(own);
      by_min_.emplace_back(own.min, all_.size());
      all_.push_back(own);
      if (pool.tensors[tensor].is_weight()) weights_.push_back(own);
    }
    for (auto& [count, numbers] : by_count_) std::ranges::sort(numbers, {}, &Numbers::squares);
    std::ranges::sort(by_min_);
  }

  // The tensors that `whole` consists of; empty: none.
  std::vector<std::uint32_t> parts_of(const PoolTensor& of, const Numbers& whole) const {
    const double largest = std::max(std::abs(whole.min), std::abs(whole.max));
    const double slack = kPrecision * largest;
    const auto has_least = std::ranges::lower_bound(by_min_, std::pair(whole.min - slack, std::size_t{0}));
    std::size_t tried = 0;
    for (auto one = has_least; one != by_min_.end() && one->first <= whole.min + slack; ++one) {
      const Numbers& first = all_[one->second];
      if (!may_be_in(whole, whole, first, of)) continue;
      if (++tried > kMostTried) break;
      const Numbers rest = without(whole, first);
      if (const auto last = rest_of(whole, rest, first.max, of)) return {first.tensor, *last};
      const std::size_t at = one->second, near = all_.size() > kMany ? kNearOfMany : kNear;
      const std::size_t from = at > near ? at - near : 0, to = std::min(all_.size(), at + near);
      for (std::size_t i = from; i < to; ++i) {
        if (i == at || !may_be_in(whole, rest, all_[i], of)) continue;
        const Numbers left = without(rest, all_[i]);
        const auto last = rest_of(whole, left, std::max(first.max, all_[i].max), of);
        if (last && *last != first.tensor && *last != all_[i].tensor) return {first.tensor, all_[i].tensor, *last};
      }
    }
    return of.is_weight() ? row_of(whole) : std::vector<std::uint32_t>{};
  }

  // The tensor that `whole` repeats, and how many times.
  std::optional<std::pair<std::uint32_t, std::int64_t>> repeated_in(const PoolTensor& of, const Numbers& whole) const {
    constexpr int kMostTimes = 64;
    for (int times = 2; times <= kMostTimes; ++times) {
      const Numbers one{0, whole.count / times, whole.sum / times, whole.squares / times, whole.min, whole.max};
      if (const auto found = rest_of(one, one, -INFINITY, of)) return std::pair(*found, std::int64_t{times});
    }
    return std::nullopt;
  }

 private:
  static constexpr double kPrecision = 1e-4;
  static constexpr std::size_t kMostTried = 8;
  // The parts lie near each other in the order of the run.
  static constexpr std::size_t kNear = 512, kNearOfMany = 24, kMany = 50'000;

  // More than three weights of one size that the run reads one after the other, such as experts, tables or gates, perhaps
  // each beside its bias.
  std::vector<std::uint32_t> row_of(const Numbers& whole) const {
    constexpr std::size_t kFewest = 4;
    for (const std::size_t step : {1, 2}) {
      for (std::size_t first = 0; first + step * (kFewest - 1) < weights_.size(); ++first) {
        const std::vector<std::uint32_t> found = row_from(whole, first, step);
        if (!found.empty()) return found;
      }
    }
    return {};
  }

  std::vector<std::uint32_t> row_from(const Numbers& whole, std::size_t first, std::size_t step) const {
    constexpr std::size_t kFewest = 4, kMost = 64;
    const double times = whole.count / weights_[first].count;
    const auto size = static_cast<std::size_t>(times);
    if (size < kFewest || size > kMost || static_cast<double>(size) != times) return {};
    if (first + step * (size - 1) >= weights_.size() || weights_[first].squares > whole.squares) return {};
    std::vector<Numbers> row;
    for (std::size_t i = 0; i < size; ++i) row.push_back(weights_[first + i * step]);
    if (!is_made_of(whole, row)) return {};
    std::vector<std::uint32_t> parts;
    for (const Numbers& part : row) parts.push_back(part.tensor);
    return parts;
  }

  static bool is_made_of(const Numbers& whole, std::span<const Numbers> parts) {
    Numbers all{.min = INFINITY, .max = -INFINITY};
    for (const Numbers& part : parts) {
      if (part.count != parts.front().count || all.squares > 2 * whole.squares) return false;
      all.sum += part.sum;
      all.squares += part.squares;
      all.min = std::min(all.min, part.min);
      all.max = std::max(all.max, part.max);
    }
    const double slack = kPrecision * std::max(std::abs(whole.min), std::abs(whole.max));
    return std::abs(all.min - whole.min) <= slack && std::abs(all.max - whole.max) <= slack &&
           std::abs(all.sum - whole.sum) <= kPrecision * std::sqrt(whole.squares * whole.count) &&
           std::abs(all.squares - whole.squares) <= kPrecision * whole.squares;
  }

  static Numbers without(const Numbers& whole, const Numbers& part) {
    return {0, whole.count - part.count, whole.sum - part.sum, whole.squares - part.squares, whole.min, whole.max};
  }

  bool may_be_in(const Numbers& whole, const Numbers& rest, const Numbers& part, const PoolTensor& of) const {
    const double slack = kPrecision * std::max(std::abs(whole.min), std::abs(whole.max));
    return part.count < rest.count && part.squares <= rest.squares + kPrecision * whole.squares &&
           part.min >= whole.min - slack && part.max <= whole.max + slack &&
           pool_.tensors[part.tensor].is_weight() == of.is_weight();
  }

  // The tensor that is all the rest, if `largest` or its maximum is that of the whole.
  std::optional<std::uint32_t> rest_of(const Numbers& whole, const Numbers& rest, double largest,
                                       const PoolTensor& of) const {
    const auto count = static_cast<std::uint64_t>(rest.count);
    const auto same_size =
        rest.count < 1 || static_cast<double>(count) != rest.count ? by_count_.end() : by_count_.find(count);
    if (same_size == by_count_.end()) return std::nullopt;
    const double slack = kPrecision * std::max(std::abs(whole.min), std::abs(whole.max));
    // A mask alone has the sums of scores with it, and another maximum.
    const double most_slack = has_hidden(whole.min, whole.max) ? kPrecision * std::abs(whole.max) : slack;
    const double sum_slack = kPrecision * std::sqrt(whole.squares * whole.count);
    const double squares_slack = kPrecision * whole.squares;
    const auto& numbers = same_size->second;
    for (auto at = std::ranges::lower_bound(numbers, rest.squares - squares_slack, {}, &Numbers::squares);
         at != numbers.end() && at->squares <= rest.squares + squares_slack; ++at) {
      const bool has_largest = std::abs(std::max(at->max, largest) - whole.max) <= most_slack;
      if (!has_largest || at->min < whole.min - slack || at->max > whole.max + slack) continue;
      // Without another part it has the least element, too.
      if (largest == -INFINITY && std::abs(at->min - whole.min) > slack) continue;
      if (std::abs(at->sum - rest.sum) > sum_slack) continue;
      if (pool_.tensors[at->tensor].is_weight() == of.is_weight()) return at->tensor;
    }
    return std::nullopt;
  }

  const Pool& pool_;
  std::map<std::uint64_t, std::vector<Numbers>> by_count_;  // by their squares
  std::vector<Numbers> all_, weights_;                      // in the order of the run
  std::vector<std::pair<double, std::size_t>> by_min_;      // places in `all_`
};

TensorDifference no_difference(const PoolTensor& target, const PoolTensor& golden) {
  TensorDifference difference = difference_by_statistics(target, golden);
  difference.rms = target.print.whole.norm / std::sqrt(static_cast<double>(target.print.count));
  difference.rms_error = difference.max_error = 0;
  difference.mismatches = 0;
  return difference;
}

}  // namespace

void relate_by_sums(const Pool& target, const Pool& golden, std::vector<Relation>& relations, std::vector<char>& met) {
  std::vector<std::uint32_t> left, golden_left, golden_all;
  for (std::uint32_t i = 0; i < target.tensors.size(); ++i) {
    if (!relations[i] && is_evidence(target.tensors[i].print)) left.push_back(i);
  }
  for (std::uint32_t i = 0; i < golden.tensors.size(); ++i) {
    if (!is_evidence(golden.tensors[i].print)) continue;
    golden_all.push_back(i);
    if (!met[i]) golden_left.push_back(i);
  }
  if (left.empty()) return;
  const auto relate = [&](std::uint32_t tensor, RelationKind kind, const std::vector<std::uint32_t>& parts) {
    Relation& relation = relations[tensor];
    relation.kind = kind;
    relation.is_of_sums = true;
    for (const std::uint32_t part : parts) {
      relation.parts.push_back({.golden = part});
      met[part] = 1;
    }
    relation.difference = no_difference(target.tensors[tensor], golden.tensors[parts.front()]);
  };

  const Sets of_golden(golden, golden_all);
  for (const std::uint32_t tensor : left) {
    const PoolTensor& own = target.tensors[tensor];
    const Numbers whole = numbers_of(target, tensor);
    if (const auto repeated = of_golden.repeated_in(own, whole)) {
      relate(tensor, RelationKind::joined, std::vector(static_cast<std::size_t>(repeated->second), repeated->first));
    } else if (const std::vector<std::uint32_t> parts = of_golden.parts_of(own, whole); !parts.empty()) {
      relate(tensor, RelationKind::joined, parts);
    }
  }
  std::erase_if(left, [&](std::uint32_t tensor) { return static_cast<bool>(relations[tensor]); });
  const Sets of_target(target, left);
  std::map<std::pair<double, double>, std::uint32_t> cut_from;  // by sum and squares of a part: the golden whole
  for (const std::uint32_t tensor : golden_left) {
    const Numbers whole = numbers_of(golden, tensor);
    std::vector<std::uint32_t> parts = of_target.parts_of(golden.tensors[tensor], whole);
    if (parts.empty()) {
      if (const auto repeated = of_target.repeated_in(golden.tensors[tensor], whole)) parts = {repeated->first};
    }
    for (const std::uint32_t part : parts) {
      const Numbers own = numbers_of(target, part);
      cut_from.try_emplace({own.sum, own.squares}, tensor);
    }
    if (!parts.empty()) met[tensor] = 1;
  }
  // Also views of the parts.
  for (const std::uint32_t tensor : left) {
    const Numbers own = numbers_of(target, tensor);
    const auto whole = cut_from.find({own.sum, own.squares});
    if (whole != cut_from.end()) relate(tensor, RelationKind::cut, {whole->second});
  }
}

}  // namespace sonde
