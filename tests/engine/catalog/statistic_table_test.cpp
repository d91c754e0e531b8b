#include "catalog/statistic_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace sonde {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kFront = "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape";

StatisticTable table_of(const std::string& text) {
  Result<StatisticTable> table = parse_statistic_table(text);
  EXPECT_TRUE(table) << table.error().message;
  return std::move(*table);
}

TEST(StatisticTable, ReadsARowOfTheNewestVersion) {
  const StatisticTable table =
      table_of(std::string(kFront) +
               ",Max Value,Min Value,L2Norm Value,NaN Count,MD5\n"
               "Add,Default/Add-op0,0,0,1763723013123456,output,1,24,float32,\"[2,3]\",2.5,-inf,1e+06,3,"
               "900150983cd24fb0d6963f7d28e17f72,\n");
  ASSERT_EQ(table.rows.size(), 1) << table.problem;
  const StatisticRow& row = table.rows[0];
  EXPECT_EQ(row.op_type, "Add");
  EXPECT_EQ(row.op_name, "Default/Add-op0");
  EXPECT_EQ(row.timestamp_us, 1763723013123456);
  EXPECT_FALSE(row.is_input);
  EXPECT_EQ(row.slot, 1);
  EXPECT_EQ(row.dtype, DType::float32);
  EXPECT_THAT(row.shape, ElementsAre(2, 3));
  EXPECT_EQ(row.statistics.max, 2.5);
  EXPECT_EQ(row.statistics.min, -INFINITY);
  EXPECT_EQ(row.statistics.l2norm, 1e6);
  EXPECT_EQ(row.statistics.nan_count, 3);
  EXPECT_EQ(row.statistics.avg, std::nullopt);
  EXPECT_EQ(row.md5, "900150983cd24fb0d6963f7d28e17f72");
}

TEST(StatisticTable, ReadsARowOfTwoPointZero) {
  const StatisticTable table =
      table_of(std::string(kFront) +
               ",Max Value,Min Value,Avg Value,Count,Negative Zero Count,Positive Zero Count,NaN Count,"
               "Negative Inf Count,Positive Inf Count,Zero Count\n"
               "Conv2D,Conv2D-op1,0,0,7,input,0,16,float32,\"(2,2)\",null,null,null,4,1,2,4,0,0,1\n");
  ASSERT_EQ(table.rows.size(), 1) << table.problem;
  const KnownStatistics& statistics = table.rows[0].statistics;
  EXPECT_EQ(statistics.max, std::nullopt);
  EXPECT_EQ(statistics.count, 4);
  EXPECT_EQ(statistics.negative_count, 1);
  EXPECT_EQ(statistics.positive_count, 2);
  EXPECT_EQ(statistics.nan_count, 4);
  EXPECT_EQ(statistics.zero_count, 1);
  EXPECT_THAT(table.rows[0].shape, ElementsAre(2, 2));
}

TEST(StatisticTable, TakesNanWithASign) {
  const StatisticTable table =
      table_of(std::string(kFront) + ",Max Value,Nan Count\nAdd,a,0,0,0,input,0,4,float16,\"()\",-nan,1\n");
  ASSERT_EQ(table.rows.size(), 1) << table.problem;
  EXPECT_TRUE(std::isnan(table.rows[0].statistics.max.value()));
  EXPECT_EQ(table.rows[0].statistics.nan_count, 1);
  EXPECT_FALSE(table.rows[0].statistics.all_finite());
}

TEST(StatisticTable, PassesOverColumnsItDoesNotKnow) {
  const StatisticTable table = table_of("Slot,Weather,Op Name,IO\r\n2,\"fair, mild\",\"a \"\"b\"\"\",output\r\n");
  ASSERT_EQ(table.rows.size(), 1) << table.problem;
  EXPECT_EQ(table.rows[0].op_name, "a \"b\"");
  EXPECT_EQ(table.rows[0].slot, 2);
}

TEST(StatisticTable, SaysWhichRowIsBadAndKeepsTheOthers) {
  const std::string good = "Add,a,0,0,0,input,0,4,float16,\"()\",1,\n";
  const StatisticTable table = table_of(std::string(kFront) + ",Max Value\n" + good + "Add,a,0,0,0,input,0,4,flo\n" +
                                        good + "Add,a,0,0,0,sideways,0,4,float16,\"()\",1,\n");
  EXPECT_EQ(table.rows.size(), 2);
  EXPECT_THAT(table.problem, HasSubstr("line 3: 9 cells, 11 expected"));
  EXPECT_THAT(table.problem, HasSubstr("1 more"));
}

TEST(StatisticTable, NamesTheCellThatIsWrong) {
  const char* rows[] = {"Add,a,0,0,0,input,x,4,float16,\"()\",1\n", "Add,a,0,0,0,input,0,4,float16,\"(2;3)\",1\n",
                        "Add,a,0,0,0,input,0,4,float16,\"()\",one\n"};
  const char* named[] = {"'x' is not a valid Slot", "'(2;3)' is not a valid Shape", "'one' is not a valid Max Value"};
  for (int i = 0; i < 3; ++i) {
    const StatisticTable table = table_of(std::string(kFront) + ",Max Value\n" + rows[i]);
    EXPECT_THAT(table.problem, HasSubstr(named[i]));
    EXPECT_TRUE(table.rows.empty());
  }
}

TEST(StatisticTable, RefusesAFileWithoutItsHeader) {
  EXPECT_FALSE(parse_statistic_table("1,2,3\n4,5,6\n"));
  EXPECT_FALSE(parse_statistic_table("1,2,3"));
}

TEST(StatisticTable, ThatAKillLeftWithoutAWholeHeaderIsTornAndEmpty) {
  for (const char* text : {"", "Op Type,Op Na"}) {
    const Result<StatisticTable> table = parse_statistic_table(text);
    ASSERT_TRUE(table) << text;
    EXPECT_TRUE(table->is_torn);
    EXPECT_TRUE(table->rows.empty());
  }
}

}  // namespace
}  // namespace sonde
