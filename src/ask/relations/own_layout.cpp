#include "ask/relations/own_layout.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "ask/relations/element_order.h"
#include "ask/relations/standings.h"
#include "ask/relations/verify.h"
#include "read/measure/values.h"
#include "read/operators/op_family.h"

namespace sonde {
namespace {

double norm_of(std::span<const double> row) {
  return std::sqrt(std::inner_product(row.begin(), row.end(), row.begin(), 0.0));
}

bool is_flat(std::span<const double> row) {
  return std::ranges::all_of(row, [&](double value) { return value == row.front(); });
}

// One may be a view of the other, or have its axes in another order.
bool may_be_same_layout(const PoolTensor& own, const PoolTensor& other) {
  if (own.print.count != other.print.count || other.shape.empty()) return false;
  std::vector<std::int64_t> mine = own.shape, theirs = other.shape;
  if (mine.back() == theirs.back()) return true;
  std::ranges::sort(mine);
  std::ranges::sort(theirs);
  return mine == theirs;
}

}  // namespace

// Elements of one or more tensors one after the other, in which runs of elements are found.
struct OwnLayout::Rows {
  static constexpr std::size_t kMostElements = 1 << 21;  // larger runs are left as they are
  static constexpr std::size_t kFewestInRow = 4;

  std::vector<double> values;
  std::vector<std::uint32_t> order;  // of the values: places

  void add(std::vector<double> more) { values.insert(values.end(), more.begin(), more.end()); }

  void sort() {
    for (std::uint32_t i = 0; i < values.size(); ++i) {
      if (std::isfinite(values[i])) order.push_back(i);
    }
    std::ranges::sort(order, {}, [&](std::uint32_t at) { return values[at]; });
  }

  // By its largest element: zeros are everywhere.
  bool has(std::span<const double> row) const {
    constexpr int kMostTried = 4096;
    const double slack = 1e-4 * norm_of(row);
    const auto largest = std::ranges::max_element(row, {}, [](double value) { return std::abs(value); });
    const auto offset = static_cast<std::size_t>(largest - row.begin());
    auto at = std::ranges::lower_bound(order, *largest - slack, {}, [&](std::uint32_t i) { return values[i]; });
    for (int tried = 0; at != order.end() && values[*at] <= *largest + slack && tried < kMostTried; ++at, ++tried) {
      if (*at < offset || *at - offset + row.size() > values.size()) continue;
      const double* other = values.data() + (*at - offset);
      double errors = 0;
      for (std::size_t i = 0; i < row.size() && errors <= slack * slack; ++i) {
        errors += (row[i] - other[i]) * (row[i] - other[i]);
      }
      if (errors <= slack * slack) return true;
    }
    return false;
  }

