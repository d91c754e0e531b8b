#include "record/writer/brief_ops.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "record/writer/queue.h"

namespace sonde {
namespace {

constexpr StepId kHere{0, 3}, kElsewhere{1, 3};

TensorRecord tensor_with_every_fact() {
  TensorRecord tensor;
  tensor.is_input = true;
  tensor.wanted = false;
  tensor.slot = 2;
  tensor.dtype = DType::bfloat16;
  tensor.set_shape(Dims({2, 3, 4, 5, 6, 7, 8}));
  tensor.content = 17;
  tensor.source = 5;
  tensor.source_slot = kInnerSlot;
  tensor.constant = 0.5;
  tensor.parameter = 9;
  tensor.skipped = "uninitialised memory";
  tensor.timestamp_us = 1000;
  return tensor;
}

Record op(std::uint64_t sequence, StepId step = kHere) {
  static const OpName name{1, "add", "Default/add-op0"};
  Record record;
  record.op = &name;
  record.sequence = sequence;
  record.step = step;
  record.site = 4;
  record.thread = 2;
  record.failed = true;
  record.attributes = 6;
  record.task_id = 8;
  record.timestamp_us = 1000;
  record.selected = true;
  record.tensors.push_back(tensor_with_every_fact());
  record.tensors.emplace_back().timestamp_us = 1000;  // nothing is known of it, not even its shape
  return record;
}

std::vector<Record> expanded(const BriefOps& ops) {
  std::vector<Record> records;
  ops.expand([] { return std::vector<TensorRecord>(); },
             [&](Record&& record) { records.push_back(std::move(record)); });
  return records;
}

TEST(BriefOps, GivesBackEveryFactOfARecord) {
  BriefOps ops(kHere);
  ASSERT_TRUE(BriefOps::can_hold(op(7)));
  ASSERT_TRUE(ops.add(op(7)));
  ASSERT_TRUE(ops.add(op(8)));
  const std::vector<Record> records = expanded(ops);
  ASSERT_EQ(records.size(), 2U);
  const Record &given = op(8), &found = records[1];
  EXPECT_EQ(found.kind, RecordKind::op);
  EXPECT_EQ(found.op, given.op);
  EXPECT_EQ(found.sequence, 8U);
  EXPECT_EQ(found.step, kHere);
  EXPECT_EQ(found.site, 4U);
  EXPECT_EQ(found.thread, 2U);
  EXPECT_TRUE(found.failed);
  EXPECT_EQ(found.attributes, 6U);
  EXPECT_EQ(found.task_id, 8U);
  EXPECT_EQ(found.timestamp_us, 1000U);
  EXPECT_TRUE(found.selected);
  ASSERT_EQ(found.tensors.size(), 2U);
  const TensorRecord &known = found.tensors[0], &unknown = found.tensors[1], wanted = tensor_with_every_fact();
  EXPECT_TRUE(known.is_input);
  EXPECT_FALSE(known.wanted);
  EXPECT_EQ(known.slot, wanted.slot);
  EXPECT_EQ(known.dtype, wanted.dtype);
  EXPECT_TRUE(known.has_shape);
  EXPECT_EQ(known.shape, wanted.shape);
  EXPECT_EQ(known.content, wanted.content);
  EXPECT_EQ(known.source, wanted.source);
  EXPECT_EQ(known.source_slot, wanted.source_slot);
  EXPECT_EQ(known.constant, wanted.constant);
  EXPECT_EQ(known.parameter, wanted.parameter);
  EXPECT_STREQ(known.skipped, wanted.skipped);
  EXPECT_EQ(known.timestamp_us, wanted.timestamp_us);
  EXPECT_FALSE(unknown.has_shape);
  EXPECT_TRUE(unknown.shape.empty());
  EXPECT_EQ(unknown.source, kNoSequence);
}

TEST(BriefOps, HoldsNothingThatWouldLoseAFact) {
  const auto holds = [](auto change) {
    Record record = op(7);
    change(record);
    return BriefOps::can_hold(record);
  };
  EXPECT_TRUE(holds([](Record&) {}));
  EXPECT_FALSE(holds([](Record& r) { r.kind = RecordKind::parameter; }));
  EXPECT_FALSE(holds([](Record& r) { r.completes = true; }));
  EXPECT_FALSE(holds([](Record& r) { r.overflowed = true; }));
  EXPECT_FALSE(holds([](Record& r) { r.undecided = true; }));
  EXPECT_FALSE(holds([](Record& r) { r.repeats = 1; }));
  EXPECT_FALSE(holds([](Record& r) { r.tensors[1].has_statistics = true; }));
  EXPECT_FALSE(holds([](Record& r) { r.tensors[1].bytes_read = 4; }));
  EXPECT_FALSE(holds([](Record& r) { r.tensors[1].timestamp_us = 7; }));
  EXPECT_FALSE(holds([](Record& r) { r.tensors[1].md5 = "0"; }));
  EXPECT_FALSE(holds([](Record& r) { r.tensors[1].sha1 = "0"; }));
  EXPECT_FALSE(holds([](Record& r) { r.tensors[1].hashes = std::make_shared<HashTexts>(); }));
  EXPECT_FALSE(holds([](Record& r) { r.tensors[1].late = std::make_shared<LateReading>(); }));
  EXPECT_FALSE(holds([](Record& r) { r.tensors[1].format = Format::nhwc; }));
}

TEST(BriefOps, AreOfOneStepAndNotTooMany) {
  BriefOps ops(kHere);
  EXPECT_FALSE(ops.add(op(0, kElsewhere)));
  for (std::size_t i = 0; i < BriefOps::kMost; ++i) EXPECT_TRUE(ops.add(op(i)));
  EXPECT_FALSE(ops.add(op(BriefOps::kMost)));
  EXPECT_EQ(ops.size(), BriefOps::kMost);
}

TEST(BriefOps, TellTheirSequencesAsRanges) {
  BriefOps ops(kHere);
  for (const std::uint64_t sequence : {4, 5, 6, 9, 8}) ops.add(op(sequence));
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  ops.sequences([&](std::uint64_t from, std::uint64_t to) { ranges.emplace_back(from, to); });
  EXPECT_EQ(ranges, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{4, 7}, {9, 10}, {8, 9}}));
}

TEST(Queue, CountsWhatJoinsAnItem) {
  Queue<int> queue;
  const auto joins = [](int& last) { return ++last > 0; };
  EXPECT_FALSE(queue.join(joins, 3)) << "there is no item";
  queue.push(1);
  EXPECT_FALSE(queue.join([](int&) { return false; }, 3));
  EXPECT_TRUE(queue.join(joins, 3));
  EXPECT_TRUE(queue.join(joins, 3));
  EXPECT_FALSE(queue.join(joins, 3)) << "it is full";
  EXPECT_FALSE(queue.try_push(1, 3));
  std::vector<int> taken;
  queue.take_all(taken, std::chrono::milliseconds(0));
  EXPECT_EQ(taken, std::vector<int>{3});
  EXPECT_TRUE(queue.try_push(1, 1)) << "nothing is left of what has joined";
}

}  // namespace
}  // namespace sonde
