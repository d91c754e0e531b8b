// The ring: the last steps, whole, and their tensors' bytes wherever these came from.
#include "record/writer/ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "dump/journal/journal.h"
#include "dump_fixture.h"

namespace sonde {
namespace {

using test::Host;
using test::npy_files;
using test::plan_for;
using test::values_from;

class RingOf : public testing::Test {
 protected:
  test::TemporaryDirectory directory;
  std::filesystem::path root = directory.path() / "dump";
  std::filesystem::path rank = root / "rank_0";

  Plan plan(std::uint64_t steps, std::uint64_t bytes = 1 << 30) const {
    Plan plan = plan_for(root, SavedData::full);
    plan.sonde.ring = steps;
    plan.sonde.ring_bytes = bytes;
    return plan;
  }
  Journal journal() {
    Result<Journal> read = read_journal(rank / ".dump_metadata/sonde/journal");
    EXPECT_TRUE(read) << read.error().message;
    return read ? std::move(*read) : Journal();
  }
  std::vector<JournalRecord> records() { return journal().runs.at(0).records; }
  // The steps that begin in the journal, in order.
  std::vector<std::uint64_t> steps() {
    std::vector<std::uint64_t> numbers;
    for (const JournalRecord& record : records()) {
      if (record.kind == RecordKind::step_begin) numbers.push_back(record.step.number);
    }
    return numbers;
  }
  std::vector<std::string> notes() {
    std::vector<std::string> texts;
    for (const JournalRecord& record : records()) {
      if (record.kind == RecordKind::note) texts.push_back(record.note);
    }
    return texts;
  }
  static void step(Host& run, std::uint64_t number) {
    run.begin({0, number});
    run.push(run.op("Default/add-op0"), {0, number}, run.tensor({static_cast<float>(number)}, 1000 + number));
    run.end({0, number});
  }
};

TEST_F(RingOf, ThreeStepsWritesTheLastThree) {
  Host run(plan(3));
  for (std::uint64_t number = 0; number < 50; ++number) step(run, number);
  EXPECT_TRUE(npy_files(rank).empty());
  EXPECT_EQ(run->write_ring("a test"), 3U);
  run->finish();
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{47, 48, 49}));
  EXPECT_EQ(npy_files(rank).size(), 3U);
  EXPECT_NE(notes().at(0).find("step 47, step 48, step 49): a test"), std::string::npos) << notes().at(0);
}

TEST_F(RingOf, StepsHasTheBytesThatCameWithAStepThatLeftIt) {
  Host run(plan(3));
  run.begin({0, 0});
  TensorRecord first = run.tensor({1, 2, 3}, 7);
  run->ring()->expect(7);
  const TensorRecord frozen = run.again(first);
  run.push(run.op("Default/linear-op0"), {0, 0}, std::move(first));
  run.end({0, 0});
  for (std::uint64_t number = 1; number <= 50; ++number) {
    run.begin({0, number});
    ASSERT_TRUE(run->ring()->holds(7)) << number;
    run.push(run.op("Default/linear-op0"), {0, number}, run.again(frozen));
    if (number < 50) run.end({0, number});
  }
  EXPECT_EQ(run->write_ring("step 50"), 3U);
  run->finish();
  const auto files = npy_files(rank);
  ASSERT_EQ(files.size(), 3U);
  for (const auto& file : files) EXPECT_EQ(values_from(file), (std::vector<float>{1, 2, 3})) << file;
}

TEST_F(RingOf, StepsForgetsBytesThatNobodyNames) {
  Host run(plan(2));
  run.begin({0, 0});
  run.push(run.op("Default/linear-op0"), {0, 0}, run.tensor({1, 2, 3}, 7));
  run.end({0, 0});
  for (std::uint64_t number = 1; number < 6; ++number) step(run, number);
  EXPECT_FALSE(run->ring()->holds(7)) << "it is read again";
  EXPECT_LE(run->blocks().in_flight_bytes(), 1024U) << "of two steps";
}

// As the record of an op that was still running when its bytes left.
TEST_F(RingOf, StepsSaysWhichBytesWereLost) {
  Host run(plan(1));
  run.begin({0, 0});
  TensorRecord missing = run.structure({3});
  missing.content = 9;
  run.push(run.op("Default/linear-op0"), {0, 0}, std::move(missing));
  run.end({0, 0});
  run->write_ring("a test");
  run->finish();
  bool said = false;
  for (const JournalRecord& record : records()) {
    for (const JournalTensor& tensor : record.tensors) said = said || tensor.skipped.starts_with("not in the ring");
  }
  EXPECT_TRUE(said);
}