  // Most rows must prove something.
  bool has_all(const std::vector<double>& of, std::size_t width) const {
    std::size_t flat = 0;
    for (std::size_t at = 0; at + width <= of.size(); at += width) {
      const std::span<const double> row(of.data() + at, width);
      if (is_flat(row)) {
        ++flat;
      } else if (!has(row)) {
        return false;
      }
    }
    return 2 * flat * width < of.size();
  }
};

OwnLayout::OwnLayout(const Pool& target, const Pool& golden, const RelationJudgement& judgement)
    : target_(target), golden_(golden), judgement_(judgement), has_values_(target.has_values() && golden.has_values()) {
  if (!has_values_) return;
  std::set<std::pair<LinePlace, std::uint64_t>> met;  // lines that give golden results of this size in another layer
  for (std::uint32_t i = 0; i < golden.tensors.size(); ++i) {
    const PoolTensor& own = golden.tensors[i];
    if (own.op != kNoOp && judgement.met[i]) met.emplace(line_of(golden.catalog_op(own.op)), own.print.count);
  }
  for (std::uint32_t i = 0; i < golden.tensors.size(); ++i) {
    const PoolTensor& own = golden.tensors[i];
    if (own.op == kNoOp || judgement.met[i] || !judgement.golden.has[own.op]) continue;
    if (!met.contains({line_of(golden.catalog_op(own.op)), own.print.count})) free_.push_back(i);
  }
}

bool OwnLayout::has(std::uint32_t op, const std::vector<char>& is_excused) const {
  const std::vector<std::uint32_t>& outputs = target_.ops[op].outputs;
  if (!has_values_ || outputs.empty()) return false;
  // An operator whose rows are golden for the most part reads the right values. One that moves proves nothing.
  const bool is_known = reads_known(op, is_excused);
  if (!is_known && moves_or_casts(target_.op(op).kind)) return false;
  const bool turns = turns_all(op);
  if (!turns && may_misplace(op)) return false;
  return std::ranges::all_of(outputs, [&](std::uint32_t output) {
    if (!is_bad(judgement_.standings[output])) return true;
    if (judgement_.standings[output] == Standing::beyond || !is_own(output)) return false;
    return turns || consists_of_golden(output) || holds_golden(output, is_known ? 0 : 0.5);
  });
}

bool OwnLayout::is_own(std::uint32_t tensor) const {
  const PoolTensor& own = target_.tensors[tensor];
  if (!own.has_fractions() || !own.print.by_values || own.shape.empty()) return false;
  // Beside what a mask hides all rows are alike.
  if (own.print.non_finite > 0 || has_hidden(own.print.min, own.print.max)) return false;
  return std::ranges::none_of(free_,
                              [&](std::uint32_t other) { return may_be_same_layout(own, golden_.tensors[other]); });
}

// It chooses, repeats or orders rows, perhaps others than the golden run, or reads them in another order.
bool OwnLayout::may_misplace(std::uint32_t op) const {
  if (!moves_or_casts(target_.op(op).kind)) return false;
  const PoolOp& own = target_.ops[op];
  if (own.inputs.size() != 1 || puts_in_order(target_, op)) return true;
  const std::uint32_t maker = target_.tensors[own.inputs.front()].op;
  const RelationKind kind = judgement_.relations[own.inputs.front()].kind;
  const bool was_moved = maker != kNoOp && moves_or_casts(target_.op(maker).kind);
  return kind == RelationKind::permuted || (was_moved && kind == RelationKind::joined) ||
         target_.tensors[own.outputs.front()].print.count > target_.tensors[own.inputs.front()].print.count;
}

// All elements, with its axes in another order.
bool OwnLayout::turns_all(std::uint32_t op) const {
  const PoolOp& own = target_.ops[op];
  const bool moves = moves_or_casts(target_.op(op).kind) && !puts_in_order(target_, op);
  return moves && own.inputs.size() == 1 && own.outputs.size() == 1 &&
         target_.tensors[own.outputs.front()].print.count == target_.tensors[own.inputs.front()].print.count;
}

bool OwnLayout::reads_known(std::uint32_t op, const std::vector<char>& is_excused) const {
  return std::ranges::all_of(target_.ops[op].inputs, [&](std::uint32_t input) {
    const std::uint32_t maker = target_.tensors[input].op;
    return !is_bad(judgement_.standings[input]) || !target_.tensors[input].has_fractions() ||
           (maker != kNoOp && !is_excused.empty() && is_excused[maker] != 0);
  });
}

const OwnLayout::Rows* OwnLayout::golden_rows() const {
  if (golden_rows_ != nullptr) return golden_rows_.get();
  Rows rows;
  for (std::uint32_t i = 0; i < golden_.tensors.size(); ++i) {
    const PoolTensor& own = golden_.tensors[i];
    if (own.op == kNoOp || !own.has_fractions() || own.print.is_constant()) continue;
    const PoolValues values = golden_.values_of(i);
    if (!values || rows.values.size() + own.print.count > Rows::kMostElements) continue;
    rows.add(all_values(values.view()));
  }
  rows.sort();
  golden_rows_ = std::make_shared<const Rows>(std::move(rows));
  return golden_rows_.get();
}

bool OwnLayout::consists_of_golden(std::uint32_t tensor) const {
  const PoolTensor& own = target_.tensors[tensor];
  const PoolValues values = target_.values_of(tensor);
  if (!values || own.shape.size() < 2 || own.print.count > left_) return false;
  left_ -= own.print.count;
  const auto width = static_cast<std::size_t>(own.shape.back());
  return width >= Rows::kFewestInRow && golden_rows()->has_all(all_values(values.view()), width);
}

bool OwnLayout::holds_golden(std::uint32_t tensor, double least_share) const {
  const PoolValues values = target_.values_of(tensor);
  const std::uint64_t count = target_.tensors[tensor].print.count;
  if (!values || count > left_) return false;
  left_ -= count;
  Rows rows;
  rows.add(all_values(values.view()));
  rows.sort();
  return std::ranges::any_of(free_, [&](std::uint32_t other) {
    const PoolTensor& own = golden_.tensors[other];
    if (own.shape.empty() || own.print.count >= count || own.print.proves_nothing()) return false;
    if (static_cast<double>(own.print.count) < least_share * static_cast<double>(count)) return false;
    const auto width = static_cast<std::size_t>(own.shape.back());
    const PoolValues theirs = golden_.values_of(other);
    return width >= Rows::kFewestInRow && theirs && rows.has_all(all_values(theirs.view()), width);
  });
}

}  // namespace sonde
