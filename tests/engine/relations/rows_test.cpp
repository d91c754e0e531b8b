// Engines that work on a few tokens in each step, beside one pass over whole sequences.
#include <cstddef>
#include <optional>
#include <string>

#include "ask/relations/rows_apart.h"
#include "relations/networks.h"

namespace sonde {
namespace {

constexpr std::size_t kSequences = 2, kLength = 4, kSize = 8;
constexpr const char* kEngine = "Default/engine";

Values embedded() { return numbers(kSequences * kLength * kSize, 71); }
Values angles() { return numbers(kLength * kSize, 72); }
Values last_weight() { return numbers(kSize * kSize, 73); }

Values rows_of(const Values& all, std::size_t first, std::size_t count) {
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first * kSize);
  return {begin, begin + static_cast<std::ptrdiff_t>(count * kSize)};
}

Program::Ref weight() { return Program::parameter("weight", last_weight(), "(8,8)"); }
Program::Ref tokens() { return Program::parameter("data-0", {1, 2}, "(2)"); }

// The embedding of each token, turned by the angles of its position.
void add_turned(Program& golden) {
  Values turned = both(embedded(), angles(), product);
  auto x = golden.add("embedding", {tokens()}, embedded(), "(2,4,8)");
  auto turn = golden.add("angles", {}, angles(), "(4,8)");
  auto one = golden.add("mul", {x, turn}, turned, "(2,4,8)");
  golden.add("linear", {one, weight()}, linear(turned, last_weight(), kSize), "(2,4,8)");
}

// One token of each sequence in a step. `late`: by how much the positions are too high from the second step on.
void add_turned_by_tokens(Program& engine, std::size_t late) {
  for (std::size_t t = 0; t < 3; ++t) {
    if (t > 0) engine.next_step();
    const std::size_t position = t == 0 ? 0 : t + late;
    const Values x = joined(rows_of(embedded(), t, 1), rows_of(embedded(), kLength + t, 1));
    const Values turn = joined(rows_of(angles(), position, 1), rows_of(angles(), position, 1));
    const Values turned = both(x, turn, product);
    auto given = engine.add("embedding", {tokens()}, x, "(2,8)", kEngine);
    auto at = engine.add("own_angles", {Program::parameter("data-1", {1, 2, 3}, "(3)")}, turn, "(2,8)", kEngine);
    auto one = engine.add("own_mul", {given, at}, turned, "(2,8)", kEngine);
    engine.add("own_linear", {one, weight()}, linear(turned, last_weight(), kSize), "(2,8)", kEngine);
  }
}

TEST(RelationsOfRows, ATokenWithThePositionOfTheNextOneIsNamedWithBothNumbers) {
  Program golden, healthy, engine;
  add_turned(golden);
  add_turned_by_tokens(healthy, 0);
  add_turned_by_tokens(engine, 1);
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const DumpComparison comparison = related(engine, golden);
  EXPECT_EQ(answer(comparison),
            "own_angles (uncertain): gives position 2 to the token of row 0, which is number 1 of its sequence");
  EXPECT_EQ(comparison.findings.front().step, 1U);
}

// Adds up keys by their products with each query: enough of an attention for rows that may read the rows before them.
Values attention(const Values& queries, const Values& keys) {
  Values result;
  for (std::size_t row = 0; row < queries.size() / kSize; ++row) {
    Values sums(kSize);
    for (std::size_t key = 0; key < keys.size() / kSize; ++key) {
      float score = 0;
      for (std::size_t i = 0; i < kSize; ++i) score += queries[row * kSize + i] * keys[key * kSize + i];
      for (std::size_t i = 0; i < kSize; ++i) sums[i] += score * keys[key * kSize + i];
    }
    result = joined(result, sums);
  }
  return result;
}

// Keys of two sequences, by tokens, joined with those in the cache. `is_stale`: in the place of the key of the step before it
// has what was there.
void add_cached_keys(Program& engine, bool is_stale) {
  const auto keys_of = [](std::size_t first, std::size_t count) {
    const Values keys = linear(embedded(), last_weight(), kSize);
    return joined(rows_of(keys, first, count), rows_of(keys, kLength + first, count));
  };
  Program::Ref kept;
  for (std::size_t t = 0; t < kLength; ++t) {
    if (t > 0) engine.next_step();
    const Values x = joined(rows_of(embedded(), t, 1), rows_of(embedded(), kLength + t, 1));
    auto given = engine.add("embedding", {tokens()}, x, "(2,1,8)", kEngine);
    auto key = engine.add("own_linear", {given, weight()}, keys_of(t, 1), "(2,1,8)", kEngine);
    const bool is_lost = is_stale && t == 3;
    Values all = keys_of(0, t + 1);
    if (is_lost) {
      const Values own = linear(embedded(), last_weight(), kSize);
      all = {};
      for (const std::size_t row : {0, 1, 2, 3, 4, 5, 6, 7})
        all = joined(all, row % kLength == 2 ? numbers(kSize, 79) : rows_of(own, row, 1));
    }
    const std::string length = std::to_string(t + 1);
    kept = t == 0 ? key : engine.add("cat", {kept, key}, all, "(2," + length + ",8)", kEngine);
    Values sums(2 * kSize);
    for (std::size_t i = 0; i < all.size(); ++i) sums[i / (all.size() / 2) * kSize + i % kSize] += all[i] * all[i];
    auto one = engine.add("own_attention", {given, kept}, sums, "(2,1,8)", kEngine);
    engine.add("own_square", {one}, each(sums, square), "(2,1,8)", kEngine);
  }
}

void add_keys(Program& golden) {
  const Values keys = linear(embedded(), last_weight(), kSize);
  Values sums(keys.size());
  for (std::size_t row = 0; row < kSequences * kLength; ++row) {
    for (std::size_t other = row / kLength * kLength; other <= row; ++other) {
      for (std::size_t i = 0; i < kSize; ++i)
        sums[row * kSize + i] += keys[other * kSize + i] * keys[other * kSize + i];
    }
  }
  auto x = golden.add("embedding", {tokens()}, embedded(), "(2,4,8)");
  auto one = golden.add("linear", {x, weight()}, keys, "(2,4,8)");
  auto two = golden.add("attention", {x, one}, sums, "(2,4,8)");
  golden.add("square", {two}, each(sums, square), "(2,4,8)");
}

TEST(RelationsOfRows, AKeyThatTheCacheLacksIsNamedWhereTheCacheIsRead) {
  Program golden, healthy, engine;
  add_keys(golden);
  add_cached_keys(healthy, false);
  add_cached_keys(engine, true);
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const DumpComparison comparison = related(engine, golden);
  EXPECT_EQ(answer(comparison).substr(0, 4), "cat ") << answer(comparison);
  EXPECT_EQ(comparison.findings.front().step, 3U);
  OpFamilies families;
  Pool own(engine.catalog(), {}, families), other(golden.catalog(), {}, families);
  own.read(Threads(1));
  other.read(Threads(1));
  const RelationJudgement judgement = judge_relations(own, other, Threads(1), nullptr);
  const std::optional<std::uint32_t> first = RowsApart(own, other, judgement).first_expected(true);
  ASSERT_TRUE(first);
  EXPECT_EQ(own.catalog_op(*first).op_type, "cat");
}

void add_attention(Program& golden) {
  Values all;
  for (std::size_t row = 0; row < kSequences * kLength; ++row) {
    const std::size_t first = row / kLength * kLength;
    all = joined(all, attention(rows_of(embedded(), row, 1), rows_of(embedded(), first, row - first + 1)));
  }
  auto x = golden.add("embedding", {tokens()}, embedded(), "(2,4,8)");
  auto one = golden.add("scaled_dot_product_attention", {x, x, x}, all, "(2,4,8)");
  const Values y = linear(all, last_weight(), kSize);
  auto two = golden.add("linear", {one, weight()}, y, "(2,4,8)");
  golden.add("square", {two}, each(y, square), "(2,4,8)");
}

// The second sequence, token by token. In the last step a row of the first one is left in the cache.
void add_attention_by_tokens(Program& engine, bool is_stale) {
  for (std::size_t t = 0; t < 3; ++t) {
    if (t > 0) engine.next_step();
    Values keys = rows_of(embedded(), kLength, t + 1), x = rows_of(embedded(), kLength + t, 1);
    if (is_stale && t == 2) keys = joined(keys, rows_of(embedded(), 3, 1));
    const Values cache = joined(keys, numbers(3 * kSize, 74));
    const std::string count = std::to_string(keys.size() / kSize), all = std::to_string(cache.size() / kSize);
    const Values result = attention(x, keys);
    auto given = engine.add("embedding", {tokens()}, x, "(1,1,8)", kEngine);
    auto kept = engine.add("slice", {Program::parameter("cache", cache, "(1," + all + ",8)")}, keys,
                           "(1," + count + ",8)", kEngine);
    auto one = engine.add("scaled_dot_product_attention", {given, kept, kept}, result, "(1,1,8)", kEngine);
    const Values y = linear(result, last_weight(), kSize);
    auto two = engine.add("own_linear", {one, weight()}, y, "(1,1,8)", kEngine);
    engine.add("own_square", {two}, each(y, square), "(1,1,8)", kEngine);
  }
}

TEST(RelationsOfRows, KeysThatAnotherSequenceLeftInTheCacheAreNamedWhereTheyAreTaken) {
  Program golden, healthy, engine;
  add_attention(golden);
  add_attention_by_tokens(healthy, false);
  add_attention_by_tokens(engine, true);
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  EXPECT_EQ(answer(related(engine, golden)),
            "slice (uncertain): gives an attention of one sequence rows of golden sequence 0 beside those of 1");
}

TEST(RelationsOfRows, RowsOfEqualSumAndNormAreToldApartByTheirElements) {
  Values rows = numbers(6 * kSize, 75);
  for (std::size_t row = 0; row < 6; ++row) {  // two numbers decide all others
    for (std::size_t i = 0; i < kSize; ++i) {
      const std::size_t turn = (i + row) % kSize;
      rows[row * kSize + i] = turn == 0 ? 2.0F : turn == 1 ? -2.0F : turn % 2 == 0 ? 0.5F : -0.5F;
    }
  }
  Program golden, target;
  const Values y = linear(rows, last_weight(), kSize), part = rows_of(rows, 3, 3);
  auto x = golden.add("norm", {tokens()}, rows, "(6,8)");
  auto one = golden.add("linear", {x, weight()}, y, "(6,8)");
  golden.add("square", {one}, each(y, square), "(6,8)");
  auto given = target.add("own_norm", {tokens()}, part, "(3,8)", kEngine);
  target.add("own_roll", {}, {1}, "(1)", kEngine);
  target.add("own_view", {given}, part, "(3,8)", kEngine);
  target.add("own_linear", {given, weight()}, linear(part, last_weight(), kSize), "(3,8)", kEngine);
  target.add("own_number", {}, {2}, "(1)", kEngine);
  const DumpComparison comparison = related(target, golden);
  EXPECT_EQ(relation_of(comparison, "own_norm"), "cut: golden 3 to 5 of axis 0 of Default/net/norm-op0");
}

// Indices are made in another way in every step; then each step multiplies, and in one of them adds.
void add_steps(Program& engine, bool is_wrong) {
  for (std::size_t t = 0; t < 3; ++t) {
    if (t > 0) engine.next_step();
    const Values x = rows_of(embedded(), t, 1), own = numbers(kSize, static_cast<std::uint32_t>(80 + t));
    const Values turned = both(x, rows_of(angles(), t, 1), is_wrong && t == 1 ? sum : product);
    auto given = engine.add("embedding", {tokens()}, x, "(1,8)", kEngine);
    auto odd = engine.add("own_table", {Program::parameter("data-1", own, "(8)")}, each(own, square), "(8)", kEngine);
    auto one = engine.add("own_mul", {given, odd}, turned, "(1,8)", kEngine);
    engine.last().line = 7;
    engine.add("own_linear", {one, weight()}, linear(turned, last_weight(), kSize), "(1,8)", kEngine);
  }
}

TEST(RelationsOfRows, WhatCorrespondsInOtherStepsIsMeantRatherThanWhatNeverDoes) {
  Program golden, healthy, engine;
  add_turned(golden);
  add_steps(healthy, false);
  add_steps(engine, true);
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const DumpComparison comparison = related(engine, golden);
  ASSERT_FALSE(comparison.findings.empty());
  EXPECT_EQ(comparison.findings.front().step, 1U);
  EXPECT_NE(answer(comparison).find("own_mul"), std::string::npos) << answer(comparison);
}

}  // namespace
}  // namespace sonde
