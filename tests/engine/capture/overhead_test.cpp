// max_overhead: what is read, in trainings with made-up times.
#include "record/capture/modes/overhead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace sonde {
namespace {

// A training whose steps take `free` nanoseconds; each op takes longer to observe, and longer still to read.
struct Training {
  double free = 100e6, observe = 4e3, read = 200e3;
  std::uint32_t ops = 100;
  std::uint64_t bytes = 0;  // of an op, written at `per_byte`
  double per_byte = 0;
  double noise = 0;

  explicit Training(bool writes_tensors = false) : overhead(0.05, writes_tensors) {}

  Overhead overhead;
  std::uint64_t now = 1'000'000'000;
  std::uint64_t steps = 0;
  double longer = 0;
  std::uint64_t random = 1;
  std::map<std::uint32_t, std::vector<std::uint64_t>> full;  // the steps in which an op was read in full
  std::map<Depth, std::uint64_t> chosen;

  double next_noise() {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    return noise * (static_cast<double>(random >> 33) / static_cast<double>(1ULL << 31) - 0.5) * 2;
  }

  void step() {
    double cost = 0;
    if (overhead.begin_step(0, {now, 0}, steps == 0)) {
      for (std::uint32_t id = 1; id <= ops; ++id) {
        const Depth depth = overhead.choose(0, id, Phase::forward);
        ++chosen[depth];
        const double taken = depth == Depth::nothing ? 100 : depth == Depth::full ? read : read / 2;
        const std::uint64_t copied = depth == Depth::full ? bytes : 0;
        overhead.ended(0, id, depth, static_cast<std::uint64_t>(taken), copied);
        cost += observe + taken + per_byte * static_cast<double>(copied);
        if (depth == Depth::full) full[id].push_back(steps);
      }
      overhead.end_step(0);
    }
    now += static_cast<std::uint64_t>(free * (1 + next_noise()) + cost);
    longer += cost;
    ++steps;
  }
  void run(std::uint64_t count) {
    while (steps < count) step();
  }
  double part() const { return longer / (free * static_cast<double>(steps)); }
};

TEST(Overhead, StaysWithinItsPart) {
  Training training;  // everything would take 20 %
  training.run(500);
  EXPECT_LT(training.part(), 0.05);
  EXPECT_GT(training.part(), 0.02);
}

TEST(Overhead, StaysWithinItsPartThoughStepsDifferInTime) {
  Training training;
  training.noise = 0.1;
  training.run(500);
  EXPECT_LT(training.part(), 0.06);
}

TEST(Overhead, StaysWithinItsPartWhereOnlyToObserveIsTooMuch) {
  Training training;  // 1000 ops of 10 us each in a step of 20 ms: half of it
  training.free = 20e6;
  training.ops = 1000;
  training.observe = 10e3;
  training.read = 2e3;
  training.run(500);
  EXPECT_LT(training.part(), 0.06);
  EXPECT_GT(training.full[7].size(), 1U);
}

TEST(Overhead, ReadsEveryOpInFullInTurn) {
  Training training;
  training.run(500);
  ASSERT_EQ(training.full.size(), 100U);
  for (const auto& [id, steps] : training.full) {
    std::uint64_t longest = 500 - steps.back();
    for (std::size_t i = 1; i < steps.size(); ++i) longest = std::max(longest, steps[i] - steps[i - 1]);
    EXPECT_LT(longest, 40U) << "op " << id;
  }
}

TEST(Overhead, ReadsEverythingWhereThereIsTime) {
  Training training;
  training.read = 1e3;  // 0.5 % in all
  training.run(500);
  EXPECT_EQ(training.chosen[Depth::nothing], 0U);
  for (const auto& [id, steps] : training.full) EXPECT_GT(steps.size(), 400U) << "op " << id;
}

TEST(Overhead, TakesStatisticsOfWhatItDoesNotWrite) {
  Training training(true);
  training.bytes = 1 << 20;
  training.per_byte = 1;
  training.run(500);
  EXPECT_LT(training.part(), 0.06);
  EXPECT_GT(training.chosen[Depth::statistics], 500U);
  EXPECT_EQ(training.full.size(), 100U);
}

TEST(Overhead, TakesAnOpThatCostsMoreThanAStepEarns) {
  Training training;
  training.ops = 2;
  training.read = 30e6;  // of 100 ms
  training.run(500);
  EXPECT_LT(training.part(), 0.06);
  for (std::uint32_t id = 1; id <= 2; ++id) EXPECT_GT(training.full[id].size(), 3U);
}

TEST(Overhead, SaysWhatItLeftOut) {
  Training training;
  training.run(500);
  const std::string report = training.overhead.report();
  EXPECT_NE(report.find("of 500 steps were recorded"), std::string::npos) << report;
  EXPECT_TRUE(report.starts_with("max_overhead 0.05")) << report;
}

}  // namespace
}  // namespace sonde
