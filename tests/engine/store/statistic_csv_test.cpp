#include "store/statistic_csv.h"

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

std::string row(const OpName& op, const TensorRecord& of, const std::vector<Category>& columns) {
  std::string out;
  append_statistic_row(op, of, columns, out);
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

TEST(StatisticCsv, ANameWithACommaStaysOneCell) {
  EXPECT_TRUE(row({1, "add", "Default/a,\"b\"/add-op0"}, tensor({1}), {})
                  .starts_with("add,\"Default/a,\"\"b\"\"/add-op0\",0,0,"));
}

}  // namespace
}  // namespace sonde
