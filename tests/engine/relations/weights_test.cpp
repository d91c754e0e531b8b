// Weights that were not carried over as they are: halves, rows and names in another order, sums of two.
#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "relations/networks.h"

namespace sonde {
namespace {

constexpr std::size_t kWide = 8, kTokens = 5;
constexpr const char* kOwn = "Default/own";

Values weight_of(std::uint32_t layer, std::uint32_t number) { return numbers(kWide * kWide, 100 * layer + number + 1); }
std::string name_of_layer(std::size_t layer) { return "layers." + std::to_string(layer) + "."; }

// Each layer: sigmoid(gate · x) times (up · x).
void add_gated(Program& program) {
  Values x = numbers(kTokens * kWide, 31);
  Program::Ref at = Program::parameter("data-0", x, "(5,8)");
  for (std::uint32_t layer = 0; layer < 3; ++layer) {
    const Values gate = linear(x, weight_of(layer, 0), kWide), up = linear(x, weight_of(layer, 1), kWide);
    const std::string name = name_of_layer(layer);
    auto one =
        program.add("linear", {at, Program::parameter(name + "w_0", weight_of(layer, 0), "(8,8)")}, gate, "(5,8)");
    auto two = program.add("linear", {at, Program::parameter(name + "w_1", weight_of(layer, 1), "(8,8)")}, up, "(5,8)");
    auto bent = program.add("sigmoid", {one}, each(gate, logistic), "(5,8)");
    x = both(each(gate, logistic), up, product);
    at = program.add("mul", {bent, two}, x, "(5,8)");
  }
}

// With one weight for both, the halves of one layer perhaps exchanged, the second half of one perhaps an old one.
void add_fused(Program& program, std::uint32_t exchanged, std::uint32_t old = 3) {
  Values x = numbers(kTokens * kWide, 31);
  Program::Ref at = Program::parameter("data-0", x, "(5,8)");
  for (std::uint32_t layer = 0; layer < 3; ++layer) {
    const std::size_t first = layer == exchanged ? 1 : 0;
    const Values one = weight_of(layer, static_cast<std::uint32_t>(first)),
                 two = layer == old ? numbers(kWide * kWide, 999)
                                    : weight_of(layer, static_cast<std::uint32_t>(1 - first));
    const Values fused = linear(x, joined(one, two), kWide), gate = linear(x, one, kWide), up = linear(x, two, kWide);
    auto weight = Program::parameter(name_of_layer(layer) + "both", joined(one, two), "(16,8)");
    auto product_of = program.add("matmul", {at, weight}, fused, "(5,16)", kOwn);
    auto half = program.add("chunk", {product_of}, gate, "(5,8)", kOwn);
    auto other = program.add_output(up, "(5,8)");
    auto bent = program.add("logistic", {half}, each(gate, logistic), "(5,8)", kOwn);
    x = both(each(gate, logistic), up, product);
    at = program.add("times", {bent, other}, x, "(5,8)", kOwn);
  }
}

TEST(RelationsOfWeights, AFusedWeightIsBoth) {
  Program golden, target;
  add_gated(golden);
  add_fused(target, 3);
  const DumpComparison comparison = related(target, golden);
  EXPECT_EQ(answer(comparison), "clean");
  EXPECT_EQ(relation_of(comparison, "layers.1.both"),
            "joined: 0 to 7 of axis 0 = layers.1.w_0, 8 to 15 of axis 0 = layers.1.w_1");
}

TEST(RelationsOfWeights, AHalfThatWasNotCarriedOverIsNamedByTheGoldenWeightThatIsMissing) {
  Program golden, target;
  add_gated(golden);
  add_fused(target, 3, 1);
  EXPECT_EQ(answer(related(target, golden)),
            "parameter layers.1.both: 0 to 7 of axis 0 are golden layers.1.w_0, and 8 to 15 correspond to nothing: "
            "golden layers.1.w_1 was not carried over");
}

TEST(RelationsOfWeights, HalvesThatAreExchangedInOneLayerAreNamed) {
  Program golden, target;
  add_gated(golden);
  add_fused(target, 1);
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 23), "parameter layers.1.both") << said;
  EXPECT_NE(said.find("another order than in the other layers"), std::string::npos) << said;
}

struct One {
  std::string name;
  Values weight;
};

