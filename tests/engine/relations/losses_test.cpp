// A loss that is written out beside one operator, and numbers and functions that a port leaves out.
#include <cmath>
#include <cstddef>
#include <string>

#include "ask/relations/left_out_numbers.h"
#include "relations/networks.h"

namespace sonde {
namespace {

constexpr const char* kWritten = "Default/written";
constexpr std::size_t kClasses = 8;

Attribute real(const std::string& name, double value) {
  return {.name = name, .kind = AttributeKind::real, .integers = {}, .reals = {value}, .text = {}};
}

float minus(float x) { return -x; }

struct Scores {
  Values x = numbers(4 * kClasses, 31), w = numbers(kClasses * kClasses, 32), labels = {1, 7, 0, 3};
  Values scores = linear(x, w, kClasses), logarithms = softened();

  Values softened() const {
    Values all = scores;
    for (std::size_t row = 0; row < all.size(); row += kClasses) {
      float total = 0;
      for (std::size_t i = 0; i < kClasses; ++i) total += std::exp(all[row + i]);
      for (std::size_t i = 0; i < kClasses; ++i) all[row + i] -= std::log(total);
    }
    return all;
  }
  // Of labels that are smoothed.
  Values target(float share) const {
    Values all(scores.size(), share / kClasses);
    for (std::size_t row = 0; row < labels.size(); ++row)
      all[row * kClasses + static_cast<std::size_t>(labels[row])] += 1 - share;
    return all;
  }
  float loss(float share) const {
    float total = 0;
    const Values right = target(share);
    for (std::size_t i = 0; i < right.size(); ++i) total -= right[i] * logarithms[i] / 4;
    return total;
  }
  Program::Ref product(Program& program, const char* type, const char* scope) const {
    return program.add(type, {Program::parameter("data-0", x, "(4,8)"), Program::parameter("w", w, "(8,8)")}, scores,
                       "(4,8)", scope);
  }
};

void add_golden_loss(Program& program) {
  const Scores net;
  auto one = net.product(program, "linear", "Default/net");
  program.add("cross_entropy_loss", {one, Program::parameter("data-1", net.labels, "(4)")}, {net.loss(0.1F)}, "()");
  program.call_with(real("label_smoothing", 0.1));
}

void add_number(Program& program, double number) {
  CatalogTensor& input = program.last().tensors.emplace_back();
  input.is_input = true;
  input.slot = 1;
  input.constant = number;
}

// `share`: of the smoothing; 0: labels are taken as they are.
void add_own_loss(Program& program, float share) {
  const Scores net;
  auto one = net.product(program, "matmul", kWritten);
  auto two = program.add("log_softmax", {one}, net.logarithms, "(4,8)", kWritten);
  Values right = net.target(0), terms = net.target(share);
  auto hot = program.add("one_hot", {Program::parameter("data-1", net.labels, "(4)")}, right, "(4,8)", kWritten);
  if (share > 0) {
    right = times(right, 1 - share);
    hot = program.add("mul", {hot}, right, "(4,8)", kWritten);
    add_number(program, static_cast<double>(1 - share));
    hot = program.add("add", {hot}, terms, "(4,8)", kWritten);
    add_number(program, static_cast<double>(share / kClasses));
  }
  Values products, sums(4);
  for (std::size_t i = 0; i < terms.size(); ++i) products.push_back(terms[i] * net.logarithms[i]);
  for (std::size_t i = 0; i < terms.size(); ++i) sums[i / kClasses] += products[i];
  auto three = program.add("mul", {two, hot}, products, "(4,8)", kWritten);
  program.last().line = 12;
  auto four = program.add("sum", {three}, sums, "(4)", kWritten);
  auto five = program.add("mean", {four}, {-net.loss(share)}, "()", kWritten);
  program.add("neg", {five}, {net.loss(share)}, "()", kWritten);
}

TEST(RelationsOfLosses, LabelsThatAreNotSmoothedAreNamed) {
  Program golden, healthy, target;
  add_golden_loss(golden);
  add_own_loss(healthy, 0.1F);
  add_own_loss(target, 0);
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  for (const bool has_values : {true, false}) {
    for (Program* program : {&golden, &target}) {
      if (!has_values) program->forget_values();
    }
    const DumpComparison comparison = related(target, golden);
    EXPECT_NE(answer(comparison).find("takes labels as they are, and the golden loss smooths them by 0.1"),
              std::string::npos)
        << answer(comparison);
    EXPECT_EQ(comparison.findings.front().culprit->line, 12);
  }
}

TEST(RelationsOfLosses, LabelsThatAreSmoothedByAnotherNumberAreNamed) {
  Program golden, target;
  add_golden_loss(golden);
  add_own_loss(target, 0.2F);
  const std::string said = answer(related(target, golden));
  EXPECT_NE(said.find("multiplies by 0.8, and the golden loss smooths labels by 0.1"), std::string::npos) << said;
}

// Distances from what is wanted: large ones are not squared.
void add_distances(Program& program, const char* scope, const std::string& type) {
  const Values x = numbers(4 * kClasses, 35), w = numbers(kClasses * kClasses, 36), y = linear(x, w, kClasses);
  const Values wanted = numbers(4 * kClasses, 37), apart = both(y, wanted, [](float a, float b) { return a - b; });
  const Values squares = each(apart, square);
  float all_squared = 0, bounded = 0;
  for (const float one : apart) {
    all_squared += one * one / 64;
    bounded += (std::abs(one) < 1 ? one * one / 2 : std::abs(one) - 0.5F) / 32;
  }
  const auto data = Program::parameter("data-1", wanted, "(4,8)");
  auto one =
      program.add(type.empty() ? "linear" : "matmul",
                  {Program::parameter("data-0", x, "(4,8)"), Program::parameter("w", w, "(8,8)")}, y, "(4,8)", scope);
  if (type.empty()) {
    program.add("smooth_l1_loss", {one, data}, {bounded}, "()", scope);
    program.add("arange", {}, {0, 1, 2}, "(3)", scope);
    return;
  }
  auto two = program.add("sub", {one, data}, apart, "(4,8)", scope);
  auto three = program.add("abs", {two}, each(apart, [](float value) { return std::abs(value); }), "(4,8)", scope);
  auto four = program.add(type, {three}, squares, "(4,8)", scope);
  auto five = program.add("div", {four}, times(squares, 0.5F), "(4,8)", scope);
  program.add("mean", {five}, {all_squared}, "()", scope);
}

TEST(RelationsOfLosses, DistancesThatAreAllSquaredAreNamed) {
  for (const std::string type : {"pow", "square"}) {
    Program golden, target;
    add_distances(golden, "Default/net", "");
    add_distances(target, kWritten, type);
    for (Program* program : {&golden, &target}) program->forget_values();
    const std::string said = answer(related(target, golden));
    EXPECT_EQ(said.substr(0, type.size()), type) << said;
    EXPECT_NE(said.find("golden smooth_l1_loss only small ones"), std::string::npos) << said;
  }
}

// The mean of two losses, and its gradient.
void add_two_losses(Program& program, const char* scope, bool both_ways) {
  const Scores net;
  const bool is_golden = scope != kWritten;
  const float one_loss = net.loss(0), other_loss = net.loss(0.3F),
              all = both_ways ? (one_loss + other_loss) / 2 : one_loss;
  auto product = net.product(program, is_golden ? "linear" : "matmul", scope);
  auto one = program.add(is_golden ? "cross_entropy_loss" : "nll", {product}, {one_loss}, "()", scope);
  auto last = one;
  if (both_ways) {
    auto two = program.add(is_golden ? "cross_entropy_loss" : "nll", {product}, {other_loss}, "()", scope);
    auto sum = program.add("add", {one, two}, {one_loss + other_loss}, "()", scope);
    last = program.add("div", {sum}, {all}, "()", scope);
  } else {
    last = program.add("neg", {program.add("mean", {one}, {-one_loss}, "()", scope)}, {one_loss}, "()", scope);
  }
  auto begin = program.add("ones_like", {last}, {1}, "()", scope);
  const std::string backward = std::string("Gradients/") + scope;
  const Values gradient = numbers(4 * kClasses, both_ways ? 46 : 47);
  program.add(is_golden ? "mm" : "own_mm", {begin, product}, gradient, "(4,8)", backward);
}

TEST(RelationsOfLosses, ALossThatTheGoldenRunAddsToAnotherIsNamed) {
  Program golden, target;
  add_two_losses(golden, "Default/net", true);
  add_two_losses(target, kWritten, false);
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 3), "neg") << said;
  EXPECT_NE(said.find("gives a golden loss, and the golden run goes on from it: add"), std::string::npos) << said;
}

