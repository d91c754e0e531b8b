// Ports that keep what the golden run computes in a layout of their own: experts for all tokens, parts that are joined.
#include <cstddef>
#include <string>

#include "relations/networks.h"

namespace sonde {
namespace {

constexpr const char* kLayout = "Default/own";
constexpr std::size_t kChannels = 8;

float negative_of(float x) { return -x; }

Values rows_with(const Values& all, std::initializer_list<std::size_t> rows) {
  Values found;
  for (const std::size_t row : rows) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(row * kChannels);
    found.insert(found.end(), begin, begin + kChannels);
  }
  return found;
}

// Two experts: tokens 0, 2 and 3 belong to the first, the others to the second.
struct Experts {
  Values x = numbers(6 * kChannels, 51), one = numbers(kChannels * kChannels, 52),
         two = numbers(kChannels * kChannels, 53), last = numbers(kChannels * kChannels, 54);
  Program::Ref data() const { return Program::parameter("data-0", x, "(6,8)"); }
};

void add_golden_experts(Program& program) {
  const Experts net;
  Values all(6 * kChannels);
  std::vector<Program::Ref> parts;
  for (const bool is_first : {true, false}) {
    const Values x = is_first ? rows_with(net.x, {0, 2, 3}) : rows_with(net.x, {1, 4, 5});
    const Values &weight = is_first ? net.one : net.two, h = linear(x, weight, kChannels), y = each(h, tanh_of);
    auto given = program.add("index", {net.data()}, x, "(3,8)");
    auto w = Program::parameter(is_first ? "one" : "two", weight, "(8,8)");
    auto bent = program.add("linear", {given, w}, h, "(3,8)");
    parts.push_back(program.add("tanh", {bent}, y, "(3,8)"));
    const std::size_t places[2][3] = {{0, 2, 3}, {1, 4, 5}};
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t place = places[is_first ? 0 : 1][i];
      std::copy_n(y.begin() + static_cast<std::ptrdiff_t>(i * kChannels), kChannels,
                  all.begin() + static_cast<std::ptrdiff_t>(place * kChannels));
    }
  }
  auto sum = program.add("index_add", parts, all, "(6,8)");
  const Values z = linear(all, net.last, kChannels);
  auto last = program.add("linear", {sum, Program::parameter("last", net.last, "(8,8)")}, z, "(6,8)");
  program.add("neg", {last}, each(z, negative_of), "(6,8)");
}

void add_own_experts(Program& program, float (*bend)(float)) {
  const Experts net;
  const Values h = joined(linear(net.x, net.one, kChannels), linear(net.x, net.two, kChannels)), y = each(h, bend);
  Values share, kept, all(6 * kChannels);
  for (const float of_first : {1.0F, 0.0F, 1.0F, 1.0F, 0.0F, 0.0F}) share.push_back(of_first);
  for (std::size_t i = 0; i < 6; ++i) share.push_back(1 - share[i]);
  for (std::size_t i = 0; i < y.size(); ++i) kept.push_back(y[i] * share[i / kChannels]);
  for (std::size_t i = 0; i < kept.size(); ++i) all[i % all.size()] += kept[i];
  auto w = Program::parameter("both", joined(net.one, net.two), "(2,8,8)");
  auto one = program.add("einsum", {net.data(), w}, h, "(2,6,8)", kLayout);
  auto two = program.add("bend", {one}, y, "(2,6,8)", kLayout);
  auto three = program.add("mul", {two, Program::parameter("data-1", share, "(2,6,1)")}, kept, "(2,6,8)", kLayout);
  auto four = program.add("sum", {three}, all, "(6,8)", kLayout);
  const Values z = linear(all, net.last, kChannels);
  auto five = program.add("matmul", {four, Program::parameter("own_last", net.last, "(8,8)")}, z, "(6,8)", kLayout);
  program.add("rsub", {five}, each(z, negative_of), "(6,8)", kLayout);
}

TEST(RelationsOfLayouts, AnExpertThatAllTokensRunThroughHoldsTheGoldenOne) {
  Program golden, healthy, target;
  add_golden_experts(golden);
  add_own_experts(healthy, tanh_of);
  add_own_experts(target, logistic);
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 4), "bend") << said;
}