// y = (x · a) + (x · b), each product scaled by a row.
void add_pair(Program& program, const std::string& type, const char* scope, const One& a, const One& b) {
  const Values x = numbers(kTokens * kWide, 41);
  auto given = Program::parameter("data-0", x, "(5,8)");
  const Values one = both(x, a.weight, product), two = both(x, b.weight, product);
  const Values bent = each(two, tanh_of);
  auto left = program.add(type + "_mul", {given, Program::parameter(a.name, a.weight, "(8)")}, one, "(5,8)", scope);
  auto right = program.add(type + "_mul", {given, Program::parameter(b.name, b.weight, "(8)")}, two, "(5,8)", scope);
  auto other = program.add(type + "_tanh", {right}, bent, "(5,8)", scope);
  auto all = program.add(type + "_add", {left, other}, both(one, bent, sum), "(5,8)", scope);
  program.add(type + "_square", {all}, each(both(one, bent, sum), square), "(5,8)", scope);
}

TEST(RelationsOfWeights, TwoThatAreExchangedByTheirNamesAreNamed) {
  const Values a = numbers(kWide, 51), b = numbers(kWide, 52);
  Program golden, healthy, target;
  add_pair(golden, "net", "Default/net", {"mix_a", a}, {"mix_b", b});
  add_pair(healthy, "own", kOwn, {"w.mix_a", a}, {"w.mix_b", b});
  add_pair(target, "own", kOwn, {"w.mix_a", b}, {"w.mix_b", a});
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 17), "parameter w.mix_a") << said;
  EXPECT_NE(said.find("they are exchanged"), std::string::npos) << said;
}

// A table whose rows are chosen, and a product of them.
void add_table(Program& program, const std::string& type, const char* scope, const Values& table) {
  const Values w = numbers(kWide * kWide, 62);
  Values rows(table.begin() + kWide, table.begin() + 4 * kWide);
  auto given = Program::parameter("data-0", {1, 2, 3}, "(3)");
  auto one =
      program.add(type + "_rows", {Program::parameter(type + "_table", table, "(6,8)"), given}, rows, "(3,8)", scope);
  auto two = program.add(type == "net" ? "linear" : "matmul", {one, Program::parameter("w", w, "(8,8)")},
                         linear(rows, w, kWide), "(3,8)", scope);
  auto three = program.add(type + "_tanh", {two}, each(linear(rows, w, kWide), tanh_of), "(3,8)", scope);
  program.add(type + "_square", {three}, each(each(linear(rows, w, kWide), tanh_of), square), "(3,8)", scope);
}

TEST(RelationsOfWeights, OneThatGoesBackwardsIsNamed) {
  const Values table = numbers(6 * kWide, 61);
  Values backwards;
  for (std::size_t row = 6; row-- > 0;) {
    backwards.insert(backwards.end(), table.begin() + static_cast<std::ptrdiff_t>(row * kWide),
                     table.begin() + static_cast<std::ptrdiff_t>((row + 1) * kWide));
  }
  Program golden, target;
  add_table(golden, "net", "Default/net", table);
  add_table(target, "own", kOwn, backwards);
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 19), "parameter own_table") << said;
  EXPECT_NE(said.find("5 to 0 in steps of -1"), std::string::npos) << said;
}

TEST(RelationsOfWeights, OneBiasForTwoIsTheirSumAlsoInPartsOfAnotherOrder) {
  const Values x = numbers(kTokens * kWide, 71), w = numbers(12 * kWide, 72), a = numbers(12, 73), b = numbers(12, 74);
  const Values y = linear(x, w, kWide), z = both(both(y, a, sum), b, sum);
  Program golden, target;
  auto given = Program::parameter("data-0", x, "(5,8)");
  auto one = golden.add("linear", {given, Program::parameter("w", w, "(12,8)")}, y, "(5,12)");
  auto two = golden.add("add", {one, Program::parameter("a", a, "(12)")}, both(y, a, sum), "(5,12)");
  auto three = golden.add("add", {two, Program::parameter("b", b, "(12)")}, z, "(5,12)");
  golden.add("tanh", {three}, each(z, tanh_of), "(5,12)");

  // Its gates are in the order 0, 2, 1.
  const auto reordered = [](const Values& values, std::size_t size) {
    Values parts(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(size));
    parts.insert(parts.end(), values.begin() + static_cast<std::ptrdiff_t>(2 * size), values.end());
    parts.insert(parts.end(), values.begin() + static_cast<std::ptrdiff_t>(size),
                 values.begin() + static_cast<std::ptrdiff_t>(2 * size));
    return parts;
  };
  const Values own = reordered(w, 4 * kWide), bias = reordered(both(a, b, sum), 4);
  const Values product_of = linear(x, own, kWide), all = both(product_of, bias, sum);
  auto mine = target.add("matmul", {given, Program::parameter("kernel", own, "(12,8)")}, product_of, "(5,12)", kOwn);
  auto added = target.add("plus", {mine, Program::parameter("bias", bias, "(12)")}, all, "(5,12)", kOwn);
  auto bent = target.add("bend", {added}, each(all, tanh_of), "(5,12)", kOwn);
  target.add("view", {bent}, each(all, tanh_of), "(5,12)", kOwn);
  const DumpComparison comparison = related(target, golden);
  EXPECT_EQ(answer(comparison), "clean");
  EXPECT_EQ(relation_of(comparison, "bias"), "sum: the sum of golden a and b, its parts in another order");
}

