// Tables that several layers read, and tensors whose axes are exchanged before they are read.
#include <cstddef>
#include <string>

#include "ask/relations/shown_by_use.h"
#include "relations/networks.h"

namespace sonde {
namespace {

constexpr std::size_t kTableRows = 4, kTableWidth = 8;
constexpr const char* kUser = "Default/own";

Attribute whole_number(const std::string& name, std::int64_t value) {
  return {.name = name, .kind = AttributeKind::integer, .integers = {value}, .reals = {}, .text = {}};
}

float swish(float x) { return x * logistic(x); }
float difference(float a, float b) { return a - b; }

Values table() { return numbers(kTableRows * kTableWidth, 81); }
Values table_data() { return numbers(kTableRows * kTableWidth, 83); }
Values table_weight() { return numbers(kTableWidth * kTableWidth, 84); }

Program::Ref named(const char* name, const Values& values, const char* shape = "(4,8)") {
  return Program::parameter(name, values, shape);
}

// Of the golden layers, the result of the last product with the table.
Values last_product() {
  const Values h = linear(both(table_data(), table(), product), table_weight(), kTableWidth);
  return both(each(h, tanh_of), table(), product);
}

// By chance the sum of them and the table is like a golden result.
Values shifts() {
  const Values like = both(last_product(), times(numbers(kTableRows * kTableWidth, 82), 0.05F), sum);
  return both(like, table(), difference);
}

// Two layers that multiply by one table, and a function between them.
void add_golden_layers(Program& program) {
  const Values one = both(table_data(), table(), product),
               bent = each(linear(one, table_weight(), kTableWidth), tanh_of);
  auto first = program.add("mul", {named("data-0", table_data()), named("table", table())}, one, "(4,8)");
  auto next = program.add("linear", {first, named("w", table_weight(), "(8,8)")},
                          linear(one, table_weight(), kTableWidth), "(4,8)");
  auto two = program.add("tanh", {next}, bent, "(4,8)");
  const Values last = both(bent, table(), product);
  auto second = program.add("mul", {two, named("table", table())}, last, "(4,8)");
  program.add("linear", {second, named("w", table_weight(), "(8,8)")}, linear(last, table_weight(), kTableWidth),
              "(4,8)");
}

// x times the table, as x times (table + shifts) less x times the shifts: no step is golden but the last.
Program::Ref times_table(Program& program, const Program::Ref& x, const Program::Ref& shifted) {
  const Values more = both(x.values, shifted.values, product), rest = both(x.values, shifts(), product);
  auto one = program.add("mul", {x, shifted}, more, "(4,8)", kUser);
  auto two = program.add("mul", {x, named("shifts", shifts())}, rest, "(4,8)", kUser);
  return program.add("sub", {one, two}, both(more, rest, difference), "(4,8)", kUser);
}

void add_own_layers(Program& program, float (*function)(float), const char* name) {
  const Values sums = both(table(), shifts(), sum);
  auto shifted = program.add("add", {named("table", table()), named("shifts", shifts())}, sums, "(4,8)", kUser);
  auto first = times_table(program, named("data-0", table_data()), shifted);
  const Values turned = transposed(table_weight(), kTableWidth), h = linear(first.values, table_weight(), kTableWidth);
  auto next = program.add("matmul", {first, named("w", turned, "(8,8)")}, h, "(4,8)", kUser);
  auto two = program.add(name, {next}, each(h, function), "(4,8)", kUser);
  auto second = times_table(program, two, shifted);
  const Values last = linear(second.values, table_weight(), kTableWidth);
  program.add("matmul", {second, named("w", turned, "(8,8)")}, last, "(4,8)", kUser);
}

// By type of operator: its result is shown to be right.
bool is_shown(const Program& target, const Program& golden, const std::string& type) {
  OpFamilies families;
  Pool own(target.catalog(), {}, families), other(golden.catalog(), {}, families);
  own.read(Threads(1));
  other.read(Threads(1));
  const RelationJudgement judgement = judge_relations(own, other, Threads(1), nullptr);
  const std::vector<char> shown = shown_by_use(own, judgement);
  for (std::uint32_t i = 0; i < own.tensors.size(); ++i) {
    const std::uint32_t op = own.tensors[i].op;
    if (op != kNoOp && own.catalog_op(op).op_type == type) return shown[i] != 0;
  }
  ADD_FAILURE() << "no operator is a " << type;
  return false;
}

TEST(RelationsOfUses, ATableThatMakesGoldenValuesInOneLayerIsNotToBlameInTheNext) {
  Program golden, healthy, target;
  add_golden_layers(golden);
  add_own_layers(healthy, tanh_of, "tanh");
  add_own_layers(target, swish, "swish");
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 5), "swish") << said;
  EXPECT_TRUE(is_shown(target, golden, "add"));
  for (Program* program : {&golden, &healthy, &target}) program->forget_values();
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const std::string by_statistics = answer(related(target, golden));
  EXPECT_EQ(by_statistics.substr(0, 5), "swish") << by_statistics;
}

