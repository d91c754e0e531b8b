#include "record/writer/hasher.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "dump/journal/journal.h"
#include "dump_fixture.h"

namespace sonde {
namespace {

using test::Host;
using test::plan_for;

constexpr std::uint64_t kBudget = 64 << 20;

// float32 elements with their view.
struct Values {
  explicit Values(std::size_t count, unsigned seed) : values(count), shape{static_cast<std::int64_t>(count)} {
    std::mt19937 random(seed);
    for (float& value : values) value = static_cast<float>(random());
  }
  TensorView view() const {
    TensorView view;
    view.dtype = DType::float32;
    view.data = reinterpret_cast<const std::byte*>(values.data());
    view.shape = shape;
    view.strides = stride;
    return view;
  }
  BlockPtr copy(BlockPool& pool) const {
    BlockPtr block = pool.take(values.size() * sizeof(float));
    if (block) std::memcpy(block->data, values.data(), block->bytes);
    return block;
  }

  std::vector<float> values;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> stride{1};
};

void expect_texts(const HashTexts& texts, const Values& of) {
  EXPECT_TRUE(texts.done);
  EXPECT_EQ(texts.md5, md5_hex(of.view()));
  EXPECT_EQ(texts.sha1, sha1_hex(of.view()));
}

TEST(Hasher, HasTheTextsOfTheStatisticsForAnySizes) {
  BlockPool pool(kBudget);
  Hasher hasher(true, true, kBudget);
  std::vector<Values> tensors;
  std::vector<std::shared_ptr<HashTexts>> texts;
  for (const std::size_t count : {1, 20480, 20481, 200, 15, 16, 100000, 40960, 3000000, 129, 61440}) {
    tensors.emplace_back(count, static_cast<unsigned>(count));
    texts.push_back(hasher.add(tensors.back().copy(pool), sizeof(float)));
  }
  hasher.run_all();
  EXPECT_TRUE(hasher.is_idle());
  EXPECT_EQ(pool.in_flight_bytes(), 0U);
  for (std::size_t i = 0; i < tensors.size(); ++i) expect_texts(*texts[i], tensors[i]);
}

TEST(Hasher, MakesOnlyWhatIsWanted) {
  BlockPool pool(kBudget);
  const Values values(1000, 1);
  Hasher md5(true, false, kBudget), sha1(false, true, kBudget);
  const auto first = md5.add(values.copy(pool), sizeof(float));
  const auto second = sha1.add(values.copy(pool), sizeof(float));
  md5.run_all();
  sha1.run_all();
  EXPECT_EQ(first->md5, md5_hex(values.view()));
  EXPECT_EQ(first->sha1, "");
  EXPECT_EQ(second->md5, "");
  EXPECT_EQ(second->sha1, sha1_hex(values.view()));
}

TEST(Hasher, WaitsForOthersButNotForLong) {
  BlockPool pool(kBudget);
  Hasher hasher(true, false, kBudget);
  const Values values(1000, 1);
  const auto alone = hasher.add(values.copy(pool), sizeof(float));
  hasher.run(false);
  EXPECT_FALSE(alone->done);
  EXPECT_FALSE(hasher.is_running());
  EXPECT_FALSE(hasher.is_idle());
  std::this_thread::sleep_for(std::chrono::milliseconds(25));
  hasher.run(false);
  EXPECT_TRUE(alone->done);
  EXPECT_TRUE(hasher.is_idle());
  std::vector<std::shared_ptr<HashTexts>> many;
  for (int i = 0; i < 16; ++i) many.push_back(hasher.add(values.copy(pool), sizeof(float)));
  hasher.run(false);
  for (const auto& texts : many) EXPECT_TRUE(texts->done);
  const auto at_once = hasher.add(values.copy(pool), sizeof(float));
  hasher.run(true);
  EXPECT_TRUE(at_once->done);
}

TEST(Hasher, BeginsWhenTensorsWaitForAPartOfTheBudget) {
  BlockPool pool(kBudget);
  const Values values(100000, 1);
  Hasher hasher(true, false, 8 * 400000);
  const auto texts = hasher.add(values.copy(pool), sizeof(float));
  hasher.run(false);
  EXPECT_TRUE(texts->done);
}

TEST(Hasher, TakesNewTensorsBesideALongOne) {
  BlockPool pool(kBudget);
  Hasher hasher(true, false, kBudget);
  const Values large(8 << 20, 1), small(1000, 2);  // large: 32 MB, many calls of run()
  const auto first = hasher.add(large.copy(pool), sizeof(float));
  hasher.run(true);
  ASSERT_TRUE(hasher.is_running());
  const auto second = hasher.add(small.copy(pool), sizeof(float));
  hasher.run(false);
  EXPECT_TRUE(second->done);
  EXPECT_FALSE(first->done);
  while (hasher.is_running()) hasher.run(false);
  EXPECT_EQ(first->md5, md5_hex(large.view()));
  EXPECT_EQ(second->md5, md5_hex(small.view()));
}

class HashedDump : public testing::Test {
 protected:
  test::TemporaryDirectory directory;
  std::filesystem::path rank = directory.path() / "dump/rank_0";