TEST(RelationsOfWeights, ThoseThatAreJoinedAreNotTheGoldenOnesOfAnotherStep) {
  const Values x = numbers(kTokens * kWide, 91), a = numbers(kWide * kWide, 92), b = numbers(kWide * kWide, 93);
  const Values old = each(b, [](float value) { return value * 1.0005F; });  // before it was updated
  const Values one = linear(x, a, kWide), two = linear(x, b, kWide), all = both(one, two, sum);
  const auto given = Program::parameter("data-0", x, "(5,8)");
  Program golden, target;
  golden.add("add_", {Program::parameter("a", a, "(8,8)"), given}, a, "(8,8)");
  golden.add("mul", {given, given}, old, "(8,8)");
  auto first = golden.add("linear", {given, Program::parameter("a", a, "(8,8)")}, one, "(5,8)");
  auto second = golden.add("linear", {given, Program::parameter("b", b, "(8,8)")}, two, "(5,8)");
  auto added = golden.add("add", {first, second}, all, "(5,8)");
  golden.add("tanh", {added}, each(all, tanh_of), "(5,8)");

  auto both_weights = target.add("cat", {Program::parameter("w_0", a, "(8,8)"), Program::parameter("w_1", b, "(8,8)")},
                                 joined(a, b), "(16,8)", kOwn);
  auto product_of = target.add("matmul", {given, both_weights}, linear(x, joined(a, b), kWide), "(5,16)", kOwn);
  auto plus = target.add("plus", {product_of}, all, "(5,8)", kOwn);
  target.add("bend", {plus}, each(all, tanh_of), "(5,8)", kOwn);
  const DumpComparison comparison = related(target, golden);
  EXPECT_EQ(answer(comparison), "clean");
  EXPECT_EQ(relation_of(comparison, "cat"), "joined: 0 to 7 of axis 0 = Default/net/add_-op0, 8 to 15 of axis 0 = b");
}

// Rows of keys and of values of two heads in one golden weight, and `bend` of both.
void add_keys_and_values(Program& program, const Values& weight) {
  const Values x = numbers(kTokens * kWide, 81), y = linear(x, weight, kWide);
  auto one = program.add(
      "linear", {Program::parameter("data-0", x, "(5,8)"), Program::parameter("kv", weight, "(16,8)")}, y, "(5,16)");
  auto two = program.add("tanh", {one}, each(y, tanh_of), "(5,16)");
  program.add("square", {two}, each(each(y, tanh_of), square), "(5,16)");
}

// Rows `first` to `first` + 4, then those from `second` on.
Values two_of(const Values& weight, std::size_t first, std::size_t second) {
  const auto rows = [&](std::size_t from) {
    const auto begin = weight.begin() + static_cast<std::ptrdiff_t>(from * kWide);
    return Values(begin, begin + static_cast<std::ptrdiff_t>(4 * kWide));
  };
  return joined(rows(first), rows(second));
}

// With one weight for keys and one for values.
void add_apart(Program& program, const Values& k, const Values& v, float (*bend)(float)) {
  const Values x = numbers(kTokens * kWide, 81), keys = linear(x, k, kWide), values = linear(x, v, kWide);
  const auto given = Program::parameter("data-0", x, "(5,8)");
  auto one = program.add("matmul", {given, Program::parameter("w.k", k, "(8,8)")}, keys, "(5,8)", kOwn);
  auto two = program.add("product", {given, Program::parameter("w.v", v, "(8,8)")}, values, "(5,8)", kOwn);
  auto three = program.add("bend_keys", {one}, each(keys, tanh_of), "(5,8)", kOwn);
  auto four = program.add("bend_values", {two}, each(values, bend), "(5,8)", kOwn);
  program.add("square_keys", {three}, each(each(keys, tanh_of), square), "(5,8)", kOwn);
  program.add("square_values", {four}, each(each(values, bend), square), "(5,8)", kOwn);
}

