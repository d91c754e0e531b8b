// The parts of two ranks beside the golden tensor, in a half type: what rounds row by row, and what all rows share.
#include "ask/unsharded/joined_tensor.h"

#include <cmath>

#include "relations/networks.h"

namespace sonde {
namespace {

constexpr std::size_t kRows = 64, kColumns = 32, kHalf = kRows / 2 * kColumns;
constexpr double kBFloat16 = 0x1p-7, kFloat16Step = 0x1p-24;

// The two halves of a tensor, and the golden one.
class Halves {
 public:
  Halves(const Values& joined, const Values& golden) : joined_(joined) {
    const auto middle = joined.begin() + static_cast<std::ptrdiff_t>(kHalf);
    parts_.add("relu", {}, Values(joined.begin(), middle), "(32,32)");
    parts_.add("relu", {}, Values(middle, joined.end()), "(32,32)");
    golden_.add("relu", {}, golden, "(64,32)");
  }

  void forget_values() {
    parts_.forget_values();
    golden_.forget_values();
  }

  Joined join_with(const JoinLimits& limits) const {
    TensorParts ranks(2, 1), whole(1, 1);
    for (std::size_t rank = 0; rank < 2; ++rank) ranks.set(rank, 0, output_of(parts_, rank));
    whole.set(0, 0, output_of(golden_, 0));
    return join(ranks, whole, limits);
  }

 private:
  static TensorOf output_of(const Program& program, std::size_t op) {
    const CatalogRank& rank = program.catalog().ranks[0];
    return {&rank, &rank.steps[0].ops[op].tensors.front()};
  }

