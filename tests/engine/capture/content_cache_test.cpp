#include "record/capture/content_cache.h"

#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

namespace sonde {
namespace {

using Sizes = std::array<std::int64_t, 2>;
constexpr Sizes kShape = {4, 3}, kStrides = {3, 1}, kTurnedShape = {3, 4}, kTurnedStrides = {1, 3};
const int kMemory = 0;

TensorKey key(std::uint64_t storage, const Sizes& shape = kShape, const Sizes& strides = kStrides) {
  return {storage, &kMemory, DType::float32, true, strides[1] == 1, 48, shape, strides};
}

Content content(std::uint64_t id) {
  Content c;
  c.id = id;
  c.has_statistics = true;
  return c;
}

// Reads twice without a write in between.
void insert(ContentCache& cache, const TensorKey& key, Content content) {
  cache.insert(key, std::move(content), cache.find(key).epoch);
}

TEST(ContentCache, WhatWasReadOnceIsFoundAgain) {
  ContentCache cache;
  insert(cache, key(7), content(1));
  ASSERT_NE(cache.find(key(7)).same, nullptr);
  EXPECT_EQ(cache.find(key(7)).same->id, 1u);
  EXPECT_EQ(cache.find(key(8)).same, nullptr);
}

TEST(ContentCache, AWriteMakesItUnknown) {
  ContentCache cache;
  insert(cache, key(7), content(1));
  cache.wrote(7, 42);
  const ContentCache::Found found = cache.find(key(7));
  EXPECT_EQ(found.same, nullptr);
  EXPECT_TRUE(cache.is_written(7));
  EXPECT_EQ(cache.origin_of({7, 1, 1}).sequence, 42u);
}

TEST(ContentCache, ATransposedViewSharesStatisticsButIsAnotherFile) {
  ContentCache cache;
  insert(cache, key(7), content(1));
  const ContentCache::Found found = cache.find(key(7, kTurnedShape, kTurnedStrides));
  EXPECT_EQ(found.same, nullptr);
  ASSERT_NE(found.same_set, nullptr);
  EXPECT_EQ(found.same_set->id, 1u);
}

TEST(ContentCache, ViewsWithGapsShareStatisticsIfTheyHaveTheSameElements) {
  ContentCache cache;
  const std::array<std::int64_t, 3> shape{2, 100, 256}, strides{76800, 768, 1};
  TensorKey part{7, &kMemory, DType::float32, false, false, 204800, shape, strides};
  insert(cache, part, content(1));
  const std::array<std::int64_t, 4> heads{2, 4, 100, 64}, of_heads{76800, 64, 768, 1};
  TensorKey turned = part;
  turned.shape = heads;
  turned.strides = of_heads;
  EXPECT_EQ(cache.find(turned).same, nullptr);
  ASSERT_NE(cache.find(turned).same_set, nullptr);
  EXPECT_EQ(cache.find(turned).same_set->id, 1u);
  const std::array<std::int64_t, 4> others{76800, 128, 768, 1};  // every second group of 64 columns
  turned.strides = others;
  EXPECT_EQ(cache.find(turned).same_set, nullptr);
}

TEST(ContentCache, AViewOfOtherBytesIsNotTheSame) {
  ContentCache cache;
  insert(cache, key(7), content(1));
  TensorKey part = key(7);
  part.bytes = 24;
  EXPECT_EQ(cache.find(part).same, nullptr);
  EXPECT_EQ(cache.find(part).same_set, nullptr);
  TensorKey other_type = key(7);
  other_type.dtype = DType::int32;
  EXPECT_EQ(cache.find(other_type).same, nullptr);
  EXPECT_EQ(cache.find(other_type).same_set, nullptr);
}

TEST(ContentCache, MemoryOfUnknownOwnersIsNeverTheSame) {
  ContentCache cache;
  insert(cache, key(0), content(1));
  EXPECT_EQ(cache.find(key(0)).same, nullptr);
  EXPECT_EQ(cache.size(), 0u);
}

TEST(ContentCache, WhatNoRecentStepTouchedIsForgotten) {
  ContentCache cache;
  insert(cache, key(7), content(1));
  insert(cache, key(8), content(2));
  for (int step = 0; step < 20; ++step) {
    EXPECT_NE(cache.find(key(8)).same, nullptr);
    cache.end_step();
  }
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_EQ(cache.find(key(7)).same, nullptr);
}

TEST(ContentCache, ContentsAreForgottenAfterTwoStepsThatDidNotTouchTheMemory) {
  ContentCache cache;
  insert(cache, key(7), content(1));
  cache.set_finite(7, &kMemory, 4, cache.epoch(7));
  for (int step = 0; step < 3; ++step) cache.end_step();
  EXPECT_FALSE(cache.known_finite(7, &kMemory, 4));
  EXPECT_EQ(cache.find(key(7)).same, nullptr);
  EXPECT_EQ(cache.find(key(7)).same, nullptr);
}

TEST(ContentCache, StoragesThatTakeThePlaceOfOthersKnowNothingOfThem) {
  ContentCache cache;
  for (std::uint64_t id = 1; id <= 3000; ++id) {  // the table grows, and its objects are used again and again
    cache.wrote(id, id);
    insert(cache, key(id), content(id));
    if (id > 1000) cache.forget(id - 1000);
  }
  EXPECT_EQ(cache.size(), 1000u);
  for (std::uint64_t id = 1; id <= 3000; ++id) {
    const Content* same = cache.find(key(id)).same;
    EXPECT_EQ(same != nullptr ? same->id : 0, id > 2000 ? id : 0);
    EXPECT_EQ(cache.is_written(id), id > 2000);
  }
}

TEST(ContentCache, WhoWroteMemoryIsKnownAsLongAsItLives) {
  ContentCache cache;
  cache.wrote(7, 10);
  insert(cache, key(7), content(1));
  for (int step = 0; step < 5; ++step) cache.end_step();  // as a replay buffer would
  EXPECT_EQ(cache.find(key(7)).same, nullptr);
  EXPECT_TRUE(cache.is_written(7));
  EXPECT_EQ(cache.origin_of({7, 1, 1}).sequence, 10u);
  cache.forget(7);
  EXPECT_EQ(cache.size(), 0u);
}

// A block of 8 rows of 8 floats, and a view of it.
struct Block {
  alignas(8) std::array<std::byte, 256> bytes{};