// x, and what is computed of it: joined two by two or all at once, before each element gets a factor of its own.
void add_dense(Program& program, const char* scope, bool two_by_two, bool is_reversed) {
  const Values x = numbers(4 * kChannels, 61), w = numbers(kChannels * kChannels, 62),
               scale = numbers(12 * kChannels, 63);
  const Values a = each(linear(x, w, kChannels), tanh_of), b = each(linear(a, w, kChannels), tanh_of);
  auto weight = Program::parameter("w", w, "(8,8)");
  auto data = program.add("embedding", {Program::parameter("data-0", {1}, "(1)")}, x, "(4,8)", scope);
  auto pre = program.add("linear", {data, weight}, linear(x, w, kChannels), "(4,8)", scope);
  auto one = program.add("tanh", {pre}, a, "(4,8)", scope);
  auto next = program.add("linear", {one, weight}, linear(a, w, kChannels), "(4,8)", scope);
  auto two = program.add("tanh", {next}, b, "(4,8)", scope);
  const Values all = is_reversed ? joined(joined(b, a), x) : joined(joined(x, a), b);
  std::vector<Program::Ref> parts{data, one, two};
  if (is_reversed) std::ranges::reverse(parts);
  if (two_by_two) parts = {program.add("cat", {data, one}, joined(x, a), "(8,8)", scope), two};
  auto together = program.add("cat", parts, all, "(12,8)", scope);
  const Values scaled = both(all, scale, product);
  auto last = program.add("mul", {together, Program::parameter("scale", scale, "(12,8)")}, scaled, "(12,8)", scope);
  program.add(two_by_two ? "square" : "pow", {last}, each(scaled, square), "(12,8)", scope);
}

TEST(RelationsOfLayouts, PartsThatAreJoinedOneAfterTheOtherHaveAnOrder) {
  Program golden, healthy, target;
  add_dense(golden, "Default/net", true, false);
  add_dense(healthy, kLayout, false, false);
  add_dense(target, kLayout, false, true);
  for (Program* program : {&golden, &healthy, &target}) program->forget_values();
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 4), "cat ") << said;
  EXPECT_NE(said.find("joins what golden cat"), std::string::npos) << said;
}

// Two states that one golden operator gives together, and a product with both.
void add_both_ways(Program& program, bool is_golden, bool exchanged) {
  const Values x = numbers(4 * kChannels, 65), w = numbers(kChannels * 16, 66);
  const Values a = each(x, tanh_of), b = each(x, logistic);
  Values all;
  for (std::size_t row = 0; row < 4; ++row) {
    const Values one = rows_with(a, {row}), two = rows_with(b, {row});
    all = joined(all, exchanged ? joined(two, one) : joined(one, two));
  }
  const char* scope = is_golden ? "Default/net" : kLayout;
  auto data = Program::parameter("data-0", x, "(4,8)");
  std::vector<Program::Ref> parts{data};
  if (!is_golden) {
    auto one = program.add("own_tanh", {data}, a, "(4,8)", scope),
         two = program.add("own_bend", {data}, b, "(4,8)", scope);
    parts = exchanged ? std::vector{two, one} : std::vector{one, two};
  }
  auto state = program.add(is_golden ? "both_ways" : "cat", parts, all, "(4,16)", scope);
  const Values y = linear(all, w, 16);
  auto last =
      program.add(is_golden ? "linear" : "matmul", {state, Program::parameter("w", w, "(8,16)")}, y, "(4,8)", scope);
  auto end = program.add(is_golden ? "square" : "mul", {last}, each(y, square), "(4,8)", scope);
  program.add(is_golden ? "neg" : "rsub", {end}, each(each(y, square), negative_of), "(4,8)", scope);
}

TEST(RelationsOfLayouts, WhatJoinsIsNamedRatherThanTheWeightBehindIt) {
  Program golden, healthy, target;
  add_both_ways(golden, true, false);
  add_both_ways(healthy, false, false);
  add_both_ways(target, false, true);
  for (Program* program : {&golden, &healthy, &target}) program->forget_values();
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 17), "cat (uncertain): ") << said;
  EXPECT_NE(said.find("joins what has the numbers that golden linear"), std::string::npos) << said;
}