TEST(RelationsOfWeights, OneThatBecameTwoInItsOwnOrderIsNotToBlameForAnotherFault) {
  const Values weight = numbers(16 * kWide, 82), k = two_of(weight, 0, 8), v = two_of(weight, 4, 12);
  Program golden, healthy, target;
  add_keys_and_values(golden, weight);
  add_apart(healthy, k, v, tanh_of);
  add_apart(target, k, v, logistic);
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 11), "bend_values") << said;
}

TEST(RelationsOfWeights, OneThatBecameTwoAndLostItsOrderIsNamed) {
  const Values weight = numbers(16 * kWide, 82), k = two_of(weight, 0, 8), v = two_of(weight, 12, 4);
  Program golden, target;
  add_keys_and_values(golden, weight);
  add_apart(target, k, v, logistic);
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 13), "parameter w.v") << said;
}

TEST(RelationsOfWeights, RowsThatNoOtherWeightHoldsAreMissed) {
  const Values weight = numbers(16 * kWide, 82), k = two_of(weight, 0, 8);
  Program golden, target;
  add_keys_and_values(golden, weight);
  add_apart(target, k, k, logistic);
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 11), "parameter w") << said;
}

// Scores plus a bias, which has its golden values, or was left as it began.
void add_with_bias(Program& program, const char* scope, const std::string& kind, const Values& bias) {
  const Values x = numbers(kTokens * kWide, 61), w = numbers(kWide * kWide, 62), y = linear(x, w, kWide);
  const Values z = both(y, bias, sum), bent = each(z, tanh_of);
  auto data = Program::parameter("data-0", x, "(5,8)");
  auto one = program.add("matmul", {data, Program::parameter("w", w, "(8,8)")}, y, "(5,8)", scope);
  auto two = program.add("add", {one, Program::parameter("b", bias, "(8)")}, z, "(5,8)", scope);
  auto three = program.add(kind, {two}, bent, "(5,8)", scope);
  auto four = program.add(kind + "_square", {three}, each(bent, square), "(5,8)", scope);
  program.add(kind + "_last", {four}, each(each(bent, square), tanh_of), "(5,8)", scope);
}

TEST(RelationsOfWeights, OneThatWasLeftAsItBeganIsNamed) {
  const Values bias = numbers(kWide, 63), zeros(kWide);
  for (const bool has_values : {true, false}) {
    Program golden, healthy, target;
    add_with_bias(golden, "Default/net", "tanh", bias);
    add_with_bias(healthy, kOwn, "bent", bias);
    add_with_bias(target, kOwn, "bent", zeros);
    if (!has_values) {
      for (Program* program : {&golden, &healthy, &target}) program->forget_values();
    }
    EXPECT_EQ(answer(related(healthy, golden)), "clean");
    const std::string said = answer(related(target, golden));
    EXPECT_EQ(said.substr(0, 11), "parameter b") << said;
    EXPECT_NE(said.find("has 0 in each element, golden b has not"), std::string::npos) << said;
  }
}

// Patches of 2 channels and 3 pixels, as a library has them, or with the channels last, and a kernel of 4.
constexpr std::size_t kPatches = 5, kPatch = 6;

Values channels_last(const Values& all) {
  Values turned;
  for (std::size_t row = 0; row < all.size() / kPatch; ++row) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(row * kPatch);
    turned = joined(turned, transposed({begin, begin + kPatch}, 2));
  }
  return turned;
}

void add_patches(Program& program, bool are_channels_last, bool is_kernel_turned) {
  const Values patches = numbers(kPatches * kPatch, 91), kernel = numbers(4 * kPatch, 92);
  const Values own = are_channels_last ? channels_last(patches) : patches;
  const Values weight = is_kernel_turned ? channels_last(kernel) : kernel;
  const char* scope = are_channels_last ? kPort : "Default/net";
  const std::string last = are_channels_last ? "(4,6)" : "(4,2,3)";
  // The golden run has no such patches.
  auto given = program.add(are_channels_last ? "unfold" : "cat", {Program::parameter("data-0", {1, 2}, "(2)")}, own,
                           are_channels_last ? "(5,6)" : "(5,2,3)", scope);
  const Values y = linear(own, weight, kPatch), z = each(y, tanh_of);
  auto one = program.add(are_channels_last ? "matmul" : "conv1d", {given, Program::parameter("kernel", weight, last)},
                         y, "(5,4)", scope);
  auto two = program.add(are_channels_last ? "bend" : "tanh", {one}, z, "(5,4)", scope);
  program.add(are_channels_last ? "pow" : "square", {two}, each(z, square), "(5,4)", scope);
}

