#include <gtest/gtest.h>

#include <cstdint>

#include "plan/config/plan.h"

namespace sonde {
namespace {

constexpr std::uint64_t kLargest = UINT64_MAX;

struct Case {
  const char* text;
  std::vector<std::uint64_t> in;
  std::vector<std::uint64_t> out;
};

TEST(StepSet, ContainsWhatItsTokensName) {
  const Case cases[] = {
      {"all", {0, 7, kLargest}, {}},
      {"0", {0}, {1}},
      {"00", {0}, {1}},
      {"3|5-8", {3, 5, 6, 8}, {0, 4, 9}},
      {"5-8|3", {3, 5, 8}, {4, 9}},
      {"0-0", {0}, {1}},
      {"2-1", {}, {0, 1, 2}},
      {"", {}, {0}},
      {"|", {}, {0}},
      {"-", {}, {0}},
      {"--", {}, {0}},
      {"1-", {}, {0, 1}},
      {"-1", {}, {0, 1}},
      {"0-1-2", {}, {0, 1, 2}},
      {"0--2", {}, {0, 1, 2}},
      {"0||2|", {0, 2}, {1}},
      {"18446744073709551615", {kLargest}, {0}},
      {"18446744073709551616", {}, {0, kLargest}},
      {"0-18446744073709551616", {}, {0, 1}},
      {"18446744073709551616|4", {4}, {0}},
      {"0-18446744073709551615", {0, kLargest}, {}},
      {"000000000000000000000000001", {1}, {0}},
  };
  for (const Case& one : cases) {
    const StepSet set = StepSet::parse(one.text);
    for (const std::uint64_t step : one.in) EXPECT_TRUE(set.contains(step)) << one.text << " " << step;
    for (const std::uint64_t step : one.out) EXPECT_FALSE(set.contains(step)) << one.text << " " << step;
    EXPECT_EQ(set.text(), one.text);
  }
}

TEST(StepSet, LastIsTheLargestNumberThatCanMatch) {
  EXPECT_EQ(StepSet::parse("3|5-8|4").last(), 8U);
  EXPECT_EQ(StepSet::parse("9-7|4").last(), 4U);
  EXPECT_EQ(StepSet::parse("0").last(), 0U);
  EXPECT_EQ(StepSet::parse("all").last(), std::nullopt);
  EXPECT_EQ(StepSet::parse("-|7-").last(), std::nullopt);
}

TEST(StepSet, OnlyTheWholeWordAllIsAll) {
  EXPECT_TRUE(StepSet::all().is_all());
  EXPECT_EQ(StepSet::all().text(), "all");
  EXPECT_FALSE(StepSet::parse("0-18446744073709551615").is_all());
}

}  // namespace
}  // namespace sonde
