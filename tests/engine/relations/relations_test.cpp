// Two implementations of one network: which tensors correspond, what is blamed, and what is not.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

#include "relations/networks.h"

namespace sonde {
namespace {

constexpr std::size_t kRows = 4, kWidth = 6;
constexpr const char* kPort = "Default/port";

// y = w2 · tanh(w1 · x), squared.
struct Layers {
  Values x = numbers(kRows * kWidth, 1), w1 = numbers(kWidth * kWidth, 2), w2 = numbers(kWidth * kWidth, 3);
};

void add_golden(Program& program, const Layers& net = {}) {
  const Values h = linear(net.x, net.w1, kWidth), a = each(h, tanh_of), y = linear(a, net.w2, kWidth);
  auto x = Program::parameter("data-0", net.x, "(4,6)");
  auto one = program.add("linear", {x, Program::parameter("first.weight", net.w1, "(6,6)")}, h, "(4,6)");
  auto two = program.add("tanh", {one}, a, "(4,6)");
  auto three = program.add("linear", {two, Program::parameter("second.weight", net.w2, "(6,6)")}, y, "(4,6)");
  program.add("square", {three}, each(y, square), "(4,6)");
}

struct Port {
  float (*bend)(float) = tanh_of;
  std::string bend_type = "tanh";
  bool transposes_second = true;
};

// Its weights are kept (in, out).
void add_port(Program& program, const Port& port = {}, const Layers& net = {}) {
  const Values w1 = transposed(net.w1, kWidth), w2 = port.transposes_second ? transposed(net.w2, kWidth) : net.w2;
  const Values h = linear(net.x, net.w1, kWidth), a = each(h, port.bend), y = linear(a, transposed(w2, kWidth), kWidth);
  auto x = Program::parameter("data-0", net.x, "(4,6)");
  auto one = program.add("matmul", {x, Program::parameter("w1", w1, "(6,6)")}, h, "(4,6)", kPort);
  auto two = program.add(port.bend_type, {one}, a, "(4,6)", kPort);
  auto three = program.add("matmul", {two, Program::parameter("w2", w2, "(6,6)")}, y, "(4,6)", kPort);
  program.add("mul", {three, three}, each(y, square), "(4,6)", kPort);
}

TEST(Relations, OneToOneWithTransposedWeightsIsClean) {
  Program golden, target;
  add_golden(golden);
  add_port(target);
  const DumpComparison comparison = related(target, golden);
  EXPECT_EQ(answer(comparison), "clean");
  EXPECT_EQ(relation_of(comparison, "matmul").substr(0, 4), "same");
  EXPECT_EQ(relation_of(comparison, "w1"), "permuted: golden first.weight with its axes in another order");
}

TEST(Relations, AnotherFunctionIsNamed) {
  Program golden, target;
  add_golden(golden);
  add_port(target, {.bend = logistic, .bend_type = "sigmoid"});
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 8), "sigmoid:") << said;
}

TEST(Relations, AWeightThatWasNotTransposedIsNamed) {
  Program golden, target;
  add_golden(golden);
  add_port(target, {.transposes_second = false});
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 12), "parameter w2") << said;
  EXPECT_NE(said.find("not transposed as others are"), std::string::npos) << said;
}

TEST(Relations, ConstantsProveNothing) {
  // All that the two have in common is tensors of ones.
  Program golden, target;
  add_golden(golden);
  golden.add("ones", {}, Values(24, 1), "(4,6)");
  Layers other;
  other.x = numbers(kRows * kWidth, 11);
  other.w1 = numbers(kWidth * kWidth, 12);
  other.w2 = numbers(kWidth * kWidth, 13);
  add_port(target, {}, other);
  target.add("ones", {}, Values(24, 1), "(4,6)", kPort);
  const Result<DumpComparison> comparison = compare_programs(target.catalog(), golden.catalog(), {});
  ASSERT_TRUE(comparison);
  const bool is_said = std::ranges::any_of(comparison->notes, [](const std::string& note) {
    return note.find("the weights are not the same: 0 of 2 correspond") != std::string::npos;
  });
  EXPECT_TRUE(is_said);
}

TEST(Relations, AConstantCorrespondsToOneOfTheSameNumber) {
  Program golden, target;
  add_golden(golden);
  golden.add("ones", {}, Values(24, 1), "(4,6)");
  add_port(target);
  target.add("full", {}, Values(12, 1), "(2,6)", kPort);
  const DumpComparison comparison = related(target, golden);
  EXPECT_EQ(answer(comparison), "clean");
  EXPECT_EQ(relation_of(comparison, "full"), "constant: one number, as in the golden run");
}

