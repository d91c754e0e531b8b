#include "dump/journal/block.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

namespace sonde {
namespace {

using std::chrono::milliseconds;

TEST(BlockPool, GivesAlignedMemoryOfAtLeastTheSizeAskedFor) {
  BlockPool pool(64 << 20);
  for (const std::size_t bytes : {0, 1, 255, 256, 257, 4097, 65535, 65536, 65537, 5000000}) {
    const BlockPtr block = pool.take(bytes);
    ASSERT_TRUE(block);
    EXPECT_EQ(block->bytes, bytes);
    EXPECT_GE(block->capacity, bytes);
    EXPECT_LE(block->capacity, bytes + bytes / 4 + 256);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block->data) % 64, 0U);
    std::memset(block->data, 1, block->capacity);
  }
  EXPECT_EQ(pool.in_flight_bytes(), 0U);
}

TEST(BlockPool, ASharedBlockIsFreeWhenBothPointersAreGone) {
  BlockPool pool(64 << 20);
  BlockPtr first = pool.take(1000);
  std::memset(first->data, 7, 1000);
  BlockPtr second = BlockPool::share(first);
  EXPECT_EQ(second->data, first->data);
  const std::uint64_t used = pool.in_flight_bytes();
  first.reset();
  EXPECT_EQ(pool.in_flight_bytes(), used);
  EXPECT_NE(pool.take(1000)->data, second->data);
  EXPECT_EQ(std::to_integer<int>(second->data[999]), 7);
  second.reset();
  EXPECT_EQ(pool.in_flight_bytes(), 0U);
  const BlockPtr third = pool.take(1000), fourth = pool.take(1000);
  EXPECT_NE(third->data, fourth->data) << "it is on the list of free blocks once";
}

TEST(BlockPool, BlocksInUseNeverOverlap) {
  BlockPool pool(64 << 20);
  std::vector<BlockPtr> blocks;
  for (std::size_t i = 0; i < 3000; ++i) {
    blocks.push_back(pool.take(1 + i * 37 % 9000));
    std::memset(blocks.back()->data, static_cast<int>(i % 251), blocks.back()->capacity);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(std::to_integer<std::size_t>(blocks[i]->data[0]), i % 251);
    EXPECT_EQ(std::to_integer<std::size_t>(blocks[i]->data[blocks[i]->capacity - 1]), i % 251);
  }
}

TEST(BlockPool, UsesTheSamePagesAgain) {
  BlockPool pool(64 << 20);
  const std::byte* first = pool.take(1 << 20)->data;
  EXPECT_EQ(pool.take((1 << 20) - 100)->data, first);
}

TEST(BlockPool, RefusesWithoutWaitingWhenThereIsNoRoom) {
  BlockPool pool(1 << 20);
  const BlockPtr held = pool.take(1 << 20);
  EXPECT_FALSE(pool.try_take(1));
}

TEST(BlockPool, LetsATensorBeyondTheBudgetThroughAlone) {
  BlockPool pool(1 << 20);
  EXPECT_TRUE(pool.try_take(4 << 20));
  const BlockPtr held = pool.take(1000);
  EXPECT_FALSE(pool.try_take(4 << 20));
}

TEST(BlockPool, WaitsForTheWriterWhenTheBudgetIsFull) {
  BlockPool pool(1 << 20);
  BlockPtr held = pool.take(1 << 20);
  pool.hand_to_writer(*held);
  std::atomic<bool> got{false};
  std::thread host([&] {
    const BlockPtr block = pool.take(1000);
    got = true;
  });
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_FALSE(got.load());
  held.reset();
  host.join();
  EXPECT_TRUE(got.load());
  EXPECT_GT(pool.waited_us(), 0U);
}

TEST(BlockPool, NeverWaitsForBlocksThatOnlyTheHostHolds) {
  BlockPool pool(1 << 20);
  std::vector<BlockPtr> one_large_op;
  for (int i = 0; i < 8; ++i) one_large_op.push_back(pool.take(1 << 20));  // would hang otherwise
  EXPECT_EQ(one_large_op.size(), 8U);
  EXPECT_TRUE(one_large_op.back());
}

TEST(BlockPool, CloseWakesWhoWaits) {
  BlockPool pool(1 << 20);
  const BlockPtr held = pool.take(1 << 20);
  pool.hand_to_writer(*held);
  BlockPtr got = pool.try_take(0);
  std::thread host([&] { got = pool.take(1000); });
  std::this_thread::sleep_for(milliseconds(5));
  pool.close();
  host.join();
  EXPECT_FALSE(got);
  EXPECT_FALSE(pool.take(1));
}

TEST(BlockPool, ServesAnySizesFromThePagesOfEarlierOnes) {
  BlockPool pool(64 << 20);
  const auto fill = [&](std::size_t bytes) {
    std::vector<BlockPtr> blocks;
    for (std::size_t left = 44 << 20; left >= bytes + kHeadroom; left -= bytes + kHeadroom) {
      blocks.push_back(pool.take(bytes));
    }
  };
  fill(100'000);
  const std::uint64_t mapped = pool.mapped_bytes();
  for (const std::size_t bytes : {1'000'000, 3'000'000, 777'777, 20'000'000}) fill(bytes);
  EXPECT_EQ(pool.mapped_bytes(), mapped);
}

TEST(BlockPool, LargeBlocksBeginAtAPageWithRoomForAHeader) {
  BlockPool pool(8 << 20);
  for (const std::size_t bytes : {70'000, 1'000'000, 30'000'000}) {  // the last one beyond the budget
    const BlockPtr block = pool.take(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block->page) % 4096, 0U);
    EXPECT_EQ(block->data, block->page + kHeadroom);
    EXPECT_EQ((block->capacity + kHeadroom) % 4096, 0U);
    std::memset(block->page, 1, block->capacity + kHeadroom);
  }
  EXPECT_LE(pool.mapped_bytes(), 10U << 20) << "the block beyond the budget was given back";
}

TEST(BlockPool, IsCrowdedWhenMoreThanHalfOfTheBudgetIsInUse) {
  BlockPool pool(8 << 20);
  const BlockPtr first = pool.take(3 << 20);
  EXPECT_FALSE(pool.is_crowded());
  BlockPtr second = pool.take(2 << 20);
  EXPECT_TRUE(pool.is_crowded());
  second.reset();
  EXPECT_FALSE(pool.is_crowded());
}

TEST(BlockPool, KeepsLittleMoreThanTheBudgetMapped) {
  BlockPool pool(8 << 20);
  // Every size once: without giving free blocks back this maps 8 times the budget.
  for (std::size_t bytes = 1 << 20; bytes <= 8 << 20; bytes += 64 << 10) {
    const BlockPtr block = pool.take(bytes);
    ASSERT_TRUE(block);
    std::memset(block->data, 1, bytes);
  }
  EXPECT_EQ(pool.in_flight_bytes(), 0U);
  EXPECT_LE(pool.mapped_bytes(), 10U << 20);
}

}  // namespace
}  // namespace sonde