  void allocate(ContentCache& cache, std::uint64_t kept = 0) { cache.allocated(7, bytes.data(), bytes.size(), kept); }
  TensorKey rows(const Sizes& shape, std::size_t row, std::size_t column = 0) const {
    static constexpr Sizes kRows = {8, 1};
    return {7, bytes.data() + 32 * row + 4 * column, DType::float32, shape[1] == 8, shape[1] == 8, 0, shape, kRows};
  }
};

constexpr Sizes kAll = {8, 8}, kHalf = {4, 8}, kColumns = {8, 4}, kOneRow = {1, 8};

TEST(ContentCache, FreshMemoryIsUnwrittenUntilAllOfItIsWritten) {
  ContentCache cache;
  Block block;
  block.allocate(cache);
  EXPECT_TRUE(cache.find(block.rows(kAll, 0)).uninitialised);
  cache.wrote(7, block.rows(kHalf, 0), 10);
  EXPECT_FALSE(cache.find(block.rows(kHalf, 0)).uninitialised);
  EXPECT_TRUE(cache.find(block.rows(kHalf, 4)).uninitialised);
  EXPECT_TRUE(cache.find(block.rows(kHalf, 2)).uninitialised);  // a part of it
  cache.wrote(7, block.rows(kHalf, 4), 11);
  EXPECT_FALSE(cache.find(block.rows(kAll, 0)).uninitialised);
  block.allocate(cache);
  cache.wrote(7, 12);
  EXPECT_FALSE(cache.find(block.rows(kAll, 0)).uninitialised);
}

TEST(ContentCache, RowsMayBeWrittenInAnyOrder) {
  ContentCache cache;
  Block block;
  block.allocate(cache);
  for (const std::size_t row : {6, 0, 3, 1, 7, 2, 5}) cache.wrote(7, block.rows(kOneRow, row), 10);
  EXPECT_TRUE(cache.find(block.rows(kAll, 0)).uninitialised);
  EXPECT_FALSE(cache.find(block.rows(kHalf, 0)).uninitialised);
  cache.wrote(7, block.rows(kOneRow, 4), 10);
  EXPECT_FALSE(cache.find(block.rows(kAll, 0)).uninitialised);
}

TEST(ContentCache, ColumnsAreWrittenWithoutThoseBesideThem) {
  ContentCache cache;
  Block block;
  block.allocate(cache);
  cache.wrote(7, block.rows(kColumns, 0, 0), 10);
  EXPECT_FALSE(cache.find(block.rows(kColumns, 0, 0)).uninitialised);
  EXPECT_TRUE(cache.find(block.rows(kColumns, 0, 4)).uninitialised);
  EXPECT_TRUE(cache.find(block.rows(kAll, 0)).uninitialised);
  cache.wrote(7, block.rows(kColumns, 0, 4), 11);
  EXPECT_FALSE(cache.find(block.rows(kAll, 0)).uninitialised);
}

TEST(ContentCache, AViewThatRepeatsElementsReadsEachOfThemOnce) {
  ContentCache cache;
  Block block;
  block.allocate(cache);
  cache.wrote(7, block.rows(kOneRow, 0), 10);
  static constexpr Sizes kRepeated = {1000000, 8}, kStill = {0, 1};
  TensorKey repeated = block.rows(kRepeated, 0);
  repeated.strides = kStill;
  EXPECT_FALSE(cache.find(repeated).uninitialised);
  repeated.data = block.bytes.data() + 32;
  EXPECT_TRUE(cache.find(repeated).uninitialised);
}

TEST(ContentCache, MemoryThatHasGrownKeepsItsFirstBytes) {
  ContentCache cache;
  Block block;
  block.allocate(cache, 128);
  EXPECT_FALSE(cache.find(block.rows(kHalf, 0)).uninitialised);
  EXPECT_TRUE(cache.find(block.rows(kHalf, 4)).uninitialised);
}

TEST(ContentCache, MemoryWrittenInTooManyPiecesCountsAsWritten) {
  ContentCache cache;
  std::vector<float> memory(2000);
  cache.allocated(7, reinterpret_cast<const std::byte*>(memory.data()), memory.size() * sizeof(float));
  static constexpr std::array<std::int64_t, 1> kOne = {1}, kLast = {2000}, kStep = {1};
  const auto at = [&](std::size_t i, const std::array<std::int64_t, 1>& shape) {
    return TensorKey{7, &memory[i], DType::float32, true, true, 0, shape, kStep};
  };
  for (std::size_t i = 0; i < 400; i += 2) cache.wrote(7, at(i, kOne), 10);
  EXPECT_TRUE(cache.find(at(0, kLast)).uninitialised);
  for (std::size_t i = 400; i < 1600; i += 2) cache.wrote(7, at(i, kOne), 10);
  EXPECT_FALSE(cache.find(at(0, kLast)).uninitialised);
}

TEST(ContentCache, UnwrittenMemoryIsKnownOfATensorThatIsNeverTheSame) {
  ContentCache cache;
  Block block;
  TensorKey foreign = block.rows(kAll, 0);
  foreign.storage = 0;
  EXPECT_FALSE(cache.is_unwritten(7, foreign));
  block.allocate(cache);
  EXPECT_TRUE(cache.is_unwritten(7, foreign));
  cache.wrote(7, foreign, 10);
  EXPECT_FALSE(cache.is_unwritten(7, foreign));
}

// Views in storage 7: `object` distinguishes views while the host's object lives, `geometry` their place and layout.
ViewIdentity view(std::uint64_t object, std::uint64_t geometry) { return {7, object, geometry}; }

TEST(ContentCache, ATensorComesFromTheOpThatWroteItsMemoryLast) {
  ContentCache cache;
  cache.wrote(7, 10);
  cache.made(view(1, 1), {10, 2});
  EXPECT_EQ(cache.origin_of(view(1, 1)).sequence, 10u);
  EXPECT_EQ(cache.origin_of(view(1, 1)).slot, 2u);
  EXPECT_EQ(cache.origin_of(view(5, 5)).sequence, 10u);  // a view whose op was not observed
  EXPECT_EQ(cache.origin_of(view(5, 5)).slot, 2u);
  cache.wrote(7, 11);
  EXPECT_EQ(cache.origin_of(view(1, 1)).sequence, 11u);
}

TEST(ContentCache, AViewComesFromTheOpThatMadeItAndItsBaseDoesNot) {
  ContentCache cache;
  cache.wrote(7, 10);
  cache.made(view(1, 1), {10, 0});
  cache.made(view(2, 1), {12, 0});  // has the layout of its base
  EXPECT_EQ(cache.origin_of(view(2, 1)).sequence, 12u);
  EXPECT_EQ(cache.origin_of(view(1, 1)).sequence, 10u);
  cache.wrote(7, 13);  // through one of them: both hold what this op wrote
  EXPECT_EQ(cache.origin_of(view(2, 1)).sequence, 13u);
}

TEST(ContentCache, EachOfTheHundredsOfViewsOfASequenceKnowsWhoMadeIt) {
  ContentCache cache;
  cache.wrote(7, 10);
  cache.made(view(1, 1), {10, 0});
  for (std::uint32_t i = 0; i < 500; ++i) cache.made(view(100 + i, 100 + i), {11, i});
  for (std::uint32_t i = 0; i < 500; ++i) {
    EXPECT_EQ(cache.origin_of(view(100 + i, 100 + i)).sequence, 11u) << i;
    EXPECT_EQ(cache.origin_of(view(100 + i, 100 + i)).slot, i);
  }
}

TEST(ContentCache, AParameterThatAViewWasMadeOfIsStillAParameter) {
  ContentCache cache;
  EXPECT_EQ(cache.origin_of(view(1, 1)).sequence, kNoSequence);  // read by the op that makes the view
  cache.made(view(2, 1), {12, 0});
  EXPECT_EQ(cache.origin_of(view(1, 1)).sequence, kNoSequence);
  EXPECT_EQ(cache.origin_of(view(3, 1)).sequence, 12u);  // saved for backward: another object, the same view
}

TEST(ContentCache, WhatAnOpWroteInsideIsNotWhereItsOwnInputComesFrom) {
  ContentCache cache;
  cache.wrote(7, 10);
  cache.made(view(1, 1), {10, 0});
  cache.made(view(2, 1), {11, 0});
  cache.wrote(7, 12);
  EXPECT_EQ(cache.origin_of(view(2, 1), 12).sequence, 11u);
  EXPECT_EQ(cache.origin_of(view(2, 1)).sequence, 12u);
}

TEST(ContentCache, TensorsWithoutMemoryAreKnownByTheirObject) {
  ContentCache cache;
  cache.made({0, 4, 9}, {3, 1});
  EXPECT_EQ(cache.origin_of({0, 4, 9}).sequence, 3u);
  EXPECT_EQ(cache.origin_of({0, 4, 8}).sequence, kNoSequence);  // another tensor at that address
  EXPECT_EQ(cache.origin_of({0, 5, 9}).sequence, kNoSequence);
}

TEST(ContentCache, OriginsOutliveBytesThatMayHaveChanged) {
  ContentCache cache;
  cache.wrote(7, 10);
  insert(cache, key(7), content(1));
  cache.forget_contents();
  EXPECT_EQ(cache.find(key(7)).same, nullptr);
  EXPECT_EQ(cache.origin_of(view(1, 1)).sequence, 10u);
}

TEST(ContentCache, WhatWasWrittenWhileItWasReadIsNotKnown) {
  ContentCache cache;
  const auto read = [&](auto write) {
    const std::uint64_t epoch = cache.find(key(7)).epoch;
    write();
    cache.insert(key(7), content(1), epoch);
    return cache.find(key(7)).same != nullptr;
  };
  EXPECT_TRUE(read([] {}));
  EXPECT_FALSE(read([&] { cache.wrote(7, 10); }));
  EXPECT_FALSE(read([&] { cache.clear(); }));
  cache.clear();  // even with no known facts about the memory
  EXPECT_FALSE(read([&] { cache.wrote(7, 10); }));
  EXPECT_FALSE(read([&] {
    cache.wrote(7, 10);
    cache.clear();
  }));
  EXPECT_TRUE(read([&] { cache.wrote(8, 11); }));
}

}  // namespace
}  // namespace sonde