// Steps of a training: the backward pass reads what is inside of the loss, and the program prints it. `times_mean`: the loss
// is so many times the mean, and `times_gradient` its gradient.
void add_steps(Program& program, const char* scope, int steps, float times_mean, float times_gradient) {
  const bool is_golden = scope != kWritten;
  const Scores net;
  for (int step = 0; step < steps; ++step) {
    if (step > 0) program.next_step();
    // The update has made other weights of the first ones.
    const Values w = step == 0 ? net.w : both(net.w, times(numbers(net.w.size(), 45), times_gradient / 10), sum);
    const Values scores = linear(net.x, w, kClasses), gradient = times(numbers(scores.size(), 46), times_gradient);
    const float mean = net.loss(0) + static_cast<float>(step);
    auto y = program.add(is_golden ? "linear" : "einsum",
                         {Program::parameter("data-0", net.x, "(4,8)"), Program::parameter("w", w, "(8,8)")}, scores,
                         "(4,8)", scope);
    auto loss = program.add(is_golden ? "cross_entropy_loss" : "nll",
                            {y, Program::parameter("data-1", net.labels, "(4)")}, {mean * times_mean}, "()", scope);
    auto shown = program.add("detach", {loss}, {mean * times_mean}, "()", scope);
    program.add("item", {shown}, {}, "(0)", scope);
    program.last().tensors.pop_back();
    auto begin = program.add("ones_like", {loss}, {1}, "()", scope);
    const std::string backward = std::string("Gradients/") + scope;
    program.add(is_golden ? "nll_loss_backward" : "own_backward", {begin, loss}, gradient, "(4,8)", backward);
  }
}

