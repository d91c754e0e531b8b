#include "dump/run_files/replica_rows.h"

#include <gtest/gtest.h>

#include <string>

namespace sonde {
namespace {

const ReplicaRow kRow = {.step = {1, 7},
                         .op_name = "Default/net/\"odd\"-op0",
                         .slot = "input.0",
                         .content = "00ff float32(2,3)",
                         .file = "Net/1/7/x.npy"};

TEST(ReplicaRow, IsReadAsItWasWritten) {
  const std::string line = line_of(kRow);
  EXPECT_EQ(line.back(), '\n');
  const std::optional<ReplicaRow> read = replica_row(std::string_view(line).substr(0, line.size() - 1));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->step, kRow.step);
  EXPECT_EQ(read->op_name, kRow.op_name);
  EXPECT_EQ(read->slot, kRow.slot);
  EXPECT_EQ(read->content, kRow.content);
  EXPECT_EQ(read->file, kRow.file);
}

TEST(ReplicaRow, NeverNamesAFileOutsideOfItsRank) {
  for (const char* file : {"", "/etc/passwd", "../rank_1/x.npy", "Net/../../x.npy"}) {
    ReplicaRow row = kRow;
    row.file = file;
    EXPECT_FALSE(replica_row(line_of(row))) << file;
  }
}

TEST(ReplicaRow, IgnoresOtherTexts) {
  for (const char* text : {"", "{", "[]", "1", "{}", "{\"content\":1,\"file\":\"x\"}", "{\"content\":\"a\"}"}) {
    EXPECT_FALSE(replica_row(text)) << text;
  }
}

TEST(ContentKey, HasTypeAndShape) {
  const std::int64_t shape[] = {2, 3};
  EXPECT_EQ(content_key("00ff", DType::float32, shape), "00ff float32(2,3)");
  EXPECT_EQ(content_key("00ff", DType::int8, {}), "00ff int8()");
  EXPECT_EQ(content_key("00ff", "float32", "(2,3)"), content_key("00ff", DType::float32, shape));
}

}  // namespace
}  // namespace sonde
