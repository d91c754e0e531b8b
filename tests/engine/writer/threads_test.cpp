// Many host threads and one recorder. Also under ThreadSanitizer (-DSONDE_SANITIZE=thread).
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "dump/journal/journal.h"
#include "dump_fixture.h"

namespace sonde {
namespace {

using test::Host;
using test::plan_for;

TEST(Threads, RecordsOfManyThreadsAreAllThereAndInOrder) {
  constexpr int kThreads = 4;
  constexpr int kEach = 200;
  const test::TemporaryDirectory directory;
  Plan plan = plan_for(directory.path() / "dump");
  plan.sonde.budget_bytes = 64 << 10;
  Host run(plan);
  run.begin({0, 0});
  std::vector<const OpName*> names;
  for (int i = 0; i < kThreads; ++i) names.push_back(&run.op("Default/add-op" + std::to_string(i)));
  std::atomic<std::uint64_t> content{1};
  const auto host = [&](std::size_t thread) {
    for (int i = 0; i < kEach; ++i) {
      Record record;
      record.sequence = run->next_sequence();
      record.op = names[thread];
      record.thread = static_cast<std::uint16_t>(thread);
      TensorRecord& tensor = record.tensors.emplace_back();
      const std::int64_t size = 1 + i % 700;
      tensor.dtype = DType::float32;
      tensor.shape = Dims({&size, 1});
      tensor.slot = static_cast<std::uint32_t>(i);
      tensor.content = content.fetch_add(1);
      tensor.timestamp_us = test::kTime;
      tensor.has_statistics = true;
      tensor.bytes = run->blocks().take(static_cast<std::size_t>(size) * 4);
      std::memset(tensor.bytes->data, static_cast<int>(tensor.content % 256), tensor.bytes->bytes);
      if (i % 50 == 7) {
        record.tensors.clear();
        run->skip(record.sequence);
      } else {
        run->push(std::move(record));
      }
      if (i % 60 == 0) static_cast<void>(run->totals());
      if (thread == 0 && i % 70 == 0) run->flush();
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) threads.emplace_back(host, i);
  for (std::thread& thread : threads) thread.join();
  run.end({0, 0});
  const Totals totals = run->finish();
  ASSERT_FALSE(run->error()) << run->error()->message;
  const std::uint64_t pushed = kThreads * (kEach - 4);
  EXPECT_EQ(totals.ops, pushed);
  EXPECT_EQ(totals.files, pushed);
  EXPECT_EQ(totals.rows, pushed);
  EXPECT_EQ(run->blocks().in_flight_bytes(), 0U);
  const Result<Journal> journal = read_journal(directory.path() / "dump/rank_0/.dump_metadata/sonde/journal");
  ASSERT_TRUE(journal);
  std::size_t with_file = 0;
  for (const JournalRecord& record : journal->runs.at(0).records) {
    for (const JournalTensor& tensor : record.tensors) with_file += tensor.file.empty() ? 0 : 1;
  }
  EXPECT_EQ(with_file, pushed);
}

// A flush whose wake-up is lost would wait for an hour.
TEST(Threads, AFlushIsNeverMissed) {
  const test::TemporaryDirectory directory;
  Host run(plan_for(directory.path() / "dump", SavedData::statistic));
  run.begin({0, 0});
  const OpName& name = run.op("Default/add-op0");
  for (std::uint64_t i = 1; i <= 3000; ++i) {
    run.push(name, {0, 0}, run.tensor({1}, i));
    for (std::uint64_t spin = 0; spin < i % 1000; ++spin) static_cast<void>(run->totals());
    run->flush();
  }
  EXPECT_EQ(run->finish().rows, 3000U);
}

}  // namespace
}  // namespace sonde
