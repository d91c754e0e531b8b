// A training that the program writes out without modules, and norms of which the golden run changes the weight first.
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "relations/networks.h"

namespace sonde {
namespace {

constexpr std::size_t kFeatures = 8, kExamples = 4;
constexpr float kElements = kExamples * kFeatures;

float minus_of(float a, float b) { return a - b; }

// The output of a layer is scaled; the port scales its weight instead.
struct Scaled {
  explicit Scaled(Values weight) : w(std::move(weight)) {}

  Values w, x = numbers(kExamples * kFeatures, 61), s = numbers(kFeatures, 63);
  Values wanted = numbers(kExamples * kFeatures, 64), z = linear(x, w, kFeatures), y = both(z, s, product);
  Values away = both(y, wanted, minus_of), gradient = times(away, 2 / kElements);

  float loss() const {
    float total = 0;
    for (const float one : away) total += one * one / kElements;
    return total;
  }
  // Each row times the number of its output.
  Values scaled(Values rows) const {
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] *= s[i / kFeatures];
    return rows;
  }
  Values of_inputs() const { return linear(gradient, transposed(scaled(w), kFeatures), kFeatures); }
  Values of_scaled() const { return linear(transposed(gradient, kExamples), transposed(x, kExamples), kExamples); }
  Values updated(float factor) const { return both(w, times(scaled(of_scaled()), factor), minus_of); }
};

Values first_weight() { return numbers(kFeatures * kFeatures, 62); }

void add_golden_step(Program& program, const Scaled& net) {
  const auto x = Program::parameter("data-0", net.x, "(4,8)"), w = Program::parameter("w", net.w, "(8,8)");
  auto one = program.add("linear", {x, w}, net.z, "(4,8)");
  auto two = program.add("mul", {one, Program::parameter("s", net.s, "(8)")}, net.y, "(4,8)");
  auto loss = program.add("mse_loss", {two, Program::parameter("data-1", net.wanted, "(4,8)")}, {net.loss()}, "()");
  auto begin = program.add("ones_like", {loss}, {1}, "()");
  const std::string backward = "Gradients/Default/net";
  auto three = program.add("mse_loss_backward", {begin, two}, net.gradient, "(4,8)", backward);
  program.add("mm", {three, w}, net.of_inputs(), "(4,8)", backward);
  program.add("mm", {three, x}, net.scaled(net.of_scaled()), "(8,8)", backward);
}

// Without modules: all operators of its forward pass and of its optimizer are outside of any. `factor`: of its loss.
Program::Ref add_own_step(Program& program, const Scaled& net, const Program::Ref& w, float factor) {
  const auto add = [&](const char* type, const std::vector<Program::Ref>& inputs, const Values& output,
                       const char* shape, std::uint32_t line) {
    auto made = program.add(type, inputs, output, shape, "Default");
    program.last().phase = Phase::outside;
    program.last().line = line;
    return made;
  };
  const auto x = Program::parameter("data-0", net.x, "(4,8)");
  auto weight = add("einsum", {w, Program::parameter("s", net.s, "(8)")}, net.scaled(net.w), "(8,8)", 10);
  auto y = add("matmul", {x, weight}, net.y, "(4,8)", 11);
  auto away = add("sub", {y, Program::parameter("data-1", net.wanted, "(4,8)")}, net.away, "(4,8)", 12);
  auto squares = add("square", {away}, each(net.away, square), "(4,8)", 13);
  auto loss = add("mean", {squares}, {net.loss() * factor}, "()", 14);
  auto begin = add("ones_like", {loss}, {1}, "()", 14);
  const std::string backward = "Gradients/Default";
  auto gradient = program.add("own_backward", {begin, away}, times(net.gradient, factor), "(4,8)", backward);
  program.add("mm", {gradient, weight}, times(net.of_inputs(), factor), "(4,8)", backward);
  auto one = program.add("mm", {gradient, x}, times(net.of_scaled(), factor), "(8,8)", backward);
  auto two = program.add("own_scale", {one}, times(net.scaled(net.of_scaled()), factor), "(8,8)", backward);
  return add("sub", {w, two}, net.updated(factor), "(8,8)", 15);
}

void add_golden_training(Program& program) {
  const Scaled net(first_weight());
  add_golden_step(program, net);
  program.next_step();
  add_golden_step(program, Scaled(net.updated(1)));
}

// Both rounds are one step: nothing shows where it ends.
void add_own_training(Program& program, float factor) {
  const Scaled net(first_weight());
  const auto next = add_own_step(program, net, Program::parameter("data-2", net.w, "(8,8)"), factor);
  add_own_step(program, Scaled(net.updated(factor)), next, factor);
}

TEST(RelationsOfTrainings, TheLossIsNamedThatFollowsFromARightForwardPassWithoutModules) {
  Program golden, healthy, target;
  add_golden_training(golden);
  add_own_training(healthy, 1);
  add_own_training(target, 8);
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const DumpComparison comparison = related(target, golden);
  ASSERT_FALSE(comparison.findings.empty());
  EXPECT_EQ(comparison.findings.front().culprit->line, 14) << answer(comparison);
}

// A norm whose weight is one more than the parameter.
struct Norm {
  Values x = numbers(kExamples * kFeatures, 71), w = numbers(kFeatures, 72), b = numbers(kFeatures, 73);
  Values centred = x, normalised = x, spread;

