// Golden tensors in the wrong role: read by another operator, times another number, in another slot of an attention.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "relations/networks.h"

namespace sonde {
namespace {

constexpr std::size_t kSide = 8;
constexpr const char* kOwnScope = "Default/own";

Program::Ref square_of(const char* name, std::uint32_t seed) {
  return Program::parameter(name, numbers(kSide * kSide, seed), "(8,8)");
}

// A second input of one element: the number of the program.
void multiplied_by(Program& program, double number) {
  CatalogTensor& input = program.last().tensors.emplace_back();
  input.is_input = true;
  input.slot = 1;
  input.constant = number;
}

Attribute axis_attribute(std::int64_t axis) {
  return {.name = "dim", .kind = AttributeKind::integer, .integers = {axis}, .reals = {}, .text = {}};
}

// Type, inputs and result of an operator of 8 by 8 elements, in the scope of its side.
Program::Ref step_of(Program& program, bool is_golden, const char* type, const std::vector<Program::Ref>& inputs,
                     const Values& result) {
  return program.add(type, inputs, result, "(8,8)", is_golden ? "Default/net" : kOwnScope);
}

Program::Ref product_of(Program& program, bool is_golden, const Program::Ref& x, const Program::Ref& weight) {
  return step_of(program, is_golden, is_golden ? "linear" : "einsum", {x, weight},
                 linear(x.values, weight.values, kSide));
}

float swished(float x) { return x * logistic(x); }

// A gated layer: silu of one product times another one.
void add_gated_layer(Program& program, bool is_golden, std::uint32_t gate_seed, std::uint32_t up_seed) {
  auto x = square_of("data-0", 101);
  auto gate = product_of(program, is_golden, x, square_of(is_golden ? "gate.weight" : "w1", gate_seed));
  auto up = product_of(program, is_golden, x, square_of(is_golden ? "up.weight" : "w3", up_seed));
  auto bent = step_of(program, is_golden, "silu", {gate}, each(gate.values, swished));
  auto both_of =
      step_of(program, is_golden, is_golden ? "mul" : "multiply", {bent, up}, both(bent.values, up.values, product));
  product_of(program, is_golden, both_of, square_of(is_golden ? "down.weight" : "w2", 104));
}

TEST(RelationsOfRoles, WeightsThatAreExchangedInAllLayersAreNamedByWhatReadsTheirProducts) {
  for (const bool by_values : {true, false}) {
    Program golden, healthy, target;
    add_gated_layer(golden, true, 102, 103);
    add_gated_layer(healthy, false, 102, 103);
    add_gated_layer(target, false, 103, 102);
    if (!by_values) {
      for (Program* program : {&golden, &healthy, &target}) program->forget_values();
    }
    EXPECT_EQ(answer(related(healthy, golden)), "clean");
    const std::string said = answer(related(target, golden));
    EXPECT_EQ(said.substr(0, 66), "parameter w1 (uncertain): is golden up.weight, and w3 is golden ga") << said;
  }
}

// Tables of powers that data are multiplied by.
void add_powers(Program& program, bool is_golden, double base) {
  constexpr std::size_t kSpeeds = 8;
  Values exponents, powers, speeds;
  for (std::size_t i = 0; i < kSpeeds; ++i) {
    exponents.push_back(static_cast<float>(i) / kSpeeds);
    powers.push_back(static_cast<float>(std::pow(base, static_cast<double>(i) / kSpeeds)));
    speeds.push_back(1 / powers.back());
  }
  const char* scope = is_golden ? "Default/net" : kOwnScope;
  auto table = Program::parameter("inv_freq", speeds, "(8)");
  if (!is_golden) {
    auto given = program.add("arange", {}, exponents, "(8)", scope);
    auto raised = program.add("pow", {given}, powers, "(8)", scope);
    table = program.add("reciprocal", {raised}, speeds, "(8)", scope);
  }
  auto x = square_of("data-0", 111);
  auto turned =
      step_of(program, is_golden, is_golden ? "mul" : "multiply", {x, table}, both(x.values, speeds, product));
  auto next = step_of(program, is_golden, "tanh", {turned}, each(turned.values, tanh_of));
  product_of(program, is_golden, next, square_of("w", 112));
}

TEST(RelationsOfRoles, ANumberThatIsRaisedToOtherPowersIsNamedWithBothNumbers) {
  for (const bool by_values : {true, false}) {
    Program golden, healthy, target;
    add_powers(golden, true, 10000);
    add_powers(healthy, false, 10000);
    add_powers(target, false, 500);
    if (!by_values) {
      for (Program* program : {&golden, &healthy, &target}) program->forget_values();
    }
    EXPECT_EQ(answer(related(healthy, golden)), "clean");
    const std::string said = answer(related(target, golden));
    EXPECT_EQ(said.substr(0, 3), "pow") << said;
    EXPECT_NE(said.find("raises 500 to powers, and the golden run 10000"), std::string::npos) << said;
  }
}

Values softmax_of_rows(const Values& x) {
  Values y;
  for (std::size_t row = 0; row < kSide; ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < kSide; ++i) sum += std::exp(static_cast<double>(x[row * kSide + i]));
    for (std::size_t i = 0; i < kSide; ++i)
      y.push_back(static_cast<float>(std::exp(static_cast<double>(x[row * kSide + i])) / sum));
  }
  return y;
}

// Scores of queries and keys, which are scaled by a number each.
void add_scores(Program& program, bool is_golden, float of_queries, float of_keys) {
  auto x = square_of("data-0", 121);
  auto q = product_of(program, is_golden, x, square_of("wq", 122)),
       k = product_of(program, is_golden, x, square_of("wk", 123));
  const auto scaled = [&](const Program::Ref& one, float number) {
    if (number == 1) return one;
    auto result = step_of(program, is_golden, "mul", {one}, times(one.values, number));
    multiplied_by(program, static_cast<double>(number));
    return result;
  };
  auto queries = scaled(q, of_queries), keys = scaled(k, of_keys);
  auto scores = step_of(program, is_golden, "matmul", {queries, keys}, linear(queries.values, keys.values, kSide));
  auto weights = step_of(program, is_golden, "softmax", {scores}, softmax_of_rows(scores.values));
  program.call_with(axis_attribute(-1));
  product_of(program, is_golden, weights, square_of("wo", 124));
}

TEST(RelationsOfRoles, AScaleOfQueriesAndKeysIsOneNumberTogether) {
  Program golden, healthy, target;
  add_scores(golden, true, 0.25F, 1);
  add_scores(healthy, false, 0.5F, 0.5F);
  add_scores(target, false, 0.5F, 0.25F);
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const std::string said = answer(related(target, golden));
  EXPECT_NE(said.find("scales by 0.25, and all together by 0.125, and the golden attention by 0.25"), std::string::npos)
      << said;
}

// `adds_again`: behind the last product its bias, which the product has, too.
void add_last_layer(Program& program, bool is_golden, bool adds_again) {
  auto x = square_of("data-0", 131);
  for (std::uint32_t layer = 0; layer < 4; ++layer) {
    auto w = square_of("w", 132 + layer);
    auto bias = Program::parameter("b", numbers(kSide, 142 + layer), "(8)");
    auto y = step_of(program, is_golden, is_golden ? "linear" : "addmm", {x, w, bias},
                     both(linear(x.values, w.values, kSide), bias.values, sum));
    x = layer < 3 ? step_of(program, is_golden, "tanh", {y}, each(y.values, tanh_of)) : y;
    if (layer == 3 && adds_again) step_of(program, is_golden, "add", {y, bias}, both(y.values, bias.values, sum));
  }
}

TEST(RelationsOfRoles, ABiasThatIsAddedToTheLastResultAgainIsNamed) {
  for (const bool by_values : {true, false}) {
    Program golden, healthy, target;
    add_last_layer(golden, true, false);
    add_last_layer(healthy, false, false);
    add_last_layer(target, false, true);
    if (!by_values) {
      for (Program* program : {&golden, &healthy, &target}) program->forget_values();
    }
    EXPECT_EQ(answer(related(healthy, golden)), "clean");
    const std::string said = answer(related(target, golden));
    EXPECT_EQ(said.substr(0, 51), "add (uncertain): goes on from the last golden resul") << said;
  }
}

// Layers whose weights the port keeps with their scales.
void add_scaled_layers(Program& program, bool is_golden) {
  auto x = square_of("data-0", 151);
  for (std::uint32_t layer = 0; layer < 4; ++layer) {
    const Values w = numbers(kSide * kSide, 152 + layer), factor = numbers(kSide, 162 + layer);
    Values packed = w;
    for (std::size_t i = 0; i < packed.size(); ++i) packed[i] *= factor[i / kSide];
    auto y = product_of(program, is_golden, x, Program::parameter("w", is_golden ? w : packed, "(8,8)"));
    if (is_golden) {
      y = step_of(program, true, "mul", {y, Program::parameter("s", factor, "(8)")}, both(y.values, factor, product));
    }
    x = step_of(program, is_golden, "tanh", {y}, each(y.values, tanh_of));
  }
}

TEST(RelationsOfRoles, WeightsOfAnotherFormAreRightIfTheirProductsAreGolden) {
  Program golden, healthy;
  add_scaled_layers(golden, true);
  add_scaled_layers(healthy, false);
  const DumpComparison comparison = related(healthy, golden);
  EXPECT_EQ(answer(comparison), "clean");
  EXPECT_TRUE(comparison.notes.empty()) << comparison.notes.front();
}

// Of statistics: the sigmoid of the port is a little steeper, and a norm behind it hides it for the most part.
void add_hidden_error(Program& program, bool is_golden, float steep) {
  auto x = square_of("data-0", 171);
  auto y = product_of(program, is_golden, x, square_of("w1", 172));
  auto gate = step_of(program, is_golden, "sigmoid", {y}, each(times(y.values, steep), logistic));
  auto z = product_of(program, is_golden, gate, square_of("w2", 173));
  Values end = z.values;
  for (float& value : end) value = value > 0 ? 1.0F + value * 1e-4F : -1.0F + value * 1e-4F;
  auto last = step_of(program, is_golden, is_golden ? "layer_norm" : "own_norm", {z}, end);
  product_of(program, is_golden, last, square_of("w3", 174));
}

TEST(RelationsOfRoles, AnErrorByStatisticsThatGoesOnIsFoundAlthoughLaterResultsHideIt) {
  Program golden, healthy, target;
  add_hidden_error(golden, true, 1);
  add_hidden_error(healthy, false, 1);
  add_hidden_error(target, false, 1.001F);
  for (Program* program : {&golden, &healthy, &target}) program->forget_values();
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 7), "sigmoid") << said;
}

}  // namespace
}  // namespace sonde