// Channels of two branches are shuffled before they are split again.
void add_shuffled(Program& program, const char* scope, bool shuffles) {
  const Values x = numbers(4 * kChannels, 67), y = each(x, tanh_of), w = numbers(kChannels * kChannels, 68),
               all = joined(x, y);
  const Values mixed = joined(rows_with(all, {0, 4, 1, 5}), rows_with(all, {2, 6, 3, 7}));
  auto data = program.add("embedding", {Program::parameter("data-0", {1}, "(1)")}, x, "(4,8)", scope);
  auto bent = program.add("tanh", {data}, y, "(4,8)", scope);
  auto together = program.add("cat", {data, bent}, all, "(8,8)", scope);
  if (shuffles) together = program.add("channel_shuffle", {together}, mixed, "(8,8)", scope);
  const Values half = shuffles ? rows_with(mixed, {0, 1, 2, 3}) : x, z = linear(half, w, kChannels);
  auto part = program.add("chunk", {together}, half, "(4,8)", scope);
  program.add_output(shuffles ? rows_with(mixed, {4, 5, 6, 7}) : y, "(4,8)");
  auto one = program.add("linear", {part, Program::parameter("w", w, "(8,8)")}, z, "(4,8)", scope);
  program.add("square", {one}, each(z, square), "(4,8)", scope);
  program.add("neg", {one}, each(z, negative_of), "(4,8)", scope);
}

TEST(RelationsOfLayouts, PartsThatAreTakenApartAsTheyWereJoinedAreNamedWhereTheyWereJoined) {
  Program golden, healthy, target;
  add_shuffled(golden, "Default/net", true);
  add_shuffled(healthy, kLayout, true);
  add_shuffled(target, kLayout, false);
  for (Program* program : {&golden, &healthy, &target}) program->forget_values();
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 3), "cat") << said;
}

// Products of queries with the rows of their distances: looked up before the product, or chosen of all behind it.
void add_distances_of(Program& program, bool is_golden, bool is_turned) {
  const Values table = numbers(5 * kChannels, 69), w = numbers(kChannels * kChannels, 70),
               q = numbers(3 * kChannels, 73);
  const Values rows = linear(table, w, kChannels), away = {2, 1, 0, 3, 2, 1, 4, 3, 2},
               turned = {2, 3, 4, 1, 2, 3, 0, 1, 2};
  const Values& places = is_turned ? turned : away;
  const char* scope = is_golden ? "Default/net" : kLayout;
  const Values all = linear(q, rows, kChannels);  // (3,5)
  Values chosen, scores;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto place = static_cast<std::size_t>(places[i]);
    chosen = joined(chosen, rows_with(rows, {place}));
    scores.push_back(all[i / 3 * 5 + place]);
  }
  const auto as_numbers = [&] {
    for (CatalogTensor& tensor : program.last().tensors) tensor.dtype = DType::int32;
  };
  auto start = Program::parameter("data-0", {0, 1, 2}, "(3)"), queries = Program::parameter("data-1", q, "(3,8)");
  auto sub = program.add("sub", {start, start}, times(places, 2), "(3,3)", scope);
  as_numbers();
  auto clamp = program.add("clamp", {sub}, places, "(3,3)", scope);
  as_numbers();
  auto of_rows = program.add(is_golden ? "linear" : "matmul",
                             {Program::parameter("table", table, "(5,8)"), Program::parameter("w", w, "(8,8)")}, rows,
                             "(5,8)", scope);
  Program::Ref last;
  if (is_golden) {
    auto products = program.add("bmm", {queries, of_rows}, all, "(3,5)", scope);
    last = program.add("gather", {products, clamp}, scores, "(3,3)", scope);
  } else {
    auto found = program.add("index", {of_rows, clamp}, chosen, "(3,3,8)", scope);
    program.last().tensors[1].dtype = DType::int32;
    last = program.add("einsum", {queries, found}, scores, "(3,3)", scope);
  }
  auto end = program.add(is_golden ? "square" : "pow", {last}, each(scores, square), "(3,3)", scope);
  program.add(is_golden ? "neg" : "rsub", {end}, each(each(scores, square), negative_of), "(3,3)", scope);
}

