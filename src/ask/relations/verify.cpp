#include "ask/relations/verify.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "ask/compare/tolerance.h"
#include "read/measure/values.h"
#include "sonde/dtype.h"

namespace sonde {

// The largest relative error of two tensors that are related. Weights are copied, not computed.
double tolerance_for(const PoolTensor& target, const PoolTensor& golden) {
  const double spacing = std::max(epsilon_of(target.dtype()), epsilon_of(golden.dtype()));
  const bool are_weights = target.holds_weights || golden.holds_weights;  // those of another step are near
  return are_weights ? std::max(1e-5, 2 * spacing) : std::max(1e-3, 6 * spacing);
}

bool has_hidden(double min, double max) {
  constexpr double kLeastHidden = 1e3, kTimesLarger = 100;
  return -min >= kLeastHidden && -min > kTimesLarger * std::abs(max);
}

bool agree(const Extent& a, const Extent& b, std::uint64_t count, double tolerance, double noise) {
  const double scale = std::max(tolerance * std::max(a.norm, b.norm), noise);
  return std::abs(a.norm - b.norm) <= scale && std::abs(a.sum - b.sum) <= scale * std::sqrt(static_cast<double>(count));
}

namespace {

constexpr double kLeastTolerance = 1e-3;  // of one element, which may be small beside its terms

// The largest of those that are not hidden stands for them: an extreme is known by statistics, too.
bool agree_beside_hidden(const TensorPrint& a, const TensorPrint& b, double tolerance) {
  if (!has_hidden(a.min, a.max) || !has_hidden(b.min, b.max)) return true;
  return std::abs(a.max - b.max) <= tolerance * std::max(std::abs(a.max), std::abs(b.max));
}

// The difference of the elements that neither side hides, to take the place of that of all.
class BesideHidden {
 public:
  BesideHidden(const TensorPrint& a, const TensorPrint& b)
      : is_needed_(has_hidden(a.min, a.max) && has_hidden(b.min, b.max)), limit_(std::max(a.min, b.min) / 2) {}

  // Both have as many elements, in their order.
  void add(const PartView& a, const PartView& b) {
    if (!is_needed_ || a.view().elements() == 0) return;
    constexpr std::size_t kAtOnce = 4096;
    std::vector<double> xs(kAtOnce), ys(kAtOnce);
    ValueReader left(a.view()), right(b.view());
    while (const std::size_t count = left.read(xs)) {
      right.read(ys);
      add({xs.data(), count}, {ys.data(), count});
    }
  }

  void set(TensorDifference& found) const {
    constexpr double kFewest = 8;
    const double squares = std::max(squares_, own_squares_);  // a mask alone has zeros where scores are
    if (kept_ < kFewest || squares == 0) return;
    found.rms_error = std::sqrt(errors_ / kept_);
    found.rms = std::sqrt(squares / kept_);
  }

 private:
  void add(std::span<const double> xs, std::span<const double> ys) {
    for (std::size_t i = 0; i < xs.size(); ++i) {
      const double x = xs[i], y = ys[i];
      if (!std::isfinite(x) || !std::isfinite(y) || x < limit_ || y < limit_) continue;
      errors_ += (x - y) * (x - y);
      squares_ += y * y;
      own_squares_ += x * x;
      ++kept_;
    }
  }

