#include "read/catalog/statistic_table.h"

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
  EXPECT_THAT(table.problem, HasSubstr("line 3: found 9 cells, expected 11"));
  EXPECT_THAT(table.problem, HasSubstr("1 more"));
}

TEST(StatisticTable, NamesTheCellThatIsWrong) {
  const char* rows[] = {"Add,a,0,0,0,input,x,4,float16,\"()\",1\n", "Add,a,0,0,0,input,0,4,float16,\"(2;3)\",1\n",
                        "Add,a,0,0,0,input,0,4,float16,\"()\",one\n"};
  const char* named[] = {"column 'Slot': found 'x', expected a whole number, 0 or more",
                         "column 'Shape': found '(2;3)', expected sizes",
                         "column 'Max Value': found 'one', expected a number"};
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

// --- msprobe's tables

TEST(StatisticTable, OfMsprobeIsRead) {
  const Result<StatisticTable> table = parse_statistic_table(
      "Op Type,Op Name,Task ID,Stream ID,Timestamp,Input/Output,Slot,Data Size,Data Type,Format,Shape,Max Value,Min "
      "Value,Avg Value,L2Norm Value,NaN Count,Negative Inf Count,Positive Inf Count,MD5 Value\n"
      "MatMul,Default_fc_MatMul-op0,3,7,1700,Input,0,24,DT_FLOAT,ND,2x3,2,-1,0.5,3,0,0,0,ab\n"
      "MatMul,Default_fc_MatMul-op0,3,7,1700,Output,1,24,DT_BF16,ND,\"(2,3)\",nan,NA,,inf,1,0,2,cd\n"
      "MatMul,Default_fc_MatMul-op0,3,7,1700,Output,2,4,float32,ND,-,2,2,2,2,0,0,0,\n");
  ASSERT_TRUE(table) << table.error().message;
  ASSERT_EQ(table->rows.size(), 3U) << table->problem;
  const StatisticRow& first = table->rows[0];
  EXPECT_EQ(first.op_type, "MatMul");
  EXPECT_TRUE(first.is_input);
  EXPECT_EQ(first.dtype, DType::float32);
  EXPECT_EQ(first.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(first.statistics.l2norm, 3);
  EXPECT_EQ(first.md5, "ab");
  EXPECT_EQ(table->rows[1].dtype, DType::bfloat16);
  EXPECT_EQ(table->rows[1].shape, first.shape);
  EXPECT_EQ(table->rows[1].statistics.positive_inf_count, 2U);
  EXPECT_FALSE(table->rows[1].statistics.min);
  EXPECT_TRUE(table->rows[2].shape.empty());
}

TEST(StatisticTable, OfAtbIsRead) {
  const Result<StatisticTable> table = parse_statistic_table(
      "Device and PID,Execution Count,Op Name,Op Type,Op "
      "Id,Input/Output,Index,Dtype,Format,Shape,Max,Min,Mean,Norm,Tensor "
      "Path\n"
      "0_39943,0,Prefill_layer/Attention,SelfAttentionOperation,2_0,Input,0,bf16,nd,36x128,2.5,-2,0.1,40,N/A\n"
      "0_39943,0,Prefill_layer/Attention,SelfAttentionOperation,2_0,Output,2_value,fp16,nd,36 \xc3\x97 "
      "128,N/A,N/A,N/A,N/A,a/b.bin\n");
  ASSERT_TRUE(table) << table.error().message;
  ASSERT_EQ(table->rows.size(), 2U) << table->problem;
  EXPECT_EQ(table->rows[0].op_name, "Prefill_layer/Attention");
  EXPECT_EQ(table->rows[0].dtype, DType::bfloat16);
  EXPECT_EQ(table->rows[0].statistics.max, 2.5);
  EXPECT_EQ(table->rows[0].statistics.l2norm, 40);
  EXPECT_EQ(table->rows[1].slot, 2U);
  EXPECT_EQ(table->rows[1].dtype, DType::float16);
  EXPECT_EQ(table->rows[1].shape, (std::vector<std::int64_t>{36, 128}));
  EXPECT_FALSE(table->rows[1].statistics.max);
}

TEST(StatisticTable, AWrongHeaderNamesTheColumnsThatAreMissing) {
  const struct {
    const char *header, *expected, *missing;
  } cases[] = {{"Op Type,Op Name,Slot,Max Value\n", "Op Name, IO, Slot of MindSpore", "missing: IO"},
               {"Op Type,Op Name,Input/Output,Data Type,Shape,Max Value\n", "of msprobe", "missing: Slot"},
               {"Op Name,Op Type,Dtype,Shape,Max,Min,Mean,Norm,Index\n", "of msprobe for ATB", "missing: Input/Output"},
               {"a,b\n", "Op Name, IO, Slot", "found 'a,b'"}};
  for (const auto& one : cases) {
    const Result<StatisticTable> table = parse_statistic_table(one.header);
    ASSERT_FALSE(table) << one.header;
    EXPECT_THAT(table.error().message, HasSubstr(one.expected));
    EXPECT_THAT(table.error().message, HasSubstr(one.missing));
  }
  const Result<StatisticTable> bad =
      parse_statistic_table("Op Name,Op Type,Input/Output,Index,Max\nx,y,Sideways,0,1\nx,y,Input,no,1\n");
  ASSERT_TRUE(bad);
  EXPECT_THAT(bad->problem, HasSubstr("line 2: column 'Input/Output': found 'Sideways', expected Input or Output"));
}

}  // namespace
}  // namespace sonde
