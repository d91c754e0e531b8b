// The bounds of docs/watch.md, "What statistics decide", against the values of random tensors of many kinds.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "ask/watch/watch_bounds.h"

namespace sonde {
namespace {

using Values = std::vector<double>;

double mean_of(const Values& x) {
  double sum = 0;
  for (const double value : x) sum += value;
  return sum / static_cast<double>(x.size());
}

Values sizes_of(Values x) {
  for (double& value : x) value = std::abs(value);
  return x;
}

double deviation_of(const Values& x) {
  if (x.size() < 2) return 0;
  const double mean = mean_of(x);
  double sum = 0;
  for (const double value : x) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(x.size() - 1));
}

template <typename Predicate>
double percentage(const Values& x, const Predicate& predicate) {
  return 100 * static_cast<double>(std::ranges::count_if(x, predicate)) / static_cast<double>(x.size());
}

double actual(Quantity quantity, const Values& x) {
  switch (quantity) {
    case Quantity::max:
      return *std::ranges::max_element(x);
    case Quantity::min:
      return *std::ranges::min_element(x);
    case Quantity::mean:
      return mean_of(x);
    case Quantity::abs_mean:
      return mean_of(sizes_of(x));
    case Quantity::sd:
      return deviation_of(x);
    case Quantity::max_min:
      return *std::ranges::max_element(x) - *std::ranges::min_element(x);
    default:
      return percentage(x, [](double value) { return value == 0; });
  }
}

// A part of the statistics, by the bits of `which`; those of a table have six digits.
KnownNumbers known(const Values& x, unsigned which, bool of_table) {
  KnownNumbers numbers;
  double squares = 0;
  for (const double value : x) squares += value * value;
  const auto written = [&](double value) { return of_table ? std::stod(fmt::format("{:.6g}", value)) : value; };
  if (which & 1) numbers.max = written(actual(Quantity::max, x));
  if (which & 2) numbers.min = written(actual(Quantity::min, x));
  if (which & 4) numbers.mean = written(mean_of(x));
  if (which & 8) numbers.l2norm = written(std::sqrt(squares));
  if (which & 16) numbers.count = x.size();
  const auto count = [&](const auto& predicate) {
    return static_cast<std::uint64_t>(std::ranges::count_if(x, predicate));
  };
  if (which & 32) numbers.positive_count = count([](double value) { return value > 0; });
  if (which & 32) numbers.negative_count = count([](double value) { return value < 0; });
  if (which & 64) numbers.zero_count = count([](double value) { return value == 0; });
  numbers.rounding = of_table ? 1e-5 : 1e-12;
  return numbers;
}

std::vector<Values> tensors() {
  std::mt19937 random(0);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  std::vector<Values> all = {{0}, {3}, {-2.5}, {0, 0, 0}, {1, 1, 1}, {-1, -1}, {0, 1e-30}, {1e30, -1e30, 0}, {0, 0, 5}};
  for (const std::size_t size : {1, 2, 7, 100}) {
    for (const double scale : {1e-9, 1.0, 1e6}) {
      for (const double shift : {-3.0, 0.0, 0.1, 3.0}) {
        Values x(size), relu(size), sparse(size), heavy(size), sigmoid(size);
        for (std::size_t i = 0; i < size; ++i) {
          x[i] = scale * (normal(random) + shift);
          relu[i] = std::max(0.0, x[i]);
          sparse[i] = uniform(random) < 0.1 ? x[i] : 0;
          heavy[i] = x[i] * std::exp(4 * normal(random));
          sigmoid[i] = 1 / (1 + std::exp(-20 * normal(random)));
        }
        all.insert(all.end(), {x, relu, sparse, heavy, sigmoid});
      }
    }
  }
  return all;
}

constexpr Quantity kQuantities[] = {Quantity::max, Quantity::min,     Quantity::mean,           Quantity::abs_mean,
                                    Quantity::sd,  Quantity::max_min, Quantity::zero_percentage};

void expect_inside(const Bounds& bounds, double value, const std::string& what) {
  const double off = 1e-9 * std::abs(value) + 1e-300;
  EXPECT_LE(bounds.low, value + off) << what;
  EXPECT_GE(bounds.high, value - off) << what;
}

TEST(Bounds, NoValueOfATensorIsOutsideThem) {
  for (const Values& x : tensors()) {
    for (unsigned which = 0; which < 128; ++which) {
      for (const bool of_table : {false, true}) {
        const KnownNumbers numbers = known(x, which, of_table);
        const std::string what =
            "statistics " + std::to_string(which) + ", " + std::to_string(x.size()) + " of " + std::to_string(x[0]);
        for (const Quantity quantity : kQuantities) {
          expect_inside(bounds_of(quantity, numbers), actual(quantity, x),
                        what + ", quantity " + std::to_string(static_cast<int>(quantity)));
        }
        for (const ValueRange& range :
             {ValueRange{-1, 0}, {-1, 1}, {0, 1}, {1e-7, 1 - 1e-7}, {2, 4}, {-9e5, 5e5}, {0, 0}}) {
          const double inside = percentage(x, [&](double value) { return value >= range.start && value <= range.end; });
          expect_inside(range_bounds(range, numbers), inside, what + ", range from " + std::to_string(range.start));
        }
      }
    }
  }
}

TEST(Bounds, OfAChangeToo) {
  const std::vector<Values> all = tensors();
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t k = i; k < all.size() && k < i + 12; ++k) {
      const Values &now = all[i], &old = all[k];
      if (now.size() != old.size()) continue;
      Values change(now.size());
      bool close = true;
      const Tolerance tolerance = {1e-5, 1e-8};
      for (std::size_t e = 0; e < now.size(); ++e) {
        change[e] = std::abs(now[e] - old[e]);
        close = close && change[e] <= tolerance.absolute + tolerance.relative * std::abs(old[e]);
      }
      const double ratio = mean_of(change) / (mean_of(sizes_of(old)) + 1e-9);
      for (const unsigned which : {31U, 28U, 24U, 19U, 4U, 127U}) {
        for (const bool of_table : {false, true}) {
          const KnownNumbers after = known(now, which, of_table), before = known(old, which, of_table);
          expect_inside(update_bounds(after, before, 1e-9), ratio, "change, statistics " + std::to_string(which));
          EXPECT_FALSE(close && must_differ(after, before, tolerance));
        }
      }
    }
  }
}

// The recommended conditions, of ordinary tensors.
TEST(Bounds, DecideTheRecommendedConditionsOfOrdinaryTensors) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  Values x(1000), relu(1000), tanh(1000);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = 1e-3 * normal(random);
    relu[i] = std::max(0.0, normal(random));
    tanh[i] = std::tanh(normal(random));
  }
  EXPECT_GT(bounds_of(Quantity::abs_mean, known(x, 31, true)).low, 1e-9);
  EXPECT_LT(bounds_of(Quantity::zero_percentage, known(x, 3, true)).high, 100);
  EXPECT_LT(range_bounds({-1, 0}, known(relu, 31, true)).high, 99.9);
  EXPECT_GT(range_bounds({-std::tanh(8.8), std::tanh(8.8)}, known(tanh, 31, true)).low, 0.1);
  EXPECT_EQ(bounds_of(Quantity::abs_mean, known({0, 0}, 3, true)).high, 0);
}

}  // namespace
}  // namespace sonde