// A table in one piece, of which each half goes into a product: `halves` of them are golden.
void add_halves(Program& program, int halves) {
  const Values both_halves = both(table(), shifts(), sum);
  auto whole_table = program.add("stack", {named("a", table()), named("b", shifts())}, both_halves, "(4,8)", kUser);
  for (int half = 0; half < 2; ++half) {
    Values part;
    for (std::size_t row = 0; row < kTableRows; ++row) {
      for (std::size_t i = 0; i < kTableWidth / 2; ++i)
        part.push_back(both_halves[row * kTableWidth + static_cast<std::size_t>(half) * kTableWidth / 2 + i]);
    }
    auto chosen = program.add("slice", {whole_table}, part, "(4,4)", kUser);
    program.call_with_all({whole_number("dim", 1), whole_number("start", half * 4), whole_number("end", half * 4 + 4)});
    Values result = both(part, numbers(16, 85), product);
    if (half >= halves) result = each(result, square);
    program.add("mul", {chosen, named("c", numbers(16, 85), "(4,4)")}, result, "(4,4)", kUser);
  }
}

void add_golden_halves(Program& program) {
  const Values sums = both(table(), shifts(), sum);
  for (std::size_t half = 0; half < 2; ++half) {
    Values part;
    for (std::size_t row = 0; row < kTableRows; ++row) {
      for (std::size_t i = 0; i < kTableWidth / 2; ++i)
        part.push_back(sums[row * kTableWidth + half * kTableWidth / 2 + i]);
    }
    program.add("fused", {named("a", table()), named("b", shifts())}, both(part, numbers(16, 85), product), "(4,4)");
  }
}

TEST(RelationsOfUses, PartsShowATableOnlyIfTheyAreAllOfIt) {
  Program golden;
  add_golden_halves(golden);
  for (const int halves : {1, 2}) {
    Program target;
    add_halves(target, halves);
    EXPECT_EQ(is_shown(target, golden, "stack"), halves == 2) << halves;
  }
}

// Scores and a bias for each two of four places, which are looked up. `order`: of the axes (place, place, head).
void add_bias(Program& program, const char* scope, bool is_exchanged) {
  constexpr std::size_t kPlaces = 4, kHeads = 2;
  const Values x = numbers(kPlaces * kTableWidth, 86), w = numbers(kTableWidth * kTableWidth, 87),
               rows = numbers(7 * kHeads, 88);
  const bool is_golden = std::string_view(scope) != kUser;
  auto one = program.add(is_golden ? "linear" : "matmul", {named("data-0", x), named("w", w, "(8,8)")},
                         linear(x, w, kTableWidth), "(4,8)", scope);
  Values ids, looked_up, turned(kPlaces * kPlaces * kHeads), all;
  const Values scores = linear(x, joined(linear(x, w, kTableWidth), x), kTableWidth);
  for (std::size_t i = 0; i < kPlaces * kPlaces; ++i) {
    const std::size_t row = i / kPlaces + kPlaces - 1 - i % kPlaces;
    ids.push_back(static_cast<float>(row));
    for (std::size_t head = 0; head < kHeads; ++head) {
      looked_up.push_back(rows[row * kHeads + head]);
      const std::size_t at = is_exchanged ? i % kPlaces * kPlaces + i / kPlaces : i;
      turned[head * kPlaces * kPlaces + at] = rows[row * kHeads + head];
    }
  }
  all = both(scores, turned, sum);
  auto score = program.add(is_golden ? "bmm" : "own_scores", {one, named("data-0", x)}, scores, "(2,4,4)", scope);
  auto index = program.add("index", {named("rows", rows, "(7,2)"), Program::parameter("ids", ids, "(4,4)")}, looked_up,
                           "(4,4,2)", scope);
  auto moved = program.add("permute", {index}, turned, "(2,4,4)", scope);
  const std::vector<std::int64_t> dims =
      is_exchanged ? std::vector<std::int64_t>{2, 1, 0} : std::vector<std::int64_t>{2, 0, 1};
  program.call_with({.name = "dims", .kind = AttributeKind::integers, .integers = dims, .reals = {}, .text = {}});
  auto biased = program.add("add", {score, moved}, all, "(2,4,4)", scope);
  auto bent = program.add(is_golden ? "golden_tanh" : "tanh", {biased}, each(all, tanh_of), "(2,4,4)", scope);
  program.add("sigmoid", {bent}, each(each(all, tanh_of), logistic), "(2,4,4)", scope);
}

