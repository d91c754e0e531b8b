// The first NaN of a run, from a journal that grows byte by byte.
#include "face/server/nan_watch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "dump/journal/journal.h"
#include "dump/layout/side_names.h"

namespace sonde::server {
namespace {

namespace fs = std::filesystem;

class NanWatching : public testing::Test {
 protected:
  NanWatching() {
    directory_ = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(directory_);
    CatalogRank rank;
    rank.rank = 3;
    rank.has_journal = true;
    rank.metadata = directory_;
    frame_.ranks.push_back(std::move(rank));
    fs::create_directories(journal_in(directory_).parent_path());
  }
  ~NanWatching() override { fs::remove_all(directory_); }

  void append(std::string_view bytes) {
    std::ofstream(journal_in(directory_), std::ios::binary | std::ios::app) << bytes;
  }

  // A run's header, two names, and one record of each in every step; those of `relu-op0` in `bad` count a NaN.
  static std::string run(std::uint64_t steps, std::uint64_t bad) {
    JournalWriter writer;
    writer.run("{}");
    const OpName names[] = {{1, "linear", "Default/linear-op0"}, {2, "relu", "Default/relu-op0"}};
    std::uint64_t sequence = 0;
    for (std::uint64_t step = 0; step < steps; ++step) {
      for (const OpName& name : names) {
        if (step == 0) writer.op_name(name);
        Record record;
        record.sequence = sequence++;
        record.step = {0, step};
        record.op = &name;
        TensorRecord tensor;
        tensor.slot = 1;
        tensor.is_input = false;
        tensor.dtype = DType::float32;
        tensor.shape = {4};
        tensor.has_statistics = true;
        tensor.statistics.count = 4;
        tensor.statistics.nan_count = step >= bad && name.id == 2 ? 2 : 0;
        record.tensors.push_back(std::move(tensor));
        writer.record(record);
      }
    }
    return writer.buffer();
  }

  fs::path directory_;
  Catalog frame_;
};

TEST_F(NanWatching, FindsItOnceItsEntryIsComplete) {
  const std::string healthy = run(6, 6), sick = run(6, 5);
  NanWatch watch(64);                // less than an entry may have
  EXPECT_FALSE(watch.look(frame_));  // there is no journal
  std::size_t found_at = 0;
  for (std::size_t at = 0; at < sick.size(); ++at) {
    append(sick.substr(at, 1));
    if (found_at == 0 && watch.look(frame_)) found_at = at + 1;
  }
  EXPECT_EQ(found_at, sick.size());  // the last record
  const std::optional<FirstNan>& nan = watch.look(frame_);
  ASSERT_TRUE(nan);
  EXPECT_EQ(nan->rank, "3");
  EXPECT_EQ(nan->graph, 0);
  EXPECT_EQ(nan->step, 5);
  EXPECT_EQ(nan->op_name, "Default/relu-op0");
  EXPECT_EQ(nan->side, Side::output);
  EXPECT_EQ(nan->slot, 1);
}

TEST_F(NanWatching, SaysNothingOfAHealthyRun) {
  append(run(100, 100));
  NanWatch watch(256);
  EXPECT_FALSE(watch.look(frame_));
}

TEST_F(NanWatching, LeavesOutARunBefore) {
  append(run(4, 1));
  append(run(4, 4));
  NanWatch watch;
  EXPECT_FALSE(watch.look(frame_));
  append(run(4, 2));
  ASSERT_TRUE(watch.look(frame_));
  EXPECT_EQ(watch.look(frame_)->step, 2);
}

TEST_F(NanWatching, BeginsAgainWithANewFileAndPassesDamage) {
  append(run(50, 50));
  NanWatch watch;
  EXPECT_FALSE(watch.look(frame_));
  fs::remove(journal_in(directory_));
  append(run(2, 2));
  append(std::string(40, '\xff'));
  EXPECT_FALSE(watch.look(frame_));
  append(run(3, 1));
  ASSERT_TRUE(watch.look(frame_));
  EXPECT_EQ(watch.look(frame_)->step, 1);
}

}  // namespace
}  // namespace sonde::server