  Values joined_;
  Program parts_, golden_;
};

// As where each element was rounded otherwise.
Values rounded(Values values, double spacing) {
  const Values chance = numbers(values.size(), 7);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= 1 + static_cast<float>(spacing) * chance[i];
  return values;
}

// A flat buffer in two parts, the second of which may end in padding, beside the golden one.
Joined join_flat(const Values& first, const Values& second, const Values& golden, const JoinLimits& limits,
                 bool by_statistics) {
  Program parts, whole;
  const auto add = [](Program& program, const Values& values) {
    program.add("relu", {}, values, "(" + std::to_string(values.size()) + ",)");
  };
  add(parts, first);
  add(parts, second);
  add(whole, golden);
  if (by_statistics) {
    parts.forget_values();
    whole.forget_values();
  }
  TensorParts ranks(2, 1), one(1, 1);
  for (std::size_t i = 0; i < 2; ++i) {
    ranks.set(i, 0, {&parts.catalog().ranks[0], &parts.catalog().ranks[0].steps[0].ops[i].tensors.front()});
  }
  one.set(0, 0, {&whole.catalog().ranks[0], &whole.catalog().ranks[0].steps[0].ops[0].tensors.front()});
  return join(ranks, one, limits);
}

JoinLimits limits_of_half(bool by_statistics_too = false) {
  return {.tolerance = 64 * kBFloat16, .spacing = kBFloat16, .by_statistics_too = by_statistics_too};
}

// Norms that two ranks have of their parts, beside the golden ones.
Joined join_norms(const Values& first, const Values& second, const Values& golden, bool by_statistics) {
  JoinLimits limits = limits_of_half();
  limits.are_norms = true;
  return join_flat(first, second, golden, limits, by_statistics);
}

TEST(JoinedTensor, SquaresOfNormsAreAddedUp) {
  for (const bool by_statistics : {false, true}) {
    const Joined joined = join_norms({3, 5}, {4, 12}, {5, 13}, by_statistics);
    EXPECT_TRUE(joined.fits && joined.is_of_squares) << by_statistics;
    EXPECT_LT(joined.difference.relative(), 1e-6) << by_statistics;
  }
}

TEST(JoinedTensor, EqualNormsAreThoseOfReplicasOrOfPartsAsIsNearer) {
  for (const bool by_statistics : {false, true}) {
    EXPECT_FALSE(join_norms({3, 4}, {3, 4}, {3, 4}, by_statistics).is_of_squares) << by_statistics;
    const auto times = static_cast<float>(std::sqrt(2));
    const Joined joined = join_norms({3, 4}, {3, 4}, {3 * times, 4 * times}, by_statistics);
    EXPECT_TRUE(joined.fits && joined.is_of_squares) << by_statistics;
  }
}

TEST(JoinedTensor, RowsRoundEachByItself) {
  const Values golden = numbers(2 * kHalf, 1);
  const Joined joined = Halves(rounded(golden, 4 * kBFloat16), golden).join_with(limits_of_half());
  EXPECT_TRUE(joined.fits);
  EXPECT_EQ(joined.words, "concatenated along 0");
}

TEST(JoinedTensor, AFlatBufferHasPaddingWhereRanksShareItOut) {
  const Values golden = numbers(99, 1);
  const Values first(golden.begin(), golden.begin() + 50);
  const JoinLimits limits = {.tolerance = 1e-6};
  for (const bool by_statistics : {false, true}) {
    for (const float padding : {0.0F, -2.0F}) {  // or what was computed of zeros
      Values second(golden.begin() + 50, golden.end());
      second.push_back(padding);
      EXPECT_TRUE(join_flat(first, second, golden, limits, by_statistics).fits) << by_statistics << padding;
      second[3] += 1;
      EXPECT_FALSE(join_flat(first, second, golden, limits, by_statistics).fits) << by_statistics << padding;
    }
  }
  Values longer(golden.begin() + 50, golden.end());
  longer.insert(longer.end(), {0.25F, 0.5F});  // no padding
  EXPECT_FALSE(join_flat(first, longer, golden, limits, false).possible);
}

TEST(JoinedTensor, ManyElementsOfAHalfTypeHaveNoFactorByRounding) {
  const Values golden = numbers(2 * kHalf, 1);
  const auto fits = [&](float factor, double spacing, bool by_statistics) {
    const Values other = rounded(times(golden, factor), kBFloat16);
    const Values first(other.begin(), other.begin() + kHalf), second(other.begin() + kHalf, other.end());
    return join_flat(first, second, golden, {.tolerance = 0.5, .spacing = spacing}, by_statistics).fits;
  };
  for (const bool by_statistics : {false, true}) {
    EXPECT_FALSE(fits(2.0F / 3, kBFloat16, by_statistics)) << by_statistics;
    EXPECT_TRUE(fits(1.03F, kBFloat16, by_statistics)) << by_statistics;  // that may be of the loss
    EXPECT_TRUE(fits(2.0F / 3, 0, by_statistics)) << by_statistics;       // two types
  }
}

TEST(JoinedTensor, AnErrorThatRowsHaveInCommonIsNoneOfRounding) {
  const Values golden = numbers(2 * kHalf, 1);
  for (const float factor : {1.05F, 0.97F, 1.01F}) {
    const Halves halves(rounded(times(golden, factor), kBFloat16 / 2), golden);
    EXPECT_FALSE(halves.join_with(limits_of_half()).fits) << factor;
    EXPECT_TRUE(halves.join_with({.tolerance = 64 * kBFloat16}).fits) << factor;
  }
  Values shifted = golden;
  for (float& value : shifted) value += 0.02F;
  EXPECT_FALSE(Halves(shifted, golden).join_with(limits_of_half()).fits);
}

TEST(JoinedTensor, StatisticsShowALargerErrorOfAllRows) {
  const Values golden = numbers(2 * kHalf, 1);
  const auto fits = [&](const Values& values, bool by_statistics_too) {
    Halves halves(values, golden);
    halves.forget_values();
    return halves.join_with(limits_of_half(by_statistics_too)).fits;
  };
  EXPECT_TRUE(fits(rounded(golden, 4 * kBFloat16), true));
  EXPECT_FALSE(fits(times(golden, 1.05F), true));
  EXPECT_TRUE(fits(times(golden, 1.05F), false));
}

TEST(JoinedTensor, GradientsBelowTheSmallestNormalNumberAreRoundedToSteps) {
  const Values golden = times(numbers(2 * kHalf, 1), 1e-7F);
  Values other = golden;
  for (std::size_t i = 0; i < other.size(); i += 2) other[i] += static_cast<float>(kFloat16Step);
  EXPECT_FALSE(Halves(other, golden).join_with({.tolerance = 0.06}).fits);
  EXPECT_TRUE(Halves(other, golden).join_with({.tolerance = 0.06, .least = 8 * kFloat16Step}).fits);
}

TEST(JoinedTensor, RowsOfSuchGradientsRoundAlike) {
  const JoinLimits limits = {
      .tolerance = 0.06, .least = 8 * kFloat16Step, .spacing = 0x1p-10, .least_step = kFloat16Step};
  const auto fits_at = [&](float size) {
    const Values golden = times(numbers(2 * kHalf, 1), size);
    return Halves(times(golden, 1.01F), golden).join_with(limits).fits;
  };
  EXPECT_TRUE(fits_at(1e-5F));
  EXPECT_FALSE(fits_at(1e-2F));
}

// Two parts of a tensor on each side.
class TwoShardings {
 public:
  using Parts = std::pair<Values, Values>;
  TwoShardings(const Parts& parts, const Parts& golden, const std::string& shape) {
    for (const Values& one : {parts.first, parts.second}) parts_.add("bmm", {}, one, shape);
    for (const Values& one : {golden.first, golden.second}) golden_.add("bmm", {}, one, shape);
  }