// Rows of two sequences, one of which is padded, and of both one after the other. Each row has sum 0 and norm 1, as after
// a norm: its elements alone show which it is.
void add_rows(Program& program, bool is_packed, float (*bend)(float)) {
  constexpr std::size_t kWide = 8;
  Values rows = numbers(6 * kWide, 5);
  for (std::size_t row = 0; row < 6; ++row) {
    double mean = 0, squares = 0;
    for (std::size_t i = 0; i < kWide; ++i) mean += static_cast<double>(rows[row * kWide + i]) / kWide;
    for (std::size_t i = 0; i < kWide; ++i) {
      rows[row * kWide + i] -= static_cast<float>(mean);
      squares += std::pow(static_cast<double>(rows[row * kWide + i]), 2);
    }
    for (std::size_t i = 0; i < kWide; ++i) rows[row * kWide + i] /= static_cast<float>(std::sqrt(squares));
  }
  const Values weight = numbers(kWide * kWide, 6);
  const char* scope = is_packed ? kPort : "Default/net";
  const std::string shape = is_packed ? "(5,8)" : "(2,3,8)";
  if (is_packed) rows.resize(5 * kWide);  // the last one is padding
  const Values y = linear(rows, weight, kWide), bent = each(y, bend), z = linear(bent, weight, kWide);
  const auto w = Program::parameter("weight", weight, "(8,8)");
  auto given =
      program.add(is_packed ? "gather" : "embedding", {Program::parameter("data-0", {1}, "(1)")}, rows, shape, scope);
  auto one = program.add(is_packed ? "matmul" : "linear", {given, w}, y, shape, scope);
  auto two = program.add(is_packed ? "bend" : "tanh", {one}, bent, shape, scope);
  auto three = program.add(is_packed ? "matmul" : "linear", {two, w}, z, shape, scope);
  program.add(is_packed ? "pow" : "square", {three}, each(z, square), shape, scope);
}

TEST(Relations, PackedRowsAreThoseOfPaddedSequences) {
  Program golden, target;
  add_rows(golden, false, tanh_of);
  add_rows(target, true, tanh_of);
  const DumpComparison comparison = related(target, golden);
  EXPECT_EQ(answer(comparison), "clean");
  EXPECT_EQ(relation_of(comparison, "gather"), "cut: golden rows 0 to 4 of Default/net/embedding-op0");
}

TEST(Relations, PaddedSequencesAreCleanIfAllPackedRowsAreInThem) {
  Program packed, padded, another;
  add_rows(packed, true, tanh_of);
  add_rows(padded, false, tanh_of);
  add_rows(another, false, logistic);
  EXPECT_EQ(answer(related(padded, packed)), "clean");
  EXPECT_NE(answer(related(another, packed)), "clean");
}

TEST(Relations, AnOperatorOfPackedRowsIsNamed) {
  Program golden, target;
  add_rows(golden, false, tanh_of);
  add_rows(target, true, logistic);
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 4), "bend") << said;
  EXPECT_NE(said.find("(uncertain)"), std::string::npos) << said;
}

TEST(Relations, StatisticsOfOtherSizesAreNotCalledEqual) {
  Program golden, target;
  add_rows(golden, false, tanh_of);
  add_rows(target, true, logistic);
  golden.forget_values();
  target.forget_values();
  const DumpComparison comparison = related(target, golden);
  EXPECT_TRUE(comparison.findings.empty());
  ASSERT_FALSE(comparison.left_out.empty());
  EXPECT_EQ(comparison.left_out[0].substr(0, 11), "the results");
}

TEST(Relations, APartThatNothingReadsIsNoResult) {
  Program golden, target;
  add_golden(golden);
  golden.add("exp", {Program::parameter("data-0", Layers{}.x, "(4,6)")}, each(Layers{}.x, square), "(4,6)");
  const Layers net;
  // Along two axes: no relation is known.
  const Values part{net.x[0], net.x[1], net.x[2], net.x[3], net.x[6], net.x[7], net.x[8], net.x[9]};
  target.add("slice", {Program::parameter("data-0", net.x, "(4,6)")}, part, "(2,4)", kPort);
  add_port(target);
  EXPECT_EQ(answer(related(target, golden)), "clean");
}

