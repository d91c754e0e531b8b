#include "record/capture/kept_outputs.h"

#include <gtest/gtest.h>

#include <array>

namespace sonde {
namespace {

Record op_with_outputs() {
  Record record;
  record.sequence = 7;
  TensorRecord& input = record.tensors.emplace_back();
  input.is_input = true;
  input.slot = 1;
  input.content = 3;
  TensorRecord& output = record.tensors.emplace_back();
  output.slot = 1;
  output.content = 5;
  output.has_statistics = true;
  output.statistics.nan_count = 2;
  return record;
}

TEST(KeptOutputs, AnOutputIsGivenWithItsFacts) {
  KeptOutputs kept;
  kept.keep(op_with_outputs());
  TensorRecord out;
  kept.give(7, 1, out);
  EXPECT_EQ(out.content, 5u);
  EXPECT_TRUE(out.has_statistics);
  EXPECT_EQ(out.statistics.nan_count, 2u);
  EXPECT_EQ(out.skipped, nullptr);
}

TEST(KeptOutputs, AnUnknownOutputIsGivenWithTheReason) {
  KeptOutputs kept;
  kept.keep(op_with_outputs());
  TensorRecord of_other_op, of_other_slot;
  kept.give(8, 1, of_other_op);
  kept.give(7, 0, of_other_slot);
  EXPECT_STREQ(of_other_op.skipped, "its operator was not recorded");
  EXPECT_STREQ(of_other_slot.skipped, "its operator was not recorded");
}

TEST(KeptOutputs, AForgottenOpIsUnknown) {
  KeptOutputs kept;
  kept.keep(op_with_outputs());
  kept.forget(std::array<std::uint64_t, 2>{7, 9});
  TensorRecord out;
  kept.give(7, 1, out);
  EXPECT_NE(out.skipped, nullptr);
  EXPECT_EQ(out.content, 0u);
}

}  // namespace
}  // namespace sonde
