// Results and weights that are right although nothing golden is like them: they are not to blame.
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "ask/relations/partial_weights.h"
#include "relations/networks.h"

namespace sonde {
namespace {

Values normed_rows(Values x, std::size_t width) {
  for (std::size_t row = 0; row < x.size(); row += width) {
    float mean = 0, squares = 1e-5F;
    for (std::size_t i = 0; i < width; ++i) mean += x[row + i] / static_cast<float>(width);
    for (std::size_t i = 0; i < width; ++i)
      squares += (x[row + i] - mean) * (x[row + i] - mean) / static_cast<float>(width);
    for (std::size_t i = 0; i < width; ++i) x[row + i] = (x[row + i] - mean) / std::sqrt(squares);
  }
  return x;
}

// Rows of a table, to which the golden run adds those of another one before their norm.
void add_looked_up(Program& program, bool is_golden, bool adds) {
  const Values table = numbers(6 * 8, 401), kind = numbers(8, 402), w = numbers(8 * 8, 403), last = numbers(4 * 8, 404);
  Values rows;
  for (const std::size_t id : {4, 1, 3, 0, 5}) {
    const auto first = table.begin() + static_cast<std::ptrdiff_t>(id * 8);
    rows.insert(rows.end(), first, first + 8);
  }
  const char* scope = is_golden ? "Default/net" : "Default/own";
  const char* of_product = is_golden ? "linear" : "matmul";
  auto one = program.add(
      "embedding", {Program::parameter("words", table, "(6,8)"), Program::parameter("data-0", {4, 1, 3, 0, 5}, "(5)")},
      rows, "(5,8)", scope);
  Values x = rows;
  if (adds) {
    x = both(x, kind, sum);
    Program::Ref other = Program::parameter("kind", kind, is_golden ? "(1,8)" : "(8)");
    if (is_golden) {
      Values kinds;
      for (int i = 0; i < 5; ++i) kinds = joined(kinds, kind);
      other = program.add("embedding", {other, Program::parameter("data-1", {0, 0, 0, 0, 0}, "(5)")}, kinds, "(5,8)",
                          scope);
    }
    one = program.add("add", {one, other}, x, "(5,8)", scope);
  }
  const Values normed = normed_rows(x, 8), y = linear(normed, w, 8), bent = each(y, tanh_of);
  one = program.add("layer_norm", {one}, normed, "(5,8)", scope);
  one = program.add(of_product, {one, Program::parameter("w", is_golden ? w : transposed(w, 8), "(8,8)")}, y, "(5,8)",
                    scope);
  one = program.add(is_golden ? "golden_tanh" : "tanh", {one}, bent, "(5,8)", scope);
  program.add(of_product,
              {one, Program::parameter("last", is_golden ? last : transposed(last, 4), is_golden ? "(4,8)" : "(8,4)")},
              linear(bent, last, 8), "(5,4)", scope);
}

TEST(RelationsOfRightResults, RowsThatTheGoldenRunLooksUpTooAreNotBlamed) {
  Program golden, healthy, target;
  add_looked_up(golden, true, true);
  add_looked_up(healthy, false, true);
  add_looked_up(target, false, false);
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.find("layer_norm"), 0U) << said;
}

// Gradients of queries and keys, joined in the target, first the even features of each. Each feature of those of the keys
// adds up to rounding alone.
void add_biases(Program& program, bool is_golden) {
  constexpr std::size_t kFeatures = 8, kSums = 6;
  const Values x = numbers(6 * 8, 411), w = numbers(8 * 8, 412), h = linear(x, w, 8), y = each(h, tanh_of);
  Values queries = numbers(kSums * kFeatures, 413), keys = numbers(kSums * kFeatures, 414), joint, sums, all;
  for (std::size_t i = 0; i < keys.size() / 2; ++i) keys[keys.size() / 2 + i] = -keys[i];
  const Values rest = each(numbers(kFeatures, is_golden ? 415 : 416), [](float v) { return v * 1e-8F; });
  for (std::size_t i = 0; i < kFeatures; ++i) {
    sums.push_back(0);
    for (std::size_t row = 0; row < kSums; ++row) sums[i] += queries[row * kFeatures + i];
  }
  const auto sorted = [](const Values& of, std::size_t row, Values& into) {
    for (std::size_t i = 0; i < kFeatures; ++i)
      into.push_back(of[row * kFeatures + 2 * i % kFeatures + 2 * i / kFeatures]);
  };
  for (std::size_t row = 0; row < kSums; ++row) {
    sorted(queries, row, joint);
    sorted(keys, row, joint);
  }
  sorted(sums, 0, all);
  sorted(rest, 0, all);
  const std::string scope = is_golden ? "Default/net" : "Default/own", backward = "Gradients/" + scope;
  auto one = program.add(
      is_golden ? "linear" : "matmul",
      {Program::parameter("data-0", x, "(6,8)"), Program::parameter("w", is_golden ? w : transposed(w, 8), "(8,8)")}, h,
      "(6,8)", scope);
  one = program.add(is_golden ? "golden_tanh" : "tanh", {one}, y, "(6,8)", scope);
  const auto add_backward = [&](const Values& gradient, const Values& total, const std::string& width) {
    auto two = program.add("gradient_of_" + width, {one}, gradient, "(6," + width + ")", backward);
    two = program.add("sum", {two}, total, "(1," + width + ")", backward);
    program.add("view", {two}, total, "(" + width + ")", backward);
  };
  if (!is_golden) return add_backward(joint, all, "16");
  add_backward(queries, sums, "8");
  add_backward(keys, rest, "8");
}

TEST(RelationsOfRightResults, SumsOfJoinedGradientsAreRightThoughSomeAreRoundingAlone) {
  Program golden, target;
  add_biases(golden, true);
  add_biases(target, false);
  EXPECT_EQ(answer(related(target, golden)), "clean");
}

std::optional<std::string> by_rows_of(const Values& own, const Values& other) {
  Program target, golden;
  const auto data = Program::parameter("data-0", numbers(2 * 6, 421), "(2,6)");
  target.add("own", {data, Program::parameter("folded", own, "(5,6)")}, numbers(10, 422), "(2,5)");
  golden.add("net", {data, Program::parameter("conv.weight", other, "(5,6)")}, numbers(10, 423), "(2,5)");
  OpFamilies families;
  Pool mine(target.catalog(), {}, families), theirs(golden.catalog(), {}, families);
  mine.read(Threads(1));
  theirs.read(Threads(1));
  return golden_by_rows(mine, mine.ops[0].inputs[1], theirs, std::vector<char>(theirs.tensors.size()));
}

TEST(RelationsOfRightResults, AWeightWithAFactorForEachRowIsThatOfAFoldedNorm) {
  const Values w = numbers(5 * 6, 424);
  Values folded = w, other = w;
  for (std::size_t i = 0; i < w.size(); ++i)
    folded[i] *= (i / 6 % 2 == 0 ? 1.0F : -1.0F) * static_cast<float>(1 + i / 6);
  other[7] += 0.1F;
  EXPECT_EQ(by_rows_of(folded, w), "is golden conv.weight, each row times a number of its own");
  EXPECT_EQ(by_rows_of(other, w), std::nullopt);
}

}  // namespace
}  // namespace sonde