TEST(Relations, AResultInAnotherOrderIsNotClean) {
  const Values first = each(Layers{}.x, tanh_of), second = each(Layers{}.w1, tanh_of);
  Program golden, target;
  add_golden(golden);
  golden.add("cat", {}, joined(first, second), "(10,6)");
  add_port(target);
  target.add("concat", {}, joined(second, first), "(10,6)", kPort);
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 20), "concat (uncertain): ") << said;
  EXPECT_NE(said.find("in another order"), std::string::npos) << said;
}

// A branch that is small beside what it is added to.
void add_branch(Program& program, float factor, const char* scope, const std::string& type) {
  const Values x = times(numbers(48, 7), 300), w = numbers(36, 8);
  const Values y = linear(numbers(48, 9), w, kWidth), scaled = times(y, factor), z = both(x, scaled, sum);
  auto given = Program::parameter("data-1", numbers(48, 9), "(8,6)");
  auto one = program.add(type, {given, Program::parameter("weight", w, "(6,6)")}, y, "(8,6)", scope);
  auto two = program.add(type + "_mul", {one}, scaled, "(8,6)", scope);
  auto moved = program.add(type + "_neg", {two}, times(scaled, -1), "(8,6)", scope);
  program.add(type + "_sub", {Program::parameter("data-0", x, "(8,6)"), moved}, z, "(8,6)", scope);
}

TEST(Relations, AnErrorThatASumHidesIsFound) {
  Program golden, target;
  add_branch(golden, 0.5F, "Default/net", "linear");
  add_branch(target, 0.5002F, kPort, "matmul");
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 10), "matmul_mul") << said;
  Program same;
  add_branch(same, 0.5F, kPort, "matmul");
  EXPECT_EQ(answer(related(same, golden)), "clean");
}

// A GRU of two steps, written out beside one operator.
struct Gru {
  static constexpr std::size_t kHidden = 8;
  Values x = numbers(2 * kHidden, 21), wx = numbers(3 * kHidden * kHidden, 22), wh = numbers(3 * kHidden * kHidden, 23),
         bx = numbers(3 * kHidden, 24), bh = numbers(3 * kHidden, 25);
};

Values third(const Values& all, std::size_t number) {
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(number * Gru::kHidden);
  return {first, first + Gru::kHidden};
}

Values gru_by_hand(Program& program, bool resets) {
  const Gru net;
  Values state(Gru::kHidden), all;
  Program::Ref h = Program::parameter("data-1", state, "(1,8)");
  const auto wx = Program::parameter("wx", net.wx, "(24,8)"), wh = Program::parameter("wh", net.wh, "(24,8)");
  const auto bx = Program::parameter("bx", net.bx, "(24)"), bh = Program::parameter("bh", net.bh, "(24)");
  const auto add = [&](const std::string& type, const std::vector<Program::Ref>& inputs, const Values& values) {
    return program.add(type, inputs, values, values.size() == 24 ? "(1,24)" : "(1,8)", kPort);
  };
  for (std::size_t t = 0; t < 2; ++t) {
    const Values x(net.x.begin() + static_cast<std::ptrdiff_t>(t * 8),
                   net.x.begin() + static_cast<std::ptrdiff_t>(t * 8 + 8));
    const Values gx = both(linear(x, net.wx, 8), net.bx, sum), gh = both(linear(state, net.wh, 8), net.bh, sum);
    auto given = add("select", {Program::parameter("data-0", net.x, "(2,1,8)")}, x);
    auto of_x = add("linear", {given, wx, bx}, gx), of_h = add("linear", {h, wh, bh}, gh);
    const auto part = [&](const Program::Ref& from, const Values& values, std::size_t number) {
      return add("slice", {from}, third(values, number));
    };
    const Values r = each(both(third(gx, 0), third(gh, 0), sum), logistic),
                 z = each(both(third(gx, 1), third(gh, 1), sum), logistic);
    auto in_r = add("add", {part(of_x, gx, 0), part(of_h, gh, 0)}, both(third(gx, 0), third(gh, 0), sum));
    auto in_z = add("add", {part(of_x, gx, 1), part(of_h, gh, 1)}, both(third(gx, 1), third(gh, 1), sum));
    auto reset = add("sigmoid", {in_r}, r), update = add("sigmoid", {in_z}, z);
    const Values kept = resets ? both(r, third(gh, 2), product) : third(gh, 2), in = both(third(gx, 2), kept, sum);
    auto held = resets ? add("mul", {reset, part(of_h, gh, 2)}, kept) : part(of_h, gh, 2);
    auto sum_in = add(resets ? "add" : "add_without_reset", {part(of_x, gx, 2), held}, in);
    const Values n = each(in, tanh_of), rest = each(z, [](float value) { return 1 - value; });
    auto fresh = add("tanh", {sum_in}, n), left = add("rsub", {update}, rest);
    const Values a = both(rest, n, product), b = both(z, state, product);
    auto one = add("mul", {left, fresh}, a), two = add("mul", {update, h}, b);
    state = both(a, b, sum);
    h = add("add", {one, two}, state);
    all = joined(all, state);
  }
  program.add("stack", {h}, all, "(2,1,8)", kPort);
  return all;
}

