#include "plan/config/op_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <string>

namespace sonde {
namespace {

std::string lowered(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

TEST(OpTypes, AreSortedSoThatTheSearchFindsEveryOne) {
  const auto aliases = op_type_aliases();
  EXPECT_GE(aliases.size(), 150U);
  for (std::size_t i = 1; i < aliases.size(); ++i) {
    EXPECT_LT(lowered(aliases[i - 1].type), lowered(aliases[i].type));
  }
  for (const OpTypeAlias& alias : aliases) EXPECT_FALSE(aten_names(alias.type).empty()) << alias.type;
}

TEST(OpTypes, NameNoAtenOpWithItsInPlaceUnderscore) {
  for (const OpTypeAlias& alias : op_type_aliases()) {
    for (const std::string_view name : aten_names(alias.type)) {
      EXPECT_TRUE(!name.empty() && (!name.ends_with('_') || name.ends_with("__"))) << alias.type;
    }
  }
}

TEST(OpTypes, GiveTheNamesOfMatMul) {
  EXPECT_THAT(aten_names("MatMul"), testing::IsSupersetOf({"linear", "addmm", "mm", "matmul", "bmm"}));
  EXPECT_EQ(aten_names("matmul"), aten_names("MatMul"));
  EXPECT_TRUE(aten_names("NoSuchType").empty());
  EXPECT_TRUE(aten_names("").empty());
}

TEST(OpTypes, MatchInPlaceSpellingsToo) {
  EXPECT_TRUE(is_alias("ReLU", "relu"));
  EXPECT_TRUE(is_alias("ReLU", "relu_"));
  EXPECT_TRUE(is_alias("Conv2D", "conv2d"));
  EXPECT_TRUE(is_alias("BiasAdd", "linear"));
  EXPECT_FALSE(is_alias("BiasAdd", "add_")) << "most of them are the optimizer's";
  EXPECT_TRUE(is_alias("MaxPool", "max_pool2d"));
  EXPECT_TRUE(is_alias("BitwiseAnd", "__and__"));
  EXPECT_FALSE(is_alias("ReLU", "relu6"));
  EXPECT_FALSE(is_alias("Add", "addmm"));
  EXPECT_FALSE(is_alias("Add", ""));
}

}  // namespace
}  // namespace sonde
