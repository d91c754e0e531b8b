// The places of ranks, read from placements.
#include "face/server/rank_dimensions.h"

#include <gtest/gtest.h>

#include <string>

namespace sonde::server {
namespace {

std::string said(std::string_view placement) {
  std::string text;
  for (const RankDimension& one : dimensions_in(placement)) {
    text += one.dimension + " " + std::to_string(one.place) + " of " + std::to_string(one.size) + ";";
  }
  return text;
}

TEST(RankDimensions, AreThoseThatDivideAnAxis) {
  EXPECT_EQ(said("Shard(0) of (16, 8) on tp=2, from (8, 0)"), "tp 1 of 2;");
  EXPECT_EQ(said("Shard(0), Shard(1) of (4, 16) on dp=2 × tp=4, from (0, 12)"), "dp 0 of 2;tp 3 of 4;");
  EXPECT_EQ(said("Replicate, Shard(1) of (4, 16) on dp=2 × tp=2, from (0, 8)"), "tp 1 of 2;");
  EXPECT_EQ(said("Shard(0) of (7, 2) on tp=3, from (6, 0)"), "tp 2 of 3;");
}

TEST(RankDimensions, AreNotGuessed) {
  EXPECT_EQ(said("Replicate of (2, 8) on tp=2"), "");
  EXPECT_EQ(said("Shard(0), Shard(0) of (8) on dp=2 × tp=2, from (4)"), "") << "both divide one axis";
  EXPECT_EQ(said("_StridedShard(dim=0, sf=2), Shard(0) of (8, 2) on dp=2 × tp=2, from (4, 0)"), "");
  EXPECT_EQ(said("Shard(0) of (2, 2) on tp=4, from (2, 0)"), "") << "a rank without an index";
  EXPECT_EQ(said("Shard(0) of (8) on tp=1, from (0)"), "") << "one rank shares nothing";
  EXPECT_EQ(said("rows"), "");
  EXPECT_EQ(said("Shard(9) of (8) on tp=2, from (0)"), "");
}

}  // namespace
}  // namespace sonde::server
