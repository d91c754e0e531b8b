// Records that come late (the outputs of collectives), and records that are dropped because the disk is too slow.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "dump/journal/journal.h"
#include "dump_fixture.h"

namespace sonde {
namespace {

using test::Host;
using test::kStep;
using test::plan_for;

// The rest of the op `of`, as capture makes it.
Record rest_of(const Record& of, TensorRecord tensor) {
  Record rest;
  rest.completes = true;
  rest.op = of.op;
  rest.sequence = of.sequence;
  rest.step = of.step;
  tensor.slot = 1;
  rest.tensors.push_back(std::move(tensor));
  return rest;
}

class Late : public testing::Test {
 protected:
  test::TemporaryDirectory directory;
  std::filesystem::path dump = directory.path() / "dump";

  JournalRun journal() const {
    Result<Journal> read = read_journal(dump / "rank_0/.dump_metadata/sonde/journal");
    EXPECT_TRUE(read) << read.error().message;
    return std::move(read->runs.at(0));
  }
  static const JournalRecord* op_of(const JournalRun& run, std::uint64_t sequence) {
    for (const JournalRecord& record : run.records) {
      if (record.kind == RecordKind::op && record.sequence == sequence) return &record;
    }
    return nullptr;
  }
};

TEST_F(Late, WhatCompletesAnOpJoinsItWhetherThatIsOnDiskOrStillWaits) {
  Host run(plan_for(dump));
  run.begin(kStep);
  const std::uint64_t gap = run->next_sequence();
  Record waits = run.record(run.op("Default/allreduce_-op0"), kStep, run.tensor({1}, 1));
  const std::uint64_t first = waits.sequence;
  Record rest = rest_of(waits, run.tensor({2}, 2));
  run->push(std::move(waits));
  run->push(std::move(rest));  // the op waits for the gap
  run->skip(gap);
  Record written = run.record(run.op("Default/allreduce_-op1"), kStep, run.tensor({3}, 3));
  const std::uint64_t second = written.sequence;
  rest = rest_of(written, run.tensor({4}, 4));
  run->push(std::move(written));
  run->flush();
  run->push(std::move(rest));
  run.end(kStep);
  const Totals totals = run->finish();
  EXPECT_EQ(totals.ops, 2U);
  EXPECT_EQ(totals.rows, 4U);
  const JournalRun read = journal();
  for (const std::uint64_t sequence : {first, second}) {
    const JournalRecord* op = op_of(read, sequence);
    ASSERT_NE(op, nullptr);
    ASSERT_EQ(op->tensors.size(), 2U);
    for (const JournalTensor& slot : op->tensors) EXPECT_FALSE(slot.file.empty());
  }
}

TEST_F(Late, ARowMayComeAfterItsStepHasEnded) {
  Host run(plan_for(dump, SavedData::statistic));
  std::vector<Record> rests;
  for (std::uint64_t step = 0; step < 40; ++step) {
    run.begin({0, step});
    Record op = run.record(run.op("Default/allreduce_-op0"), {0, step}, run.tensor({1}, 2 * step + 1));
    rests.push_back(rest_of(op, run.tensor({2}, 2 * step + 2)));
    run->push(std::move(op));
    run.end({0, step});
  }
  run->flush();
  for (Record& rest : rests) run->push(std::move(rest));
  EXPECT_EQ(run->finish().rows, 80U);
  ASSERT_FALSE(run->error()) << run->error()->message;
  for (int step = 0; step < 40; ++step) {
    const auto table = dump / "rank_0/Net/0" / std::to_string(step) / "statistic.csv";
    const std::string text = test::read_text(table);
    EXPECT_EQ(std::ranges::count(text, '\n'), 3) << text;
    EXPECT_EQ(test::mode_of(table), 0400U);
  }
}

TEST_F(Late, WhatCompletesALostOpStandsForIt) {
  JournalWriter writer;
  writer.run("{}");
  Record rest;
  rest.completes = true;
  rest.sequence = 7;
  rest.tensors.emplace_back();
  writer.record(rest);
  const Result<Journal> read = parse_journal(writer.buffer(), "journal");
  ASSERT_TRUE(read);
  ASSERT_EQ(read->runs.at(0).records.size(), 1U);
  EXPECT_EQ(read->runs[0].records[0].tensors.size(), 1U);
}

// The descriptor of this process for `path`.
int descriptor_of(const std::filesystem::path& path) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry.path(), gone) == path) return std::stoi(entry.path().filename());
  }
  return -1;
}

// The journal becomes a pipe without a reader: the writer blocks at its 64 KiB.
TEST_F(Late, WithoutWaitingADiskThatHangsCostsRecordsAndNotTheProgramsTime) {
  constexpr std::uint64_t kRecords = 150000;
  Plan plan = plan_for(dump, SavedData::statistic);
  plan.sonde.when_full = WhenFull::drop;
  Host run(plan);
  ASSERT_TRUE(run.is_open()) << run.refused().message;
  run.begin(kStep);
  run->flush();
  int pipe_ends[2] = {};
  ASSERT_EQ(::pipe(pipe_ends), 0);
  const int journal = descriptor_of(std::filesystem::canonical(dump) / "rank_0/.dump_metadata/sonde/journal");
  ASSERT_GE(journal, 0);
  ASSERT_EQ(::dup2(pipe_ends[1], journal), journal);
  ::close(pipe_ends[1]);
  ::fcntl(pipe_ends[0], F_SETFL, O_NONBLOCK);
  const OpName& name = run.op("Default/add-op0");
  for (std::uint64_t i = 0; i < kRecords; ++i) run->push(run.record(name, kStep));  // would wait forever
  run.end(kStep);
  std::atomic<bool> done{false};
  std::thread disk([&] {
    std::array<char, 1 << 16> bytes{};
    while (!done.load()) {
      if (::read(pipe_ends[0], bytes.data(), bytes.size()) <= 0) std::this_thread::yield();
    }
    ::close(pipe_ends[0]);
  });
  const Totals totals = run->finish();
  done = true;
  disk.join();
  EXPECT_GT(totals.records_dropped, 0U);
  EXPECT_EQ(totals.ops + totals.records_dropped, kRecords);
}

}  // namespace
}  // namespace sonde