  void forget_values() {
    parts_.forget_values();
    golden_.forget_values();
  }

  Joined join_with(const JoinLimits& limits) const { return join(both_of(parts_), both_of(golden_), limits); }

 private:
  static TensorParts both_of(const Program& program) {
    TensorParts parts(2, 1);
    const CatalogRank& rank = program.catalog().ranks[0];
    for (std::size_t i = 0; i < 2; ++i) parts.set(i, 0, {&rank, &rank.steps[0].ops[i].tensors.front()});
    return parts;
  }

  Program parts_, golden_;
};

// A matrix for each head of each row of the batch. One side has half of the rows on each rank, the other half of the heads.
TEST(JoinedTensor, PartsOfABatchAreThoseOfItsHeads) {
  constexpr std::size_t kBatch = 4, kHeads = 2, kOfHead = 9;
  const Values whole = numbers(kBatch * kHeads * kOfHead, 3);
  const auto middle = whole.begin() + static_cast<std::ptrdiff_t>(whole.size() / 2);
  TwoShardings::Parts rows = {Values(whole.begin(), middle), Values(middle, whole.end())}, heads;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    (i / kOfHead % kHeads == 0 ? heads.first : heads.second).push_back(whole[i]);
  }
  const JoinLimits limits = {.tolerance = 1e-6};
  EXPECT_TRUE(TwoShardings(rows, heads, "(4,3,3)").join_with(limits).fits);
  EXPECT_TRUE(TwoShardings(heads, rows, "(4,3,3)").join_with(limits).fits);
  heads.first[20] += 1;
  EXPECT_FALSE(TwoShardings(rows, heads, "(4,3,3)").join_with(limits).fits);
}

// The sums are 0 up to rounding in the mean, although their elements are not.
TEST(JoinedTensor, OfSumsOnBothSidesStatisticsShowTheMeanBesideTheSizeOfTheParts) {
  const Values one = numbers(64, 1), other = numbers(64, 2);
  TwoShardings::Parts parts = {one, times(one, -1)}, golden = {other, times(other, -1)};
  parts.first[0] += 0x1p-12F;
  TwoShardings sums(parts, golden, "(8,8)");
  sums.forget_values();
  const Joined joined = sums.join_with({.tolerance = 1e-3});
  EXPECT_TRUE(joined.fits);
  EXPECT_TRUE(joined.golden_is_sum);
  EXPECT_TRUE(joined.is_known_by_mean());
  EXPECT_FALSE(sums.join_with({.tolerance = 1e-3, .golden_sums = false}).golden_is_sum);
}

// Each rank has its part of queries, keys and values: `(q0, k0, v0)` and `(q1, k1, v1)`.
TEST(JoinedTensor, PartsOfThreeInOneThatDifferAreJoinedAsTheyAreNearest) {
  constexpr std::size_t kPart = 32;
  const Values golden = numbers(6 * kPart, 3);
  Values ranks[2];
  for (std::size_t part = 0; part < 6; ++part) {
    const auto begin = golden.begin() + static_cast<std::ptrdiff_t>(part * kPart);
    ranks[part % 2].insert(ranks[part % 2].end(), begin, begin + kPart);
  }
  const JoinLimits limits{.tolerance = 1e-5};
  EXPECT_TRUE(join_flat(ranks[0], ranks[1], golden, limits, false).fits);
  for (std::size_t i = 0; i < kPart; ++i) ranks[1][i] += 0.1F;  // the sum alone shows that nothing fits
  const Joined wrong = join_flat(ranks[0], ranks[1], golden, limits, false);
  EXPECT_TRUE(wrong.possible);
  EXPECT_FALSE(wrong.fits);
  EXPECT_NEAR(wrong.difference.max_error, 0.1, 1e-6);
}

}  // namespace
}  // namespace sonde
