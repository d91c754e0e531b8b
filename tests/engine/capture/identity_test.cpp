#include "capture/identity.h"

#include <gtest/gtest.h>

#include <array>
#include <utility>

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

// Reads without anything in between.
void insert(Identity& identity, const TensorKey& key, Content content) {
  identity.insert(key, std::move(content), identity.find(key).epoch);
}

TEST(Identity, WhatWasReadOnceIsFoundAgain) {
  Identity identity;
  insert(identity, key(7), content(1));
  ASSERT_NE(identity.find(key(7)).same, nullptr);
  EXPECT_EQ(identity.find(key(7)).same->id, 1u);
  EXPECT_EQ(identity.find(key(8)).same, nullptr);
}

TEST(Identity, AWriteMakesItUnknown) {
  Identity identity;
  insert(identity, key(7), content(1));
  identity.wrote(7, 42);
  const Identity::Found found = identity.find(key(7));
  EXPECT_EQ(found.same, nullptr);
  EXPECT_TRUE(found.written);
  EXPECT_EQ(identity.origin_of({7, 1, 1}).sequence, 42u);
}

TEST(Identity, ATransposedViewSharesStatisticsButIsAnotherFile) {
  Identity identity;
  insert(identity, key(7), content(1));
  const Identity::Found found = identity.find(key(7, kTurnedShape, kTurnedStrides));
  EXPECT_EQ(found.same, nullptr);
  ASSERT_NE(found.same_set, nullptr);
  EXPECT_EQ(found.same_set->id, 1u);
}

TEST(Identity, AViewOfOtherBytesIsNotTheSame) {
  Identity identity;
  insert(identity, key(7), content(1));
  TensorKey part = key(7);
  part.bytes = 24;
  EXPECT_EQ(identity.find(part).same, nullptr);
  EXPECT_EQ(identity.find(part).same_set, nullptr);
  TensorKey other_type = key(7);
  other_type.dtype = DType::int32;
  EXPECT_EQ(identity.find(other_type).same, nullptr);
  EXPECT_EQ(identity.find(other_type).same_set, nullptr);
}

TEST(Identity, MemoryOfUnknownOwnersIsNeverTheSame) {
  Identity identity;
  insert(identity, key(0), content(1));
  EXPECT_EQ(identity.find(key(0)).same, nullptr);
  EXPECT_EQ(identity.size(), 0u);
}

TEST(Identity, WhatNoRecentStepTouchedIsForgotten) {
  Identity identity;
  insert(identity, key(7), content(1));
  insert(identity, key(8), content(2));
  for (int step = 0; step < 4; ++step) {
    EXPECT_NE(identity.find(key(8)).same, nullptr);
    identity.end_step();
  }
  EXPECT_EQ(identity.find(key(7)).same, nullptr);
  EXPECT_EQ(identity.size(), 1u);
}

TEST(Identity, WhoWroteMemoryIsKnownAsLongAsItLives) {
  Identity identity;
  identity.wrote(7, 10);
  insert(identity, key(7), content(1));
  for (int step = 0; step < 5; ++step) identity.end_step();  // a replay buffer, say
  EXPECT_EQ(identity.find(key(7)).same, nullptr);
  EXPECT_TRUE(identity.find(key(7)).written);
  EXPECT_EQ(identity.origin_of({7, 1, 1}).sequence, 10u);
  identity.forget(7);
  EXPECT_EQ(identity.size(), 0u);
}

// Places in storage 7: `object` tells views apart while the host's object lives, `geometry` where and how they lie.
Place place(std::uint64_t object, std::uint64_t geometry) { return {7, object, geometry}; }

TEST(Identity, ATensorComesFromTheOpThatWroteItsMemoryLast) {
  Identity identity;
  identity.wrote(7, 10);
  identity.made(place(1, 1), {10, 2});
  EXPECT_EQ(identity.origin_of(place(1, 1)).sequence, 10u);
  EXPECT_EQ(identity.origin_of(place(1, 1)).slot, 2u);
  EXPECT_EQ(identity.origin_of(place(5, 5)).sequence, 10u);  // a view nobody was seen to make
  EXPECT_EQ(identity.origin_of(place(5, 5)).slot, 2u);
  identity.wrote(7, 11);
  EXPECT_EQ(identity.origin_of(place(1, 1)).sequence, 11u);
}