TEST(RelationsOfUses, TheOperatorThatExchangedTwoEqualAxesIsNamed) {
  Program golden, healthy, target;
  add_bias(golden, "Default/net", false);
  add_bias(healthy, kUser, false);
  add_bias(target, kUser, true);
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const std::string said = answer(related(target, golden));
  EXPECT_NE(said.find("permute (uncertain): if it gives its result transposed"), std::string::npos) << said;
  for (Program* program : {&golden, &healthy, &target}) program->forget_values();
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const std::string by_statistics = answer(related(target, golden));
  EXPECT_NE(
      by_statistics.find("permute (uncertain): gives golden values in another order than that in which golden add"),
      std::string::npos)
      << by_statistics;
}

// A chain whose operators both programs have, with other names of parameters. The port pads on its own, before a
// convolution of one axis that adds up three neighbours. `before`: zeros in front, of two.
void add_convolution(Program& program, bool is_golden, std::int64_t before) {
  constexpr std::int64_t kPlaces = 8;
  const std::string prefix = is_golden ? "model." : "own.";
  const Values x = numbers(kPlaces * kPlaces, 91), w1 = numbers(kPlaces * kPlaces, 92),
               w2 = numbers(kPlaces * kPlaces, 93);
  const Values h = linear(x, w1, kPlaces), kernel{0.7F, -0.4F, 0.9F};
  Values padded(kPlaces * (kPlaces + 2)), y;
  for (std::int64_t row = 0; row < kPlaces; ++row) {
    const auto at = [&](std::int64_t i) { return static_cast<std::size_t>(row * (kPlaces + 2) + i); };
    for (std::int64_t i = 0; i < kPlaces; ++i) padded[at(i + before)] = h[static_cast<std::size_t>(row * kPlaces + i)];
    for (std::int64_t i = 0; i < kPlaces; ++i)
      y.push_back(padded[at(i)] * kernel[0] + padded[at(i + 1)] * kernel[1] + padded[at(i + 2)] * kernel[2]);
  }
  const auto call = [](const char* name, const std::vector<std::int64_t>& numbers) {
    return Attribute{.name = name, .kind = AttributeKind::integers, .integers = numbers, .reals = {}, .text = {}};
  };
  auto one =
      program.add("linear", {named("data-0", x, "(8,8)"), named((prefix + "w1").c_str(), w1, "(8,8)")}, h, "(8,8)");
  auto two = one;
  if (!is_golden) {
    two = program.add("pad", {one}, padded, "(8,10)");
    program.call_with(call("pad", {before, 2 - before}));
  }
  two = program.add("conv1d", {two, named((prefix + "kernel").c_str(), kernel, "(1,1,3)")}, y, "(8,8)");
  program.call_with(call("padding", {is_golden ? 1 : 0}));
  auto three = program.add("tanh", {two}, each(y, tanh_of), "(8,8)");
  const Values z = linear(three.values, w2, kPlaces);
  auto four = program.add("linear", {three, named((prefix + "w2").c_str(), w2, "(8,8)")}, z, "(8,8)");
  auto five = program.add("sigmoid", {four}, each(z, logistic), "(8,8)");
  program.add("square", {five}, each(five.values, square), "(8,8)");
}

TEST(RelationsOfUses, WhereOperatorsOfTwoImplementationsAreAlikeValuesDecideADoubt) {
  Program golden, healthy, target;
  add_convolution(golden, true, 1);
  add_convolution(healthy, false, 1);
  add_convolution(target, false, 0);
  const auto programs = [](const Program& one, const Program& other) {
    Result<DumpComparison> comparison = compare_programs(one.catalog(), other.catalog(), {});
    EXPECT_TRUE(comparison) << comparison.error().message;
    return std::move(*comparison);
  };
  EXPECT_TRUE(programs(healthy, golden).findings.empty());
  const DumpComparison comparison = programs(target, golden);
  EXPECT_FALSE(comparison.correspondence.empty());
  EXPECT_EQ(answer(comparison).substr(0, 4), "pad ") << answer(comparison);
}

}  // namespace
}  // namespace sonde