TEST(RelationsOfLosses, OfATrainingTheLossThatFirstDiffersIsNamedAndNoWeightOfALaterStep) {
  Program golden, healthy, target;
  add_steps(golden, "Default/net", 2, 1, 1);
  add_steps(healthy, kWritten, 2, 1, 1);
  add_steps(target, kWritten, 2, 4, 4);
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const DumpComparison comparison = related(target, golden);
  const std::string said = answer(comparison);
  EXPECT_EQ(said.substr(0, 3), "nll") << said;
  EXPECT_EQ(comparison.findings.front().step, 0U);
}

TEST(RelationsOfLosses, StatisticsShowALossThatTheBackwardPassReadsAndTheProgramPrints) {
  Program golden, healthy, target;
  add_steps(golden, "Default/net", 1, 1, 1);
  add_steps(healthy, kWritten, 1, 1, 1);
  add_steps(target, kWritten, 1, 4, 1);
  for (Program* program : {&golden, &healthy, &target}) program->forget_values();
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 3), "nll") << said;
}

float bounded(float x) { return std::min(std::max(x, -0.5F), 0.5F); }

// A gate: what is multiplied is bounded, and the gate is steeper than a logistic function. The port computes it for more
// rows than the golden run: nothing corresponds before the end.
void add_gate(Program& program, bool is_golden, const std::string& lacking) {
  const char* scope = is_golden ? "Default/net" : kWritten;
  const char* shape = is_golden ? "(4,8)" : "(8,8)";
  const Values own = numbers(4 * kClasses, 38), w = numbers(kClasses * kClasses, 39);
  const Values x = is_golden ? own : joined(own, numbers(4 * kClasses, 50)), y = linear(x, w, kClasses);
  const Values up = lacking == "clamp" ? y : each(y, bounded), steep = lacking == "mul" ? y : times(y, 1.702F);
  const Values gate = each(steep, logistic), next = both(up, {1}, sum), all = both(next, gate, product);
  auto data = Program::parameter("data-0", own, "(4,8)");
  if (!is_golden) data = program.add("own_pad", {data}, x, shape, scope);
  auto one = program.add(is_golden ? "linear" : "einsum", {data, Program::parameter("w", w, "(8,8)")}, y, shape, scope);
  auto two = one, three = one;
  if (lacking != "clamp") {
    two = program.add("clamp", {one}, up, shape, scope);
    program.call_with(real("max", 0.5));
  }
  if (lacking != "mul") {
    three = program.add("mul", {one}, steep, shape, scope);
    add_number(program, 1.702);
  }
  auto four = program.add("sigmoid", {three}, gate, shape, scope);
  auto five = program.add("add", {two}, next, shape, scope);
  add_number(program, 1);
  auto six = program.add(is_golden ? "mul" : "multiply", {five, four}, all, shape, scope);
  const Values kept(all.begin(), all.begin() + 32);
  if (!is_golden) six = program.add("narrow", {six}, kept, "(4,8)", scope);
  program.add(is_golden ? "neg" : "rsub", {six}, each(kept, minus), "(4,8)", scope);
}

TEST(RelationsOfLosses, WhatIsDoneWithoutAGoldenNumberIsNamed) {
  for (const auto& [lacking, named] : {std::pair("clamp", "add"), std::pair("mul", "sigmoid")}) {
    Program golden, healthy, target;
    add_gate(golden, true, "");
    add_gate(healthy, false, "");
    add_gate(target, false, lacking);
    for (Program* program : {&golden, &healthy, &target}) program->forget_values();
    EXPECT_EQ(answer(related(healthy, golden)), "clean");
    const std::string said = answer(related(target, golden));
    EXPECT_EQ(said.substr(0, std::string_view(named).size()), named) << said;
  }
}

