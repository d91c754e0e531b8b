#include "ask/watch/watch_bounds.h"

#include <algorithm>
#include <cmath>

namespace sonde {
namespace {

constexpr double kArithmetic = 1e-12;  // what a sum of a few terms loses in double, as a part of the largest
constexpr double kUnderflow = 1e-150;  // the squares of smaller elements are lost in a norm

// A number that is known up to its rounding.
Bounds around(const std::optional<double>& value, double rounding) {
  if (!value || !std::isfinite(*value)) return {};
  const double off = std::abs(*value) * rounding;
  return {*value - off, *value + off};
}

Bounds both(const Bounds& a, const Bounds& b) { return {std::max(a.low, b.low), std::min(a.high, b.high)}; }
Bounds at_most(double high) { return {-std::numeric_limits<double>::infinity(), high}; }
Bounds at_least(double low) { return {low, std::numeric_limits<double>::infinity()}; }
double largest_size(const Bounds& of) { return std::max(std::abs(of.low), std::abs(of.high)); }
double smallest_size(const Bounds& of) { return of.low > 0 ? of.low : of.high < 0 ? -of.high : 0; }

// All that follows from the known numbers, as intervals.
struct BoundNumbers {
  explicit BoundNumbers(const KnownNumbers& known)
      : counts(known),
        n(static_cast<double>(known.count.value_or(0))),
        max(around(known.max, known.rounding)),
        min(around(known.min, known.rounding)),
        mean(around(known.mean, known.rounding)),
        norm(both(around(known.l2norm, known.rounding), at_least(0))) {
    norm.high += kUnderflow;
    if (known.l2norm && n > 0) {
      const double root = norm.high / std::sqrt(n);
      mean = both(mean, {-root, root});
      max = both(max, {-norm.high, norm.high});
      min = both(min, {-norm.high, norm.high});
    }
    mean = both(mean, {min.low, max.high});
    max = both(max, at_least(mean.low));
    min = both(min, at_most(mean.high));
    size = {std::max({smallest_size(max), smallest_size(min), n > 0 ? norm.low / std::sqrt(n) : 0}),
            std::min(std::max(largest_size(max), largest_size(min)), norm.high)};
  }