void add_gru(Program& program, const Values& result) {
  const Gru net;
  program.add("ones", {}, Values(8, 1), "(8)");
  program.add(
      "gru",
      {Program::parameter("data-0", net.x, "(2,1,8)"), Program::parameter("data-1", Values(8), "(1,1,8)"),
       Program::parameter("gru.weight_ih", net.wx, "(24,8)"), Program::parameter("gru.weight_hh", net.wh, "(24,8)"),
       Program::parameter("gru.bias_ih", net.bx, "(24)"), Program::parameter("gru.bias_hh", net.bh, "(24)")},
      result, "(2,1,8)");
  program.call_with({.name = "has_biases", .kind = AttributeKind::boolean, .integers = {1}, .reals = {}, .text = {}});
}

TEST(Relations, StepsOfARecurrenceAreThoseInsideOfTheGoldenOperator) {
  Program healthy, target, golden;
  const Values right = gru_by_hand(healthy, true);
  gru_by_hand(target, false);
  add_gru(golden, right);
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 17), "add_without_reset") << said;
}

// Scores of five tokens, of which a mask hides the later ones.
void add_masked(Program& program, const std::string& kind, const char* scope, float scale) {
  const Values x = numbers(5 * 8, 91), w = numbers(5 * 8, 92), scores = linear(x, w, 8);
  Values mask(25);
  for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = i % 5 > i / 5 ? -1e4F : 0;
  const Values scaled = both(scores, {scale}, product), hidden = both(scaled, mask, sum);
  auto one =
      program.add(kind + "linear", {Program::parameter("data-0", x, "(5,8)"), Program::parameter("w", w, "(5,8)")},
                  scores, "(5,5)", scope);
  auto two = program.add(kind + "mul", {one}, scaled, "(5,5)", scope);
  auto three = program.add(kind + "add", {two, Program::parameter("data-1", mask, "(5,5)")}, hidden, "(5,5)", scope);
  auto four = program.add(kind + "sigmoid", {three}, each(hidden, logistic), "(5,5)", scope);
  program.add(kind + "square", {four}, each(each(hidden, logistic), square), "(5,5)", scope);
}

TEST(Relations, WhatAMaskHidesDoesNotMakeTheOtherScoresAlike) {
  Program golden, healthy, target;
  add_masked(golden, "", "Default/net", 0.5F);
  add_masked(healthy, "own_", kPort, 0.5F);
  add_masked(target, "own_", kPort, 0.45F);
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const DumpComparison comparison = related(target, golden);
  EXPECT_EQ(answer(comparison).substr(0, 7), "own_mul") << answer(comparison);
  EXPECT_EQ(relation_of(comparison, "own_add").substr(0, 4), "none");
}

// The golden network bends before its second product; the target may leave that out.
void add_bent(Program& program, const char* scope, bool bends, const std::string& kind) {
  const Values x = numbers(4 * 8, 71), w1 = numbers(8 * 8, 72), w2 = numbers(8 * 8, 73), h = linear(x, w1, 8);
  auto one = program.add("linear", {Program::parameter("data-0", x, "(4,8)"), Program::parameter("w1", w1, "(8,8)")}, h,
                         "(4,8)", scope);
  const Values a = bends ? each(h, tanh_of) : h;
  auto two = bends ? program.add("tanh", {one}, a, "(4,8)", scope) : one;
  const Values y = linear(a, w2, 8);
  auto three = program.add("linear", {two, Program::parameter("w2", w2, "(8,8)")}, y, "(4,8)", scope);
  auto four = program.add(kind, {three}, each(y, square), "(4,8)", scope);
  program.add("neg", {four}, each(each(y, square), [](float value) { return -value; }), "(4,8)", scope);
}

