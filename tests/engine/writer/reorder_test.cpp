#include "record/writer/reorder.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace sonde {
namespace {

void settle(Reorder& reorder, std::uint64_t sequence) {
  Reorder::Entry* entry = reorder.at(sequence);
  ASSERT_NE(entry, nullptr) << sequence;
  entry->settled = true;
  entry->record.emplace().sequence = sequence;
}

std::vector<std::uint64_t> ready(Reorder& reorder, bool force = false) {
  std::vector<std::uint64_t> sequences;
  while (reorder.next(force) != nullptr) sequences.push_back(reorder.pop().record->sequence);
  return sequences;
}

TEST(Reorder, RecordsComeInOrderHoweverManyWait) {
  Reorder reorder;
  std::vector<std::uint64_t> all;
  std::uint64_t first = 0;
  for (const std::uint64_t waiting : {3, 20, 7, 300, 5, 40, 300, 2}) {  // the ring grows, and goes round
    for (std::uint64_t sequence = first + waiting - 1; sequence > first; --sequence) settle(reorder, sequence);
    EXPECT_TRUE(ready(reorder).empty());
    settle(reorder, first);
    for (const std::uint64_t sequence : ready(reorder)) all.push_back(sequence);
    first += waiting;
  }
  ASSERT_EQ(all.size(), first);
  for (std::uint64_t sequence = 0; sequence < first; ++sequence) EXPECT_EQ(all[sequence], sequence);
}

TEST(Reorder, AGapIsSkippedOnRequestAndItsRecordIsLate) {
  Reorder reorder;
  settle(reorder, 1);
  settle(reorder, 3);
  EXPECT_TRUE(ready(reorder).empty());
  EXPECT_EQ(ready(reorder, true), (std::vector<std::uint64_t>{1, 3}));
  EXPECT_EQ(reorder.at(2), nullptr);
  EXPECT_EQ(reorder.waiting(4), nullptr);
}

TEST(Reorder, SkippedRecordsAreNotWaitedFor) {
  Reorder reorder;
  settle(reorder, 5);
  reorder.skip(0, 5);
  EXPECT_EQ(ready(reorder), (std::vector<std::uint64_t>{5}));
  reorder.skip(6, 1'000'000'000);  // none waits: a jump
  settle(reorder, 1'000'000'000);
  EXPECT_NE(reorder.waiting(1'000'000'000), nullptr);
  reorder.clear();
  EXPECT_EQ(reorder.waiting(1'000'000'000), nullptr);
}

}  // namespace
}  // namespace sonde