TEST_F(RingOf, StepsWritesAgainWithoutDuplicates) {
  Host run(plan(3));
  for (std::uint64_t number = 0; number < 5; ++number) step(run, number);
  run->write_ring("once");
  step(run, 5);
  run->write_ring("twice");
  EXPECT_EQ(run->write_ring("nothing is new"), 0U);
  for (std::uint64_t number = 6; number < 12; ++number) step(run, number);
  run->write_ring("three times");
  run->finish();
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{2, 3, 4, 5, 9, 10, 11}));
  std::set<std::uint64_t> sequences;
  for (const JournalRecord& record : records()) {
    if (record.kind == RecordKind::note) continue;
    EXPECT_TRUE(sequences.insert(record.sequence).second) << record.sequence;
  }
  EXPECT_TRUE(std::ranges::is_sorted(sequences));
}

TEST_F(RingOf, StepsWritesTheRestOfTheOpenStepAsItRuns) {
  Host run(plan(3));
  run.begin({0, 0});
  run.push(run.op("Default/add-op0"), {0, 0}, run.tensor({1}, 1));
  run->write_ring("a test");
  run.push(run.op("Default/mul-op0"), {0, 0}, run.tensor({2}, 2));
  run.end({0, 0});
  step(run, 1);
  run->finish();
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{0}));
  EXPECT_EQ(npy_files(rank).size(), 2U);
}

TEST_F(RingOf, StepsTakesALateRecordOfAWrittenStepOnly) {
  Host run(plan(1));
  const OpName& op = run.op("Default/add-op0");
  run.begin({0, 0});
  Record of_dropped = run.record(op, {0, 0}, run.structure({1}));
  run.end({0, 0});
  run.begin({0, 1});
  Record of_written = run.record(op, {0, 1}, run.structure({1}));
  run.end({0, 1});
  run->write_ring("a test");
  run->push(std::move(of_dropped));
  run->push(std::move(of_written));
  run->finish();
  std::vector<std::uint64_t> ops;
  for (const JournalRecord& record : records()) {
    if (record.kind == RecordKind::op) ops.push_back(record.step.number);
  }
  EXPECT_EQ(ops, (std::vector<std::uint64_t>{1}));
}

TEST_F(RingOf, BytesIsBoundedByThem) {
  constexpr std::uint64_t kBytes = 4 << 20;
  Host run(plan(100, kBytes));
  const std::vector<float> large(64 << 10, 1.0F);  // 256 KiB
  for (std::uint64_t number = 0; number < 50; ++number) {
    run.begin({0, number});
    run.push(run.op("Default/add-op0"), {0, number}, run.tensor(large, 1000 + number));
    run.end({0, number});
    EXPECT_LE(run->blocks().in_flight_bytes(), kBytes + (512 << 10));
  }
  EXPECT_GT(run->ring()->report().cut_steps, 30U);
  EXPECT_GT(run->write_ring("a test"), 5U);
  run->finish();
  EXPECT_EQ(steps().back(), 49U);
}

TEST_F(RingOf, BytesIsBoundedByThemWithinOneStep) {
  constexpr std::uint64_t kBytes = 1 << 20;
  Host run(plan(3, kBytes));
  run.begin({0, 0});
  for (std::uint64_t i = 0; i < 20000; ++i) run.push(run.op("Default/add-op0"), {0, 0}, run.structure({1}));
  run->write_ring("a test");
  run->finish();
  const std::size_t ops = journal().runs.at(0).records.size();
  EXPECT_LT(ops, 5000U);
  EXPECT_GT(ops, 100U);
  EXPECT_NE(notes().at(0).find("without its first"), std::string::npos) << notes().at(0);
}

TEST_F(RingOf, StepsKeepsThemOfEachGraph) {
  Host run(plan(2));
  run.begin({1, 0});
  run.end({1, 0});
  for (std::uint64_t number = 0; number < 10; ++number) step(run, number);
  run->write_ring("a test");
  run->finish();
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{0, 8, 9}));
}

// A number that is new in each call, as a learning rate.
TEST_F(RingOf, StepsWritesTheAttributesOfItsRecordsOnly) {
  Host run(plan(2));
  for (std::uint64_t number = 0; number < 10; ++number) {
    Attributes attributes;
    attributes.id = static_cast<std::uint32_t>(number + 1);
    Attribute& rate = attributes.values.emplace_back();
    rate.name = "lr";
    rate.kind = AttributeKind::integer;
    rate.integers = {static_cast<std::int64_t>(number)};
    run->define(attributes);
    run.begin({0, number});
    Record record = run.record(run.op("Default/add-op0"), {0, number}, run.structure({1}));
    record.attributes = attributes.id;
    run->push(std::move(record));
    run.end({0, number});
  }
  run->write_ring("a test");
  run->finish();
  EXPECT_EQ(journal().runs.at(0).attributes.size(), 2U);
}