  const bool is_needed_;
  const double limit_;
  double errors_ = 0, squares_ = 0, own_squares_ = 0, kept_ = 0;
};

}  // namespace

bool agree(const TensorPrint& a, const TensorPrint& b, double tolerance) {
  if (a.count != b.count || a.non_finite != b.non_finite || !agree(a.whole, b.whole, a.count, tolerance)) return false;
  const double scale = tolerance * std::max(a.whole.norm, b.whole.norm);
  return std::abs(a.min - b.min) <= scale && std::abs(a.max - b.max) <= scale &&
         agree_beside_hidden(a, b, std::max(tolerance, kLeastTolerance));
}

// Some of the elements: enough to distinguish a wrong order of axes from the right one.
bool agree_in_samples(const PartView& a, const PartView& b, std::int64_t count, double norm, double tolerance) {
  constexpr std::int64_t kSamples = 61;
  const double scale = norm / std::sqrt(static_cast<double>(count));
  const std::int64_t stride = std::max<std::int64_t>(1, count / kSamples);
  double errors = 0, taken = 0;
  for (std::int64_t at = 0; at < count; at += stride) {
    const double x = a.at(at), y = b.at(at);
    if (std::isfinite(x) != std::isfinite(y)) return false;
    if (std::isfinite(x)) errors += (x - y) * (x - y);
    ++taken;
  }
  // The samples may be larger than the average.
  return errors <= taken * scale * scale * tolerance * tolerance * 16;
}

TensorDifference difference_by_statistics(const PoolTensor& target, const PoolTensor& golden) {
  TensorDifference found;
  found.by = ComparedBy::statistics;
  found.dtype = target.dtype();
  found.golden_dtype = golden.dtype();
  found.shape = target.of.tensor->shape;
  found.golden_shape = golden.of.tensor->shape;
  const TensorPrint &a = target.print, &b = golden.print;
  found.count = a.count;
  const double count = static_cast<double>(a.count);
  found.rms = b.whole.norm / std::sqrt(count);
  found.rms_error =
      std::max(std::abs(a.whole.norm - b.whole.norm) / std::sqrt(count), std::abs(a.whole.sum - b.whole.sum) / count);
  found.max_error = std::max({std::abs(a.max - b.max), std::abs(a.min - b.min), found.rms_error});
  found.max_size = std::max(std::abs(b.min), std::abs(b.max));
  found.mismatches = found.max_error > 0 ? 1 : 0;
  found.equal = found.mismatches == 0;
  return found;
}

// The order of axes of one side that gives the elements of the other; false: none does.
bool turn_to_agree(PartView& target, PartView& golden, std::int64_t count, double norm, double tolerance,
                   Relation& relation) {
  if (agree_in_samples(target, golden, count, norm, tolerance)) return true;
  for (const bool turns_target : {false, true}) {
    PartView& turned = turns_target ? target : golden;
    const PartView& other = turns_target ? golden : target;
    const std::vector<std::int64_t> shape = turned.shape();
    for (const std::vector<std::size_t>& order : orders_of(shape.size())) {
      turned.permute(order);
      if (agree_in_samples(turned, other, count, norm, tolerance)) {
        relation.order = order;
        relation.turns_target = turns_target;
        return true;
      }
      std::vector<std::size_t> back(order.size());
      for (std::size_t i = 0; i < order.size(); ++i) back[order[i]] = i;
      turned.permute(back);
    }
  }
  return false;
}

bool verify_whole(const Pool& target, std::uint32_t tensor, const Pool& golden, std::uint32_t other, double tolerance,
                  const ForEach& for_each, Relation& into) {
  const PoolTensor &mine = target.tensors[tensor], &theirs = golden.tensors[other];
  into.axis = -1;
  into.parts = {{.golden = other}};
  into.kind = RelationKind::same;
  if (!mine.print.by_values || !theirs.print.by_values) {
    if (!agree(mine.print, theirs.print, tolerance / 10)) return false;
    into.difference = difference_by_statistics(mine, theirs);
    return true;
  }
  const auto x = target.values_of(tensor), y = golden.values_of(other);
  if (!x || !y) return false;
  PartView left(x.view()), right(y.view());
  const auto count = static_cast<std::int64_t>(mine.print.count);
  if (!turn_to_agree(left, right, count, theirs.print.whole.norm, tolerance, into)) return false;
  if (!into.order.empty()) into.kind = RelationKind::permuted;
  const PairSums sums = compare_pair(left.view(), right.view(), {.all_sums = false}, for_each);
  if (sums.different_non_finite() > 0) return false;
  into.difference = difference_of_sums(mine.of, theirs.of, sums);
  BesideHidden beside(mine.print, theirs.print);
  beside.add(left, right);
  beside.set(into.difference);
  return into.difference.relative() <= tolerance;
}

bool verify_parts(const Pool& target, std::uint32_t tensor, const Pool& golden, double tolerance, Relation& into,
                  bool to_the_end) {
  const PoolTensor& mine = target.tensors[tensor];
  const auto x = target.values_of(tensor);
  if (!x) return false;
  PairSums all;
  BesideHidden beside(mine.print, mine.print);
  for (const RelationPart& part : into.parts) {
    const auto y = golden.values_of(part.golden);
    if (!y) return false;
    TensorView whole = x.view();
    const std::vector<std::int64_t> strides = {into.merged.empty() ? 1 : into.merged[1], 1};
    if (!into.merged.empty()) {
      whole.shape = into.merged;
      whole.strides = strides;
    }
    TensorView theirs = y.view();
    const std::int64_t width = theirs.shape.empty() ? 1 : theirs.shape.back();
    const std::vector<std::int64_t> rows_shape = {theirs.elements() / std::max<std::int64_t>(width, 1), width},
                                    rows_strides = {width, 1};
    if (part.axis == kAxisOfRows) {
      if (!theirs.is_c_contiguous()) return false;
      theirs.shape = rows_shape;
      theirs.strides = rows_strides;
    }
    PartView left(whole), right(theirs);
    if (into.axis >= 0) left.keep(static_cast<std::size_t>(into.axis), part.at, 1, part.count);
    const std::size_t axis = part.axis == kAxisOfRows ? 0 : static_cast<std::size_t>(part.axis);
    if (part.axis >= 0) right.keep(axis, part.start, part.step, part.count);
    const std::int64_t count = left.view().elements();
    if (count != right.view().elements()) return false;
    const double norm =
        mine.print.whole.norm * std::sqrt(static_cast<double>(count) / static_cast<double>(mine.print.count));
    Relation turned;
    if (!turn_to_agree(left, right, count, norm, tolerance, turned) && !to_the_end) return false;
    PairSums sums = compare_pair(left.view(), right.view(), {.all_sums = false}, in_order);
    if (sums.different_non_finite() > 0 && !to_the_end) return false;
    sums.worst.index += all.count;
    add(all, sums);
    beside.add(left, right);
  }
  into.difference = difference_of_sums(mine.of, golden.tensors[into.golden()].of, all);
  beside.set(into.difference);
  return all.different_non_finite() == 0 && into.difference.relative() <= tolerance;
}

namespace {

// The places of equal parts of `of` in `whole`; empty: they are not the same parts.
std::vector<std::size_t> places_of_parts(const std::vector<double>& whole, const std::vector<double>& of,
                                         std::size_t parts, double slack) {
  const std::size_t size = whole.size() / parts;
  std::vector<std::size_t> places;
  for (std::size_t part = 0; part < parts; ++part) {
    std::size_t at = 0;
    const auto is_at = [&](std::size_t place) {
      double errors = 0;
      for (std::size_t i = 0; i < size; ++i) errors += std::pow(whole[part * size + i] - of[place * size + i], 2);
      return std::sqrt(errors) <= slack && std::ranges::find(places, place) == places.end();
    };
    while (at < parts && !is_at(at)) ++at;
    if (at == parts) return {};
    places.push_back(at);
  }
  return places;
}

}  // namespace

bool verify_sum(const Pool& target, std::uint32_t tensor, const Pool& golden, Relation& into) {
  const PoolTensor& mine = target.tensors[tensor];
  const auto x = target.values_of(tensor), y = golden.values_of(into.parts[0].golden),
             z = golden.values_of(into.parts[1].golden);
  if (!x || !y || !z) return false;
  const std::vector<double> whole = all_values(x.view()), one = all_values(y.view()), two = all_values(z.view());
  if (one.size() != whole.size() || two.size() != whole.size()) return false;
  std::vector<double> sum = one;
  double errors = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum[i] += two[i];
    errors += std::pow(whole[i] - sum[i], 2);
  }
  const double slack = 1e-5 * mine.print.whole.norm;
  into.difference = difference_by_statistics(mine, mine);
  into.difference.rms_error = std::sqrt(errors / static_cast<double>(whole.size()));
  if (std::sqrt(errors) <= slack) return true;
  // Gates in another order: three of a GRU, four of an LSTM.
  for (const std::size_t parts : {3, 4}) {
    if (mine.shape.size() != 1 || whole.size() % parts != 0 || whole.size() < 2 * parts) continue;
    into.order = places_of_parts(whole, sum, parts, slack);
    into.difference.rms_error = 0;
    if (!into.order.empty()) return true;
  }
  return false;
}

