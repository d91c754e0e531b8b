#include "plan/config/nearest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sonde {
namespace {

TEST(EditDistance, CountsInsertionsDeletionsReplacementsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("abc", "abc"), 0U);
  EXPECT_EQ(edit_distance("abc", "abd"), 1U);
  EXPECT_EQ(edit_distance("abc", "ab"), 1U);
  EXPECT_EQ(edit_distance("abc", "acb"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("ca", "abc"), 3U);  // a swapped pair is not edited again
}

TEST(EditDistance, DoesNotSeeTheCaseOfLetters) { EXPECT_EQ(edit_distance("Conv2D", "conv2d"), 0U); }

TEST(Nearest, GivesTheNearestFirstAndKeepsTheOrderOfEquals) {
  const std::string_view names[] = {"iteration", "dump_mode", "sample_mode", "path"};
  EXPECT_THAT(nearest("dupm_mode", names, 2), testing::ElementsAre("dump_mode", "sample_mode"));
  EXPECT_THAT(nearest("zzzz", names, 1), testing::ElementsAre("path"));
  EXPECT_EQ(nearest("x", names, 10).size(), 4U);
  EXPECT_TRUE(nearest("x", {}, 3).empty());
}

TEST(Nearest, PrefersANameThatContainsWhatWasTyped) {
  const std::string_view names[] = {"cone", "Default/network-Net/conv1-Conv2d/conv2d-op0"};
  EXPECT_EQ(nearest("conv1-Conv2d", names, 1).front(), names[1]);
}

TEST(Nearest, ComparesHugeNamesByTheirEnds) {
  const std::string a = std::string(1'000'000, 'a') + "conv";
  const std::string b = std::string(1'000'000, 'b') + "relu";
  const std::string_view names[] = {a, b};
  EXPECT_EQ(nearest("relu", names, 1).front(), b);
}

TEST(IsClose, WantsMostLettersRight) {
  EXPECT_TRUE(is_close("interation", "iteration"));
  EXPECT_TRUE(is_close("dump_mod", "dump_mode"));
  EXPECT_FALSE(is_close("unknown", "iteration"));
}

}  // namespace
}  // namespace sonde