// --- what writes it by itself ----------------------------------------------------------------------------------------

class Failure : public RingOf {
 protected:
  static Site site(std::uint32_t id, Phase phase, std::uint32_t forward = 0) {
    Site site;
    site.id = id;
    site.phase = phase;
    site.op_type = "op";
    site.forward_site = forward;
    return site;
  }
  static TensorRecord bad(Host& run, std::vector<std::int64_t> shape, bool nan) {
    TensorRecord tensor = run.structure(std::move(shape));
    tensor.has_statistics = true;
    tensor.statistics.count = 1;
    (nan ? tensor.statistics.nan_count : tensor.statistics.negative_inf_count) = 1;
    return tensor;
  }
  // Whether an op with this tensor makes the ring write.
  bool writes(Host& run, TensorRecord tensor, std::uint32_t at = 0) {
    const std::uint64_t before = run->ring()->report().writes;
    const std::uint64_t number = next_++;
    run.begin({0, number});
    Record record = run.record(run.op("Default/op-op0", "op"), {0, number}, std::move(tensor));
    record.site = at;
    run->push(std::move(record));
    run.end({0, number});
    step(run, next_++);  // the next failure is a new one
    return run->ring()->report().writes > before;
  }
  std::uint64_t next_ = 0;
};

TEST_F(Failure, IsANanInAParameterOrAGradientAndAnInfinityInWhatIsTrained) {
  Host run(plan(3));
  const std::uint32_t weight = run.op("fc.weight", "Parameter").id;
  const std::uint32_t mask = run.op("causal", "Parameter").id;
  const std::uint32_t data = run.op("data-0", "Parameter").id;
  const std::uint32_t gradient = run.op("fc.weight.grad", "Parameter").id;
  const auto input = [&](std::uint32_t name, bool nan) {
    TensorRecord tensor = bad(run, {2}, nan);
    tensor.is_input = true;
    tensor.parameter = name;
    return tensor;
  };
  EXPECT_TRUE(writes(run, input(weight, true)));
  EXPECT_TRUE(writes(run, input(weight, false)));
  EXPECT_TRUE(writes(run, input(gradient, true)));
  EXPECT_TRUE(writes(run, input(gradient, false)));
  EXPECT_TRUE(writes(run, input(mask, true)));
  EXPECT_FALSE(writes(run, input(mask, false))) << "a mask";
  EXPECT_FALSE(writes(run, input(data, false))) << "a mask that comes with the data";
  EXPECT_FALSE(writes(run, input(0, true)));
  EXPECT_FALSE(writes(run, bad(run, {2}, false))) << "the output of masked_fill";
}

TEST_F(Failure, IsALossThatBackwardBeginsWith) {
  Host run(plan(3));
  run->define(site(1, Phase::forward));
  run->define(site(2, Phase::forward));
  run->define(site(3, Phase::backward, 1));
  EXPECT_FALSE(writes(run, bad(run, {}, true), 1)) << "no backward yet: it may be a metric";
  const std::uint64_t number = next_++;
  run.begin({0, number});
  for (const std::uint32_t at : {2U, 1U, 3U}) {
    Record record = run.record(run.op("Default/op-op0", "op"), {0, number}, bad(run, {}, true));
    record.site = at;
    run->push(std::move(record));
    EXPECT_EQ(run->ring()->report().writes, at == 3 ? 1U : 0U);
  }
  run.end({0, number});
  step(run, next_++);
  EXPECT_FALSE(writes(run, bad(run, {}, true), 2)) << "another number";
  EXPECT_TRUE(writes(run, bad(run, {}, true), 1)) << "the loss is known, though there is no backward";
}

TEST_F(Failure, OfEveryStepIsWrittenOnce) {
  Host run(plan(3));
  const std::uint32_t weight = run.op("fc.weight", "Parameter").id;
  for (std::uint64_t number = 0; number < 20; ++number) {
    run.begin({0, number});
    TensorRecord tensor = bad(run, {2}, true);
    tensor.is_input = true;
    tensor.parameter = weight;
    run.push(run.op("Default/op-op0", "op"), {0, number}, std::move(tensor));
    run.end({0, number});
  }
  EXPECT_EQ(run->ring()->report().writes, 1U);
}

}  // namespace
}  // namespace sonde