  Plan plan(SavedData saved) const {
    Plan plan = plan_for(directory.path() / "dump", saved);
    plan.statistic_category = {Category::max, Category::md5, Category::sha1};
    return plan;
  }
  // As capture does: the bytes to the hasher, in tensor mode the same block with the record.
  static TensorRecord tensor(Host& run, const Values& values, std::uint64_t content, bool with_bytes) {
    TensorRecord tensor = run.tensor(values.values, content);
    BlockPtr block = with_bytes ? BlockPool::share(tensor.bytes) : std::move(tensor.bytes);
    tensor.hashes = run->hash(std::move(block), sizeof(float), !with_bytes);
    return tensor;
  }
  static TensorRecord again(Host& run, const TensorRecord& first) {
    TensorRecord tensor = run.again(first);
    tensor.hashes = first.hashes;
    return tensor;
  }
  std::vector<std::pair<std::string, std::string>> recorded() const {
    const Result<Journal> read = read_journal(rank / ".dump_metadata/sonde/journal");
    std::vector<std::pair<std::string, std::string>> texts;
    if (!read) return texts;
    for (const JournalRecord& record : read->runs.at(0).records) {
      for (const JournalTensor& one : record.tensors) texts.emplace_back(one.md5, one.sha1);
    }
    return texts;
  }
  std::string table() const { return test::read_text(rank / "Net/0/0/statistic.csv"); }
};

TEST_F(HashedDump, HasTheTextsInTheJournalAndTheTable) {
  for (const SavedData saved : {SavedData::statistic, SavedData::full}) {
    std::filesystem::remove_all(directory.path() / "dump");
    const bool full = saved == SavedData::full;
    Host run(plan(saved));
    run.begin(test::kStep);
    std::vector<Values> tensors;
    for (unsigned i = 0; i < 40; ++i) {
      tensors.emplace_back(500 + 1700 * i, i);
      run.push(run.op("Default/add-op" + std::to_string(i)), test::kStep, tensor(run, tensors.back(), i + 1, full));
    }
    run.end(test::kStep);
    EXPECT_EQ(run->finish().bytes_dropped, 0U);
    const auto texts = recorded();
    ASSERT_EQ(texts.size(), tensors.size());
    std::size_t at = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ(texts[i].first, md5_hex(tensors[i].view()));
      EXPECT_EQ(texts[i].second, sha1_hex(tensors[i].view()));
      at = table().find(texts[i].first + "," + texts[i].second, at);
      ASSERT_NE(at, std::string::npos) << "rows are in the order of the ops";
    }
    EXPECT_EQ(test::npy_files(rank).size(), full ? 40U : 0U);
    if (full) {
      for (const auto& file : test::npy_files(rank)) EXPECT_GE(test::values_from(file).size(), 500U) << file;
    }
    EXPECT_EQ(run->blocks().in_flight_bytes(), 0U);
  }
}

TEST_F(HashedDump, EqualTensorsHaveTheSameTextsWhicheverRecordComesFirst) {
  Host run(plan(SavedData::statistic));
  run.begin(test::kStep);
  const Values values(50000, 1);
  Record first = run.record(run.op("Default/first-op0"), test::kStep);
  Record second = run.record(run.op("Default/second-op0"), test::kStep);
  second.tensors.push_back(tensor(run, values, 7, false));
  first.tensors.push_back(again(run, second.tensors.front()));
  run->push(std::move(first));
  run->push(std::move(second));
  run.end(test::kStep);
  run->finish();
  const auto texts = recorded();
  ASSERT_EQ(texts.size(), 2U);
  EXPECT_EQ(texts[0].first, md5_hex(values.view()));
  EXPECT_EQ(texts[0], texts[1]);
}

TEST_F(HashedDump, ARecordThatIsNeverPushedTakesNoTextFromOthers) {
  Host run(plan(SavedData::full));
  run.begin(test::kStep);
  const Values values(50000, 1);
  Record lost = run.record(run.op("Default/lost-op0"), test::kStep, tensor(run, values, 7, true));
  Record kept = run.record(run.op("Default/kept-op0"), test::kStep, again(run, lost.tensors.front()));
  run->skip(lost.sequence);
  lost = Record();
  run->push(std::move(kept));
  run.end(test::kStep);
  run->finish();
  const auto texts = recorded();
  ASSERT_EQ(texts.size(), 1U);
  EXPECT_EQ(texts[0].first, md5_hex(values.view()));
  EXPECT_EQ(run->blocks().in_flight_bytes(), 0U);
}

TEST_F(HashedDump, FlushPutsTheTextsOnDisk) {
  Host run(plan(SavedData::statistic));
  run.begin(test::kStep);
  const Values values(50000, 1);
  run.push(run.op("Default/add-op0"), test::kStep, tensor(run, values, 1, false));
  run->flush();
  EXPECT_NE(table().find(md5_hex(values.view())), std::string::npos);
}

TEST_F(HashedDump, ASingleTensorReachesTheDiskSoonWithoutAFlush) {
  Host run(plan(SavedData::statistic));
  run.begin(test::kStep);
  const Values values(50000, 1);
  run.push(run.op("Default/add-op0"), test::kStep, tensor(run, values, 1, false));
  const std::string text = md5_hex(values.view());
  for (int i = 0; i < 2000 && table().find(text) == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_NE(table().find(text), std::string::npos);
}

TEST_F(HashedDump, ATensorThatCompletesAnEarlierOpHasItsTexts) {
  Host run(plan(SavedData::statistic));
  run.begin(test::kStep);
  const Values values(50000, 1), other(3000, 2);
  Record op = run.record(run.op("Default/all_reduce-op0"), test::kStep, tensor(run, other, 1, false));
  Record rest = run.record(run.op("Default/all_reduce-op0"), test::kStep);
  run->skip(rest.sequence);
  rest.sequence = op.sequence;
  rest.completes = true;
  run->push(std::move(op));
  run->flush();
  rest.tensors.push_back(tensor(run, values, 2, false));
  run->push(std::move(rest));
  run->finish();
  const auto texts = recorded();
  ASSERT_EQ(texts.size(), 2U);
  EXPECT_EQ(texts[1].first, md5_hex(values.view()));
}

TEST_F(HashedDump, TheWriterTakesNothingBeforeItRunsAndAfterItEnded) {
  Host run(plan(SavedData::statistic));
  EXPECT_FALSE(run->can_hash(1 << 20));
  run.begin(test::kStep);
  EXPECT_TRUE(run->can_hash(1 << 20));
  EXPECT_TRUE(run->can_hash(Hasher::kLeastBytes));
  EXPECT_FALSE(run->can_hash(Hasher::kLeastBytes - 1)) << "not worth it";
  run->finish();
  EXPECT_FALSE(run->can_hash(1 << 20));
}

TEST_F(HashedDump, AHostThatWaitsForRoomGoesOn) {
  Plan small = plan(SavedData::statistic);
  small.sonde.budget_bytes = 1 << 20;
  Host run(small);
  run.begin(test::kStep);
  const Values values(1 << 14, 1);  // 64 KB: half of what makes the hasher begin
  std::shared_ptr<HashTexts> texts;
  {
    const BlockPtr most = run->blocks().take(900 << 10);
    texts = run->hash(values.copy(run->blocks()), sizeof(float), true);
    run->blocks().take(200 << 10);  // returns when the hasher has given back its block, or the other one
  }
  run->finish();
  EXPECT_EQ(run->blocks().in_flight_bytes(), 0U);
}

}  // namespace
}  // namespace sonde