// The golden run has a number that the target lacks, and multiplies behind it; the target multiplies something else.
TEST(RelationsOfLosses, AMultiplicationOfOtherDataIsNotThatBehindALackingNumber) {
  const Values x = numbers(4 * kClasses, 60), w = numbers(kClasses * kClasses, 61), y = linear(x, w, kClasses);
  const Values angles = numbers(4 * kClasses, 62), wrong = each(angles, square);
  const auto add = [&](Program& program, const char* scope, bool is_golden, const Values& turns) {
    auto given = Program::parameter("data-0", x, "(4,8)"), weight = Program::parameter("w", w, "(8,8)");
    auto one = program.add(is_golden ? "linear" : "einsum", {given, weight}, y, "(4,8)", scope);
    auto turn = program.add(is_golden ? "cos" : "own_cos", {Program::parameter("data-1", angles, "(4,8)")}, turns,
                            "(4,8)", scope);
    const Values turned = both(y, turns, product), gate = each(turned, logistic), steep = times(turned, 1.702F);
    auto two = program.add(is_golden ? "golden_turn" : "mul", {one, turn}, turned, "(4,8)", scope);
    const Values all = both(steep, gate, product);
    auto last = two;
    if (is_golden) {
      auto three = program.add("mul", {two}, steep, "(4,8)", scope);
      add_number(program, 1.702);
      auto four = program.add("sigmoid", {two}, gate, "(4,8)", scope);
      last = program.add("mul", {three, four}, all, "(4,8)", scope);
    } else {
      last = program.add("own_gelu", {two}, all, "(4,8)", scope);
    }
    program.add(is_golden ? "linear" : "einsum", {last, weight}, linear(all, w, kClasses), "(4,8)", scope);
  };
  Program golden, target;
  add(golden, "Default/net", true, each(angles, tanh_of));
  add(target, kWritten, false, wrong);
  OpFamilies families;
  Pool own(target.catalog(), {}, families), other(golden.catalog(), {}, families);
  own.read(Threads(1));
  other.read(Threads(1));
  const RelationJudgement judgement = judge_relations(own, other, Threads(1), nullptr);
  ASSERT_GT(judgement.target.ops.size(), 2U);
  EXPECT_FALSE(left_out_with_number(own, other, judgement, judgement.target.ops));
}

// A function that gives 0 everywhere, in the middle of others.
void add_flat(Program& program, const char* scope, bool is_golden, bool is_flat) {
  const Values x = numbers(4 * kClasses, 40), w = numbers(kClasses * kClasses, 41), y = linear(x, w, kClasses);
  const Values below = times(each(y, logistic), -1), bent = is_flat ? Values(32, 0) : each(below, tanh_of);
  const Values more = numbers(4 * kClasses, 48), w2 = numbers(kClasses * kClasses, 49);
  const Values then = both(bent, more, sum), last = linear(then, w2, kClasses);
  auto data = Program::parameter("data-0", x, "(4,8)"), weight = Program::parameter("w", w, "(8,8)");
  program.add("zeros", {}, Values(4, 0), "(4)", scope);
  auto one = program.add(is_golden ? "linear" : "einsum", {data, weight}, y, "(4,8)", scope);
  auto two = program.add("below", {one}, below, "(4,8)", scope);
  auto three = program.add(is_flat ? "relu" : "tanh", {two}, bent, "(4,8)", scope);
  auto four = program.add("add", {three, Program::parameter("data-1", more, "(4,8)")}, then, "(4,8)", scope);
  auto five =
      program.add(is_golden ? "linear" : "einsum", {four, Program::parameter("w2", w2, "(8,8)")}, last, "(4,8)", scope);
  program.add(is_golden ? "square" : "pow", {five}, each(last, square), "(4,8)", scope);
}

TEST(RelationsOfLosses, StatisticsShowAFunctionThatGivesOneNumberEverywhere) {
  Program golden, healthy, target;
  add_flat(golden, "Default/net", true, false);
  add_flat(healthy, kWritten, false, false);
  add_flat(target, kWritten, false, true);
  for (Program* program : {&golden, &healthy, &target}) program->forget_values();
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 4), "relu") << said;
  EXPECT_NE(said.find("gives one number everywhere"), std::string::npos) << said;
}

}  // namespace
}  // namespace sonde