TEST(RelationsOfWeights, OneInAnotherOrderThanTheDataIsNamedByTheProductThatItShouldGive) {
  Program golden, healthy, target;
  add_patches(golden, false, false);
  add_patches(healthy, true, true);
  add_patches(target, true, false);
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 16), "parameter kernel") << said;
  EXPECT_NE(said.find("in another order than that of the data"), std::string::npos) << said;
}

// Layers of one number each, which the port keeps as one weight and one bias.
TEST(RelationsOfWeights, SeveralThatHaveABiasBesideThemAreOneByStatistics) {
  constexpr std::size_t kLayers = 5;
  Program golden, target;
  Values weights, biases, all;
  const Values x = numbers(kLayers, 96), last = numbers(64, 97);
  for (std::uint32_t i = 0; i < kLayers; ++i) {
    const Values w = numbers(8, 110 + i), b = numbers(8, 120 + i), y = both(times(w, x[i]), b, sum);
    const std::string name = "layers." + std::to_string(i);
    golden.add("linear",
               {Program::parameter("data-" + std::to_string(i), {x[i]}, "(1)"),
                Program::parameter(name + ".weight", w, "(8,1)"), Program::parameter(name + ".bias", b, "(8)")},
               y, "(8)");
    weights = joined(weights, w);
    biases = joined(biases, b);
    all = joined(all, y);
  }
  auto tokens = golden.add("stack", {}, all, "(5,8)");
  golden.add("linear", {tokens, Program::parameter("last", last, "(8,8)")}, linear(all, last, 8), "(5,8)");
  Values products = weights;
  for (std::size_t i = 0; i < products.size(); ++i) products[i] *= x[i / 8];
  auto one =
      target.add("mul", {Program::parameter("data-0", x, "(5,1)"), Program::parameter("scales", weights, "(5,8)")},
                 products, "(5,8)", "Default/port");
  auto two = target.add("add", {one, Program::parameter("shifts", biases, "(5,8)")}, all, "(5,8)", "Default/port");
  target.add("matmul", {two, Program::parameter("own_last", last, "(8,8)")}, linear(all, last, 8), "(5,8)",
             "Default/port");
  for (Program* program : {&golden, &target}) program->forget_values();
  const DumpComparison comparison = related(target, golden);
  EXPECT_EQ(relation_of(comparison, "scales").substr(0, 6), "joined") << relation_of(comparison, "scales");
  EXPECT_EQ(relation_of(comparison, "shifts").substr(0, 6), "joined") << relation_of(comparison, "shifts");
}

// Two steps; behind the first one both weights are updated, or the target forgets one.
void add_updated(Program& program, bool is_golden, bool updates) {
  const char* scope = is_golden ? "Default/net" : kOwn;
  const Values first = weight_of(7, 0), then = weight_of(7, 1);
  for (std::uint32_t step = 0; step < 2; ++step) {
    if (step > 0) program.next_step();
    const Values change = numbers(kWide * kWide, 80), x = numbers(kTokens * kWide, 70 + step);
    const Values w = step > 0 && updates ? both(first, change, sum) : first;
    const Values v = step > 0 ? both(then, change, sum) : then;
    const Values y = linear(x, w, kWide), bent = each(y, logistic), z = linear(bent, v, kWide);
    const auto weight = [&](const char* name, const Values& values) {
      return Program::parameter(is_golden ? std::string("net.") + name : std::string("data-") + name,
                                is_golden ? values : transposed(values, kWide), "(8,8)");
    };
    const char* type = is_golden ? "linear" : "matmul";
    auto data = Program::parameter("data-0", x, "(5,8)");
    auto one = program.add(type, {data, weight("7", w)}, y, "(5,8)", scope);
    auto two = program.add(is_golden ? "sigmoid" : "bend", {one}, bent, "(5,8)", scope);
    auto three = program.add(type, {two, weight("8", v)}, z, "(5,8)", scope);
    program.add(is_golden ? "square" : "times", {three}, each(z, square), "(5,8)", scope);
  }
}

TEST(RelationsOfWeights, OneThatWasNotUpdatedIsNamed) {
  Program golden, healthy, target;
  add_updated(golden, true, true);
  add_updated(healthy, false, true);
  add_updated(target, false, false);
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 16), "parameter data-7") << said;
  EXPECT_NE(said.find("is golden net.7 as it was in step 0, and the golden run reads what it became"),
            std::string::npos)
      << said;
}

}  // namespace
}  // namespace sonde