TEST(Identity, AViewComesFromTheOpThatMadeItAndItsBaseDoesNot) {
  Identity identity;
  identity.wrote(7, 10);
  identity.made(place(1, 1), {10, 0});
  identity.made(place(2, 1), {12, 0});  // lies as its base does
  EXPECT_EQ(identity.origin_of(place(2, 1)).sequence, 12u);
  EXPECT_EQ(identity.origin_of(place(1, 1)).sequence, 10u);
  identity.wrote(7, 13);  // through one of them: both hold what this op wrote
  EXPECT_EQ(identity.origin_of(place(2, 1)).sequence, 13u);
}

TEST(Identity, EachOfTheHundredsOfViewsOfASequenceKnowsWhoMadeIt) {
  Identity identity;
  identity.wrote(7, 10);
  identity.made(place(1, 1), {10, 0});
  for (std::uint32_t i = 0; i < 500; ++i) identity.made(place(100 + i, 100 + i), {11, i});
  for (std::uint32_t i = 0; i < 500; ++i) {
    EXPECT_EQ(identity.origin_of(place(100 + i, 100 + i)).sequence, 11u) << i;
    EXPECT_EQ(identity.origin_of(place(100 + i, 100 + i)).slot, i);
  }
}

TEST(Identity, AParameterThatAViewWasMadeOfIsStillAParameter) {
  Identity identity;
  EXPECT_EQ(identity.origin_of(place(1, 1)).sequence, kNoSequence);  // read by the op that makes the view
  identity.made(place(2, 1), {12, 0});
  EXPECT_EQ(identity.origin_of(place(1, 1)).sequence, kNoSequence);
  EXPECT_EQ(identity.origin_of(place(3, 1)).sequence, 12u);  // saved for backward: another object, the same view
}

TEST(Identity, WhatAnOpWroteInsideIsNotWhereItsOwnInputComesFrom) {
  Identity identity;
  identity.wrote(7, 10);
  identity.made(place(1, 1), {10, 0});
  identity.made(place(2, 1), {11, 0});
  identity.wrote(7, 12);
  EXPECT_EQ(identity.origin_of(place(2, 1), 12).sequence, 11u);
  EXPECT_EQ(identity.origin_of(place(2, 1)).sequence, 12u);
}

TEST(Identity, TensorsWithoutMemoryAreKnownByTheirObject) {
  Identity identity;
  identity.made({0, 4, 9}, {3, 1});
  EXPECT_EQ(identity.origin_of({0, 4, 9}).sequence, 3u);
  EXPECT_EQ(identity.origin_of({0, 4, 8}).sequence, kNoSequence);  // another tensor at that address
  EXPECT_EQ(identity.origin_of({0, 5, 9}).sequence, kNoSequence);
}

TEST(Identity, OriginsOutliveBytesThatMayHaveChanged) {
  Identity identity;
  identity.wrote(7, 10);
  insert(identity, key(7), content(1));
  identity.forget_contents();
  EXPECT_EQ(identity.find(key(7)).same, nullptr);
  EXPECT_EQ(identity.origin_of(place(1, 1)).sequence, 10u);
}

TEST(Identity, WhatWasWrittenWhileItWasReadIsNotKnown) {
  Identity identity;
  const auto read = [&](auto write) {
    const std::uint64_t epoch = identity.find(key(7)).epoch;
    write();
    identity.insert(key(7), content(1), epoch);
    return identity.find(key(7)).same != nullptr;
  };
  EXPECT_TRUE(read([] {}));
  EXPECT_FALSE(read([&] { identity.wrote(7, 10); }));
  EXPECT_FALSE(read([&] { identity.clear(); }));
  identity.clear();  // and where nothing is known of the memory yet
  EXPECT_FALSE(read([&] { identity.wrote(7, 10); }));
  EXPECT_FALSE(read([&] {
    identity.wrote(7, 10);
    identity.clear();
  }));
  EXPECT_TRUE(read([&] { identity.wrote(8, 11); }));
}

}  // namespace
}  // namespace sonde