TEST(Relations, AnOperatorThatTheTargetLeavesOutIsNamedWhereItsInputIsRead) {
  for (const bool has_values : {true, false}) {
    Program golden, healthy, target;
    add_bent(golden, "Default/net", true, "square");
    add_bent(healthy, kPort, true, "mul");
    add_bent(target, kPort, false, "mul");
    if (!has_values) {
      for (Program* program : {&golden, &healthy, &target}) program->forget_values();
    }
    EXPECT_EQ(answer(related(healthy, golden)), "clean");
    const std::string said = answer(related(target, golden));
    EXPECT_EQ(said.substr(0, 6), "linear") << said;
    EXPECT_NE(said.find("reads the result of golden linear"), std::string::npos) << said;
    EXPECT_NE(said.find("of which the golden run first computes tanh"), std::string::npos) << said;
  }
}

// Two products that are joined, in one order or the other.
void add_joined(Program& program, const char* scope, bool exchanged, const std::string& kind) {
  const Values x = numbers(4 * 8, 81), w1 = numbers(3 * 8, 82), w2 = numbers(3 * 8, 83);
  auto data = Program::parameter("data-0", x, "(4,8)");
  const Values a = linear(x, w1, 8), b = linear(x, w2, 8);
  auto one = program.add("linear", {data, Program::parameter("w1", w1, "(3,8)")}, a, "(4,3)", scope);
  auto two = program.add("linear", {data, Program::parameter("w2", w2, "(3,8)")}, b, "(4,3)", scope);
  auto bent_one = program.add(kind, {one}, each(a, tanh_of), "(4,3)", scope);
  auto bent_two = program.add(kind, {two}, each(b, tanh_of), "(4,3)", scope);
  const Values c = each(a, tanh_of), d = each(b, tanh_of);
  if (exchanged) {
    program.add("cat", {bent_two, bent_one}, joined(d, c), "(8,3)", scope);
  } else {
    program.add("cat", {bent_one, bent_two}, joined(c, d), "(8,3)", scope);
  }
}

TEST(Relations, StatisticsShowInWhichOrderPartsAreJoined) {
  Program golden, healthy, target;
  add_joined(golden, "Default/net", false, "tanh");
  add_joined(healthy, kPort, false, "bent");
  add_joined(target, kPort, true, "bent");
  for (Program* program : {&golden, &healthy, &target}) program->forget_values();
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 3), "cat") << said;
  EXPECT_NE(said.find("joins what golden cat"), std::string::npos) << said;
}

// The golden network adds 1 to the diagonal of a weight, which adds the data to the product.
void add_with_diagonal(Program& program) {
  const Values x = numbers(4 * 8, 91), w = numbers(8 * 8, 92), then = numbers(8 * 8, 93);
  Values eye(8 * 8, 0);
  for (std::size_t i = 0; i < 8; ++i) eye[i * 9] = 1;
  const Values more = both(w, eye, sum), y = linear(x, more, 8);
  auto weight = program.add("golden_sum", {Program::parameter("w", w, "(8,8)")}, more, "(8,8)");
  auto one = program.add("linear", {Program::parameter("data-0", x, "(4,8)"), weight}, y, "(4,8)");
  const Values z = linear(y, then, 8);
  auto two = program.add("linear", {one, Program::parameter("then", then, "(8,8)")}, z, "(4,8)");
  auto three = program.add("square", {two}, each(z, square), "(4,8)");
  program.add("neg", {three}, each(each(z, square), [](float value) { return -value; }), "(4,8)");
}

void add_with_sum(Program& program, bool adds) {
  const Values x = numbers(4 * 8, 91), w = numbers(8 * 8, 92), then = numbers(8 * 8, 93), h = linear(x, w, 8);
  auto data = Program::parameter("data-0", x, "(4,8)");
  auto one = program.add("matmul", {data, Program::parameter("own_w", w, "(8,8)")}, h, "(4,8)", kPort);
  const Values y = adds ? both(h, x, sum) : h, z = linear(y, then, 8);
  auto two = adds ? program.add("add", {one, data}, y, "(4,8)", kPort) : one;
  auto three = program.add("mm", {two, Program::parameter("own_then", then, "(8,8)")}, z, "(4,8)", kPort);
  auto four = program.add("mul", {three, three}, each(z, square), "(4,8)", kPort);
  program.add("sub", {four}, each(each(z, square), [](float value) { return -value; }), "(4,8)", kPort);
}

TEST(Relations, WhatTheTargetDoesNotAddIsNamedWhereTheSumIsRead) {
  Program golden, healthy, target;
  add_with_diagonal(golden);
  add_with_sum(healthy, true);
  add_with_sum(target, false);
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 16), "mm (uncertain): ") << said;
  EXPECT_NE(said.find("without golden data-0, which the golden run has added"), std::string::npos) << said;
}

}  // namespace
}  // namespace sonde
