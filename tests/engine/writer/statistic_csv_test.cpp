#include "dump/run_files/statistic_csv.h"

#include <gtest/gtest.h>

#include <vector>

namespace sonde {
namespace {

TensorRecord tensor(std::vector<std::int64_t> shape) {
  TensorRecord out;
  out.is_input = true;
  out.slot = 1;
  out.dtype = DType::bfloat16;
  out.shape = Dims(shape);
  out.timestamp_us = 1700000000000001;
  out.statistics.count = 6;
  out.statistics.max = 9.539391;
  out.statistics.min = -1e6;
  return out;
}

std::string row(const OpName& op, const TensorRecord& of, const std::vector<Category>& columns,
                const std::string& layout = "mindspore-2.7") {
  Plan plan;
  plan.path = "/dump";
  plan.net_name = "Net";
  plan.sonde.layout = *layout_from_name(layout);
  plan.sonde.version = info(plan.sonde.layout).release;
  std::string out;
  Record record;
  record.op = &op;
  StatisticRows(Layout::make(plan, RunInfo{}), columns, false).append(record, of, out);
  return out;
}

TEST(StatisticCsv, HeaderHasTheUsersColumnsInTheirOrder) {
  const std::vector<Category> columns = {Category::l2norm, Category::max, Category::nan_count};
  EXPECT_EQ(statistic_header(columns),
            "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,"
            "L2Norm Value,Max Value,NaN Count\n");
}

TEST(StatisticCsv, RowIsTextForTextThatOfVersion27) {
  EXPECT_EQ(row({1, "add", "Default/add-op0"}, tensor({2, 3}), {Category::max, Category::min, Category::count}),
            "add,Default/add-op0,0,0,1700000000000001,input,1,12,bfloat16,\"[2,3]\","
            "9.53939,-1e+06,6,\n");
}

TEST(StatisticCsv, RowIsTextForTextThatOfEachOlderVersion) {
  const OpName op{1, "add", "Default/network-Net/add-op3"};
  const std::vector<Category> columns = {Category::max, Category::count};
  EXPECT_EQ(row(op, tensor({2, 3}), columns, "mindspore-2.0"),
            "add,add-op3,0,0,1700000000000001,input,1,12,bfloat16,\"(2,3)\",9.53939,6\n");
  EXPECT_EQ(row(op, tensor({2, 3}), columns, "mindspore-2.3"),
            "add,Default_network-Net_add-op3,0,0,1700000000000001,input,1,12,bfloat16,\"(2,3)\",9.53939,6\n");
  EXPECT_EQ(row(op, tensor({2, 3}), columns, "mindspore-2.5"),
            "add,Default_network-Net_add-op3,0,0,1700000000000001,input,1,12,bfloat16,\"(2,3)\",9.53939,6,\n");
  EXPECT_EQ(row(op, tensor({3}), {}, "mindspore-2.0"), "add,add-op3,0,0,1700000000000001,input,1,6,bfloat16,\"(3)\"\n");
  EXPECT_EQ(row(op, tensor({}), {}, "mindspore-2.5"),
            "add,Default_network-Net_add-op3,0,0,1700000000000001,input,1,2,bfloat16,\"()\",\n");
}

TEST(StatisticCsv, OfVersion20LeavesOutWhatIsNotFinite) {
  TensorRecord of = tensor({6});
  of.statistics.nan_count = 1;
  of.statistics.positive_inf_count = 2;
  of.statistics.positive_count = 3;
  of.statistics.sum = 6;
  const std::vector<Category> columns = {Category::max, Category::avg, Category::positive_zero_count, Category::count};
  EXPECT_TRUE(row({1, "add", "add-op0"}, of, columns, "mindspore-2.0").ends_with(",9.53939,2,1,6\n"));
  EXPECT_TRUE(row({1, "add", "add-op0"}, of, columns, "mindspore-2.3").ends_with(",nan,nan,3,6\n"));
}

TEST(StatisticCsv, HeaderOfAnOldVersionIsItsOwn) {
  EXPECT_EQ(
      statistic_header(info(Release::v2_0).columns),
      "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value,Min Value,Avg Value,"
      "Count,Negative Zero Count,Positive Zero Count,NaN Count,Negative Inf Count,Positive Inf Count,Zero Count\n");
  const std::string later = statistic_header(info(Release::v2_3).columns);
  EXPECT_TRUE(later.ends_with(",Zero Count,MD5\n"));
}

TEST(StatisticCsv, RowOfAScalarAndOfAnOutput) {
  TensorRecord scalar = tensor({});
  scalar.is_input = false;
  EXPECT_EQ(row({1, "Parameter", "a.b"}, scalar, {}),
            "Parameter,a.b,0,0,1700000000000001,output,1,2,bfloat16,\"[]\",\n");
}

TEST(StatisticCsv, HashesAreTheRecordsOwn) {
  TensorRecord hashed = tensor({6});
  hashed.md5 = "00112233445566778899aabbccddeeff";
  hashed.sha1 = "0011";
  EXPECT_TRUE(row({1, "add", "x"}, hashed, {Category::sha1, Category::md5})
                  .ends_with("\"[6]\",0011,00112233445566778899aabbccddeeff,\n"));
}

// Rows of one content have its cells again, and those of another content in the same place of the table do not.
TEST(StatisticCsv, ContentsKeepTheirOwnCells) {
  Plan plan;
  plan.path = "/dump";
  plan.sonde.layout = *layout_from_name("mindspore-2.7");
  plan.sonde.version = info(plan.sonde.layout).release;
  const std::vector<Category> columns = {Category::max};
  StatisticRows rows(Layout::make(plan, RunInfo{}), columns, false);
  const OpName op = {1, "add", "add-op0"};
  Record record;
  record.op = &op;
  const auto cell = [&](std::uint64_t content, double max) {
    TensorRecord of = tensor({2});
    of.content = content;
    of.statistics.max = max;
    std::string out;
    rows.append(record, of, out);
    out.erase(out.rfind(","));  // version 2.7 ends a row with a comma
    return out.substr(out.rfind("\",") + 2);
  };
  EXPECT_EQ(cell(1, 5), "5");
  EXPECT_EQ(cell(1 + 1024, 6), "6");
  EXPECT_EQ(cell(1, 5), "5");
  EXPECT_EQ(cell(0, 7), "7");
  EXPECT_EQ(cell(0, 8), "8");
}

TEST(StatisticCsv, ANameWithACommaStaysOneCell) {
  EXPECT_TRUE(row({1, "add", "Default/a,\"b\"/add-op0"}, tensor({1}), {})
                  .starts_with("add,\"Default/a,\"\"b\"\"/add-op0\",0,0,"));
}

}  // namespace
}  // namespace sonde
