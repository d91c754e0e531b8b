#include "read/catalog/step_order.h"

#include <gtest/gtest.h>

namespace sonde {
namespace {

struct Began {
  std::uint32_t graph;
  std::uint64_t number, time;
};

CatalogRank rank_of(std::uint32_t number, const std::vector<Began>& steps) {
  CatalogRank rank;
  rank.rank = number;
  for (const Began& one : steps) {
    CatalogStep step;
    step.id = {one.graph, one.number};
    step.started_us = one.time;
    rank.steps.push_back(std::move(step));
  }
  return rank;
}

StepOrder order_of(const CatalogRank& a, const CatalogRank& b) {
  const CatalogRank* const ranks[] = {&a, &b};
  return StepOrder(ranks);
}

TEST(StepOrder, AnEvaluationIsBetweenTheTrainingStepsThatItRanBetween) {
  const CatalogRank rank = rank_of(0, {{0, 0, 10}, {0, 1, 20}, {1, 0, 30}, {0, 2, 40}, {1, 1, 50}});
  const CatalogRank* const ranks[] = {&rank};
  const StepOrder order(ranks);
  EXPECT_LT(order.place_of(rank, {0, 1}), order.place_of(rank, {1, 0}));
  EXPECT_LT(order.place_of(rank, {1, 0}), order.place_of(rank, {0, 2}));
  EXPECT_LT(order.place_of(rank, {0, 2}), order.place_of(rank, {1, 1}));
}

TEST(StepOrder, RanksBeginAStepTogetherThoughOneIsLate) {
  const CatalogRank first = rank_of(0, {{0, 0, 100}, {0, 1, 200}, {0, 2, 300}});
  const CatalogRank late = rank_of(1, {{0, 0, 140}, {0, 1, 260}, {0, 2, 340}});
  const StepOrder order = order_of(first, late);
  for (std::uint64_t step = 0; step < 3; ++step) {
    EXPECT_EQ(order.place_of(first, {0, step}), order.place_of(late, {0, step}));
  }
}

TEST(StepOrder, ARankThatHadMoreDataIsAheadInItsNumbers) {
  const CatalogRank less = rank_of(0, {{0, 0, 100}, {0, 1, 200}, {0, 2, 402}, {0, 3, 503}});
  const CatalogRank more = rank_of(1, {{0, 0, 101}, {0, 1, 201}, {0, 2, 300}, {0, 3, 400}, {0, 4, 500}});
  const StepOrder order = order_of(less, more);
  EXPECT_EQ(order.place_of(less, {0, 1}), order.place_of(more, {0, 1}));
  EXPECT_EQ(order.place_of(less, {0, 2}), order.place_of(more, {0, 3}));
  EXPECT_LT(order.place_of(more, {0, 3}), order.place_of(less, {0, 3}));
}

TEST(StepOrder, StepsOfOneRankKeepTheirOrderThoughRanksSeldomWaitForEachOther) {
  const CatalogRank first = rank_of(0, {{0, 0, 100}, {0, 1, 200}, {0, 2, 300}, {0, 3, 400}});
  const CatalogRank other = rank_of(1, {{0, 0, 100}, {0, 1, 205}, {0, 2, 390}, {0, 3, 420}});
  const StepOrder order = order_of(first, other);
  EXPECT_LT(order.place_of(other, {0, 2}), order.place_of(other, {0, 3}));
  EXPECT_LT(order.place_of(first, {0, 2}), order.place_of(other, {0, 3}));
}

TEST(StepOrder, AClockMayBeAnHourAhead) {
  constexpr std::uint64_t kHour = 3'600'000'000;
  const CatalogRank here = rank_of(0, {{0, 0, 100}, {1, 0, 150}, {0, 1, 200}});
  const CatalogRank there = rank_of(1, {{0, 0, kHour + 101}, {1, 0, kHour + 151}, {0, 1, kHour + 202}});
  const StepOrder order = order_of(here, there);
  EXPECT_LT(order.place_of(there, {0, 0}), order.place_of(here, {1, 0}));
  EXPECT_EQ(order.place_of(there, {0, 1}), order.place_of(here, {0, 1}));
}

TEST(StepOrder, WithoutTimesTheNumbersDecide) {
  const CatalogRank rank = rank_of(0, {{1, 0, 0}, {0, 1, 0}, {0, 0, 0}});
  const CatalogRank* const ranks[] = {&rank};
  const StepOrder order(ranks);
  EXPECT_LT(order.place_of(rank, {0, 0}), order.place_of(rank, {1, 0}));
  EXPECT_LT(order.place_of(rank, {1, 0}), order.place_of(rank, {0, 1}));
}

}  // namespace
}  // namespace sonde
