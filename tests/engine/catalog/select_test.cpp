#include "read/catalog/select.h"

#include <gtest/gtest.h>

namespace sonde {
namespace {

constexpr std::string_view kName = "Default/network-Net/features/0-Conv2d/conv2d-op0";

TEST(Glob, AStarStopsAtASlash) {
  EXPECT_TRUE(glob_matches("Default/*/features/*/conv2d-op0", kName));
  EXPECT_FALSE(glob_matches("Default/*/conv2d-op0", kName));
  EXPECT_FALSE(glob_matches("*", kName));
}

TEST(Glob, TwoStarsDoNot) {
  EXPECT_TRUE(glob_matches("**", kName));
  EXPECT_TRUE(glob_matches("Default/**/conv2d-op0", kName));
  EXPECT_TRUE(glob_matches("**/0-Conv2d/**", kName));
  EXPECT_FALSE(glob_matches("**/1-Conv2d/**", kName));
}

TEST(Glob, AQuestionMarkIsOneCharacterOfAPart) {
  EXPECT_TRUE(glob_matches("conv2d-op?", "conv2d-op7"));
  EXPECT_FALSE(glob_matches("conv2d-op?", "conv2d-op12"));
  EXPECT_FALSE(glob_matches("a?b", "a/b"));
}

TEST(Glob, AllElseIsItself) {
  EXPECT_TRUE(glob_matches("a.b[0]", "a.b[0]"));
  EXPECT_FALSE(glob_matches("a.b[0]", "axb0"));
  EXPECT_FALSE(glob_matches("Relu", "relu"));
  EXPECT_TRUE(glob_matches("", ""));
  EXPECT_FALSE(glob_matches("", "a"));
}

TEST(Glob, ManyStarsTakeNoLongerThanPatternTimesName) {
  const std::string name(2000, 'a');
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "*a**a";
  EXPECT_FALSE(glob_matches(pattern + "b", name));  // would take years by backtracking
}

TEST(Select, APatternWithoutASlashAlsoMeansTypesAndLastParts) {
  EXPECT_TRUE(selects("conv2d", kName, "conv2d"));
  EXPECT_TRUE(selects("conv2d-op*", kName, "conv2d"));
  EXPECT_FALSE(selects("0-Conv2d", kName, "conv2d"));
  EXPECT_FALSE(selects("0-Conv2d/conv2d-op0", kName, "conv2d"));
  EXPECT_TRUE(selects("fc.*", "fc.weight", "Parameter"));
}

}  // namespace
}  // namespace sonde