namespace {

// Of a claim that names a whole tensor and the order of axes.
Checked check_whole(const Pool& target, std::uint32_t tensor, const Pool& golden, const Relation& claim) {
  const PoolTensor &mine = target.tensors[tensor], &theirs = golden.tensors[claim.golden()];
  Checked checked{.relation = claim};
  if (mine.print.count != theirs.print.count) return {};
  const double tolerance = tolerance_for(mine, theirs);
  if (!mine.print.by_values || !theirs.print.by_values) {
    checked.fits = agree(mine.print, theirs.print, tolerance / 10);
    checked.relation.difference = difference_by_statistics(mine, theirs);
    return checked;
  }
  const auto x = target.values_of(tensor), y = golden.values_of(claim.golden());
  if (!x || !y) return {.is_known = false};
  PartView left(x.view()), right(y.view());
  PartView& turned = claim.turns_target ? left : right;
  if (!claim.order.empty() && claim.order.size() != turned.shape().size()) return {};
  if (!claim.order.empty()) turned.permute(claim.order);
  const PairSums sums = compare_pair(left.view(), right.view(), {.all_sums = false}, in_order);
  checked.relation.difference = difference_of_sums(mine.of, theirs.of, sums);
  checked.fits = sums.different_non_finite() == 0 && checked.relation.difference.relative() <= tolerance;
  return checked;
}

}  // namespace