  Norm() {
    for (std::size_t row = 0; row < kExamples; ++row) {
      float mean = 0, squares = 0;
      for (std::size_t i = 0; i < kFeatures; ++i) mean += x[row * kFeatures + i] / kFeatures;
      for (std::size_t i = 0; i < kFeatures; ++i) centred[row * kFeatures + i] -= mean;
      for (std::size_t i = 0; i < kFeatures; ++i) squares += square(centred[row * kFeatures + i]) / kFeatures;
      spread.push_back(std::sqrt(squares + 1e-5F));
      for (std::size_t i = 0; i < kFeatures; ++i)
        normalised[row * kFeatures + i] = centred[row * kFeatures + i] / spread[row];
    }
  }
  Values result(float more) const { return both(both(normalised, both(w, {more}, sum), product), b, sum); }
};

void add_golden_norm(Program& program) {
  const Norm net;
  const auto w = Program::parameter("norm.weight", net.w, "(8)"), b = Program::parameter("norm.bias", net.b, "(8)");
  auto one = program.add("add", {w}, both(net.w, {1}, sum), "(8)");
  auto two = program.add("layer_norm", {Program::parameter("data-0", net.x, "(4,8)"), one, b}, net.result(1), "(4,8)");
  program.add("relu", {two}, each(net.result(1), [](float x) { return std::max(x, 0.0F); }), "(4,8)");
  program.add("arange", {}, {0, 1, 2}, "(3)");
}

void add_own_norm(Program& program, bool adds_one) {
  const Norm net;
  const char* scope = "Default/written";
  const auto w = Program::parameter("data-1", net.w, "(8)"), b = Program::parameter("data-2", net.b, "(8)");
  auto one = program.add("own_centre", {Program::parameter("data-0", net.x, "(4,8)")}, net.centred, "(4,8)", scope);
  auto two = program.add("own_spread", {one}, net.spread, "(4,1)", scope);
  auto three = program.add("div", {one, two}, net.normalised, "(4,8)", scope);
  auto weight = w;
  if (adds_one) weight = program.add("add", {w}, both(net.w, {1}, sum), "(8)", scope);
  const Values scaled = both(net.normalised, weight.values, product);
  auto four = program.add("mul", {three, weight}, scaled, "(4,8)", scope);
  auto five = program.add("add", {four, b}, both(scaled, net.b, sum), "(4,8)", scope);
  program.add("own_relu", {five}, each(both(scaled, net.b, sum), [](float x) { return std::max(x, 0.0F); }), "(4,8)",
              scope);
}

TEST(RelationsOfTrainings, AWeightIsNotThatOfAnotherNormIfTheGoldenOneReadsOneMore) {
  Program golden, healthy, target;
  add_golden_norm(golden);
  add_own_norm(healthy, true);
  add_own_norm(target, false);
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 3), "mul") << said;
  EXPECT_EQ(said.find("norm.bias"), std::string::npos) << said;
}

}  // namespace
}  // namespace sonde