TEST(RelationsOfLayouts, NumbersOfRowsThatAreTurnedAreNamedWhereTheyWereTurned) {
  Program golden, healthy, target;
  add_distances_of(golden, true, false);
  add_distances_of(healthy, false, false);
  add_distances_of(target, false, true);
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 3), "sub") << said;
}

// Its result is not like its input: each element has another sign.
Values step_of(const Values& all, std::uint32_t number, float more) {
  const Values signs = each(numbers(all.size(), 80 + number), [](float value) { return value < 0 ? -1.0F : 1.0F; });
  return both(each(both(all, {more}, sum), tanh_of), signs, product);
}

// Two golden operators, each of which computes at once what the port does in three steps; the first step may be another.
void add_steps_of_two(Program& program, float start) {
  const Values x = numbers(4 * kChannels, 71), w = numbers(kChannels * kChannels, 72);
  Values all = linear(x, w, kChannels);
  auto last = program.add("einsum", {Program::parameter("data-0", x, "(4,8)"), Program::parameter("w", w, "(8,8)")},
                          all, "(4,8)", kLayout);
  for (std::uint32_t i = 0; i < 6; ++i) {
    all = step_of(all, i, i == 0 ? start : 0.1F);
    last = program.add("step" + std::to_string(i), {last}, all, "(4,8)", kLayout);
  }
  program.add("rsub", {last}, each(all, negative_of), "(4,8)", kLayout);
}

void add_two(Program& program) {
  const Values x = numbers(4 * kChannels, 71), w = numbers(kChannels * kChannels, 72);
  Values all = linear(x, w, kChannels);
  auto last = program.add("linear", {Program::parameter("data-0", x, "(4,8)"), Program::parameter("w", w, "(8,8)")},
                          all, "(4,8)");
  std::uint32_t step = 0;
  for (const char* type : {"first_half", "other_half"}) {
    for (int i = 0; i < 3; ++i, ++step) all = step_of(all, step, 0.1F);
    // The first one gives more than the port needs.
    last = step == 3 ? program.add(type, {last}, joined(all, each(all, square)), "(8,8)")
                     : program.add(type, {last}, all, "(4,8)");
  }
  program.add("neg", {last}, each(all, negative_of), "(4,8)");
}

TEST(RelationsOfLayouts, WhereSeveralGoldenOperatorsDifferTheFirstStepIsMeant) {
  Program golden, healthy, target;
  add_two(golden);
  add_steps_of_two(healthy, 0.1F);
  add_steps_of_two(target, 0.4F);
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 5), "step0") << said;
}

// The golden run chooses the second half of what it joined; the port may choose the first one.
void add_halves(Program& program, const char* scope, bool is_first) {
  const Values x = numbers(4 * kChannels, 90), y = each(x, tanh_of), w = numbers(kChannels * kChannels, 91);
  auto data = program.add("embedding", {Program::parameter("data-0", {1}, "(1)")}, x, "(4,8)", scope);
  auto bent = program.add("tanh", {data}, y, "(4,8)", scope);
  auto together = program.add("cat", {data, bent}, joined(x, y), "(8,8)", scope);
  const Values half = is_first ? x : y, z = linear(half, w, kChannels);
  auto part = program.add("slice", {together}, half, "(4,8)", scope);
  auto one = program.add("linear", {part, Program::parameter("w", w, "(8,8)")}, z, "(4,8)", scope);
  program.add("square", {one}, each(z, square), "(4,8)", scope);
  program.add("neg", {one}, each(z, negative_of), "(4,8)", scope);
}

TEST(RelationsOfLayouts, AWrongHalfIsNamedWhereItIsChosenIfTheGoldenRunChoosesOneToo) {
  for (const bool has_values : {true, false}) {
    Program golden, target;
    add_halves(golden, "Default/net", false);
    add_halves(target, kLayout, true);
    for (Program* program : {&golden, &target}) {
      if (!has_values) program->forget_values();
    }
    const std::string said = answer(related(target, golden));
    EXPECT_EQ(said.substr(0, 5), "slice") << said;
  }
}

}  // namespace
}  // namespace sonde