  const KnownNumbers& counts;
  double n;                           // 0: unknown
  Bounds max, min, mean, norm, size;  // size: of the element that is farthest from zero
};

Bounds abs_mean_of(const BoundNumbers& x) {
  Bounds bounds = {smallest_size(x.mean), x.size.high};
  if (x.n > 0) {
    bounds.high = std::min(bounds.high, x.norm.high / std::sqrt(x.n));
    bounds.low = std::max(bounds.low, x.size.low / x.n);
    if (x.size.high > 0) bounds.low = std::max(bounds.low, x.norm.low * x.norm.low / (x.n * x.size.high));
  }
  if (x.min.low >= 0) return both(bounds, x.mean);
  if (x.max.high <= 0) return both(bounds, {-x.mean.high, -x.mean.low});
  const double low = x.min.low, high = x.max.high;
  if (std::isfinite(low) && std::isfinite(high)) {
    // |x| lies below the chord from (min, -min) to (max, max).
    const auto chord = [&](double mean) { return (high * (mean - low) - low * (high - mean)) / (high - low); };
    bounds.high = std::min(bounds.high, std::max(chord(x.mean.low), chord(x.mean.high)));
  }
  return bounds;
}

// Of a sample; the sums of squares are s = l2norm^2 - n mean^2.
Bounds sd_of(const BoundNumbers& x) {
  if (x.n == 0) return at_least(0);
  if (x.n == 1) return {0, 0};
  const double spread = x.max.high - x.min.low, sample = x.n / (x.n - 1);
  Bounds variance = {std::max(0.0, x.max.low - x.min.high) * std::max(0.0, x.max.low - x.min.high) / (2 * (x.n - 1)),
                     spread * spread / 4 * sample};
  const double above = x.max.high - x.mean.low, below = x.mean.high - x.min.low;
  if (std::isfinite(above) && std::isfinite(below)) variance.high = std::min(variance.high, above * below * sample);
  if (std::isfinite(x.norm.high)) {
    const double least = smallest_size(x.mean), most = largest_size(x.mean);
    const double off = kArithmetic * x.norm.high * x.norm.high;
    variance = both(variance, {(x.norm.low * x.norm.low - x.n * most * most - off) / (x.n - 1),
                               (x.norm.high * x.norm.high - x.n * least * least + off) / (x.n - 1)});
  }
  return {std::sqrt(std::max(0.0, variance.low)), std::sqrt(std::max(0.0, variance.high))};
}

// Elements that are not zero.
Bounds nonzero_of(const BoundNumbers& x) {
  Bounds count = {0, x.n > 0 ? x.n : std::numeric_limits<double>::infinity()};
  const auto& [max, min, mean, norm, all, positive, negative, zero, rounding] = x.counts;
  if (positive && negative) {
    const auto sum = static_cast<double>(*positive + *negative);
    return {sum, sum};
  }
  if (zero && x.n > 0) return {x.n - static_cast<double>(*zero), x.n - static_cast<double>(*zero)};
  if (max == 0.0 && min == 0.0) return {0, 0};
  if (x.n == 0) return {x.size.low > 0 ? 1.0 : 0.0, count.high};
  if (x.min.low > 0 || x.max.high < 0) return {x.n, x.n};
  if (x.size.low > 0) count.low = 1;
  if (x.size.high > 0 && std::isfinite(x.size.high)) {
    count.low = std::max(count.low, x.norm.low * x.norm.low / (x.size.high * x.size.high));
    count.low = std::max(count.low, x.n * smallest_size(x.mean) / x.size.high);
  }
  if (x.norm.high > 0 && std::isfinite(x.norm.high)) {
    const double sum = x.n * smallest_size(x.mean);
    count.low = std::max(count.low, sum * sum / (x.norm.high * x.norm.high));
  }
  // Less than a rounding above a whole number is that number.
  count.low = std::min(x.n, std::ceil(count.low * (1 - 4 * rounding) - 1e-9));
  return count;
}

Bounds zero_percentage_of(const BoundNumbers& x) {
  const Bounds nonzero = nonzero_of(x);
  if (x.n == 0) return {nonzero.high == 0 ? 100.0 : 0, nonzero.low > 0 ? std::nextafter(100.0, 0.0) : 100};
  return {100 * (x.n - nonzero.high) / x.n, 100 * (x.n - nonzero.low) / x.n};
}

// The sum of (x - start)(end - x) over the elements: positive for those in the range, at most ((end - start) / 2)^2.
Bounds sum_of_parabola(const ValueRange& range, const BoundNumbers& x) {
  const double sum = range.start + range.end, product = range.start * range.end;
  const double low = std::min(sum * x.mean.low, sum * x.mean.high);
  const double high = std::max(sum * x.mean.low, sum * x.mean.high);
  const double most = x.n * (std::max(std::abs(low), std::abs(high)) + std::abs(product)) + x.norm.high * x.norm.high;
  const double off = kArithmetic * most;  // the terms may cancel
  return {x.n * low - x.norm.high * x.norm.high - product * x.n - off,
          x.n * high - x.norm.low * x.norm.low - product * x.n + off};
}

}  // namespace

Bounds bounds_of(Quantity quantity, const KnownNumbers& known) {
  const BoundNumbers x(known);
  switch (quantity) {
    case Quantity::max:
      return x.max;
    case Quantity::min:
      return x.min;
    case Quantity::mean:
      return x.mean;
    case Quantity::abs_mean:
      return abs_mean_of(x);
    case Quantity::sd:
      return sd_of(x);
    case Quantity::max_min:
      return {std::max(0.0, x.max.low - x.min.high), x.max.high - x.min.low};
    case Quantity::zero_percentage:
      return zero_percentage_of(x);
    default:
      return {};
  }
}

Bounds range_bounds(const ValueRange& range, const KnownNumbers& known) {
  const BoundNumbers x(known);
  if (x.min.low >= range.start && x.max.high <= range.end) return {100, 100};
  if (x.max.high < range.start || x.min.low > range.end) return {0, 0};
  if (x.n == 0) return {0, 100};
  const auto in = [&](const Bounds& of) { return of.low >= range.start && of.high <= range.end; };
  const auto out = [&](const Bounds& of) { return of.high < range.start || of.low > range.end; };
  Bounds inside = {in(x.min) || in(x.max) ? 1.0 : 0.0, x.n - (out(x.min) || out(x.max) ? 1.0 : 0.0)};
  if (range.end == 0 && x.min.low >= range.start && known.positive_count) {
    inside.low = inside.high = x.n - static_cast<double>(*known.positive_count);
  }
  if (range.start == 0 && x.max.high <= range.end && known.negative_count) {
    inside.low = inside.high = x.n - static_cast<double>(*known.negative_count);
  }
  const bool holds_zero = range.start <= 0 && range.end >= 0;
  if (holds_zero) inside.low = std::max(inside.low, x.n - nonzero_of(x).high);
  const bool only_zero = (range.start == 0 || x.min.low >= 0) && (range.end == 0 || x.max.high <= 0);
  if (holds_zero && only_zero) inside.high = std::min(inside.high, x.n - nonzero_of(x).low);
  if (std::isfinite(x.norm.high) && range.end > range.start) {
    const Bounds sum = sum_of_parabola(range, x);
    const double half = (range.end - range.start) / 2;
    inside.low = std::max(inside.low, std::ceil(sum.low / (half * half) * (1 - 1e-9) - 1e-9));
    const auto depth = [&](double at) { return std::max(0.0, (range.start - at) * (range.end - at)); };
    const double deepest = std::max(depth(x.min.low), depth(x.max.high));  // of an element outside
    if (deepest > 0 && std::isfinite(deepest) && sum.high < 0) {
      inside.high = std::min(inside.high, x.n - std::ceil(-sum.high / deepest * (1 - 1e-9) - 1e-9));
    }
  }
  return {100 * std::clamp(inside.low, 0.0, x.n) / x.n, 100 * std::clamp(inside.high, 0.0, x.n) / x.n};
}

Bounds update_bounds(const KnownNumbers& current, const KnownNumbers& previous, double epsilon) {
  const BoundNumbers now(current), old(previous);
  const Bounds now_size = abs_mean_of(now), old_size = abs_mean_of(old);
  const auto apart = [](const Bounds& a, const Bounds& b) { return std::max({0.0, a.low - b.high, b.low - a.high}); };
  Bounds change = {std::max(apart(now.mean, old.mean), apart(now_size, old_size)), now_size.high + old_size.high};
  change.high = std::min(change.high, std::max(now.max.high - old.min.low, old.max.high - now.min.low));
  if (now.n > 0) {
    const double most = std::max({apart(now.max, old.max), apart(now.min, old.min), apart(now.norm, old.norm)});
    change.low = std::max(change.low, most / now.n);
  }
  return {change.low / (old_size.high + epsilon), change.high / (old_size.low + epsilon)};
}

bool must_differ(const KnownNumbers& current, const KnownNumbers& previous, const Tolerance& tolerance) {
  const BoundNumbers now(current), old(previous);
  const double most = tolerance.absolute + tolerance.relative * old.size.high;  // of each element
  const auto apart = [](const Bounds& a, const Bounds& b) { return std::max(a.low - b.high, b.low - a.high); };
  return apart(now.max, old.max) > most || apart(now.min, old.min) > most || apart(now.mean, old.mean) > most;
}

}  // namespace sonde