Checked check_claim(const Pool& target, std::uint32_t tensor, const Pool& golden, const Relation& claim) {
  if (!claim) return {.fits = true};
  const PoolTensor& mine = target.tensors[tensor];
  double tolerance = 0;
  bool has_values = mine.print.by_values;
  for (const RelationPart& part : claim.parts) {
    tolerance = std::max(tolerance, tolerance_for(mine, golden.tensors[part.golden]));
    has_values = has_values && golden.tensors[part.golden].print.by_values;
  }
  Checked checked{.relation = claim};
  switch (claim.kind) {
    case RelationKind::same:
    case RelationKind::permuted:
      return check_whole(target, tensor, golden, claim);
    case RelationKind::constant: {
      const TensorPrint &print = mine.print, &other = golden.tensors[claim.golden()].print;
      checked.relation.difference = difference_by_statistics(mine, golden.tensors[claim.golden()]);
      checked.fits =
          print.is_constant() && other.is_constant() && std::abs(other.min - print.min) <= 1e-5 * std::abs(print.min);
      if (checked.fits) checked.relation.difference.rms_error = checked.relation.difference.max_error = 0;
      if (checked.fits) checked.relation.difference.equal = true;
      return checked;
    }
    case RelationKind::sum:
      if (!has_values) return {.is_known = false};
      checked.fits = claim.parts.size() == 2 && verify_sum(target, tensor, golden, checked.relation);
      return checked;
    default:
      if (!has_values || claim.is_of_sums) return {.is_known = false};
      checked.fits = verify_parts(target, tensor, golden, tolerance, checked.relation, true);
      if (checked.relation.difference.by == ComparedBy::nothing) checked.relation = {};
      return checked;
  }
}

}  // namespace sonde
