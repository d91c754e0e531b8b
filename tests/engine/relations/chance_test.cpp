// Results that are near a golden tensor by chance, rows that were chosen, and gradients that are written out.
#include <cmath>
#include <cstddef>
#include <string>

#include "relations/networks.h"

namespace sonde {
namespace {

constexpr const char* kOwnWay = "Default/port";
constexpr std::size_t kColumns = 8;

struct Raised {
  Values x = numbers(4 * kColumns, 41), w = numbers(kColumns * kColumns, 42), then = numbers(kColumns * kColumns, 43);
  Values h = linear(x, w, kColumns), variance = each(h, [](float v) { return v * v + 0.5F; });
  Values raised = each(h, [](float v) { return (v * v + 0.5F) * 1.00005F; });
};

float applied(const std::string& type, float v) {
  if (type == "pow" || type == "rsqrt") return 1 / std::sqrt(v);
  if (type == "sqrt") return std::sqrt(v);
  if (type == "reciprocal") return 1 / v;
  if (type == "add") return v + 1;
  if (type == "sub") return v - 1;
  if (type == "rsub") return 1 - v;
  return type == "div" ? v / 3 : type == "mul" ? 3 * v : v * v;
}

// The golden run has the variance, and of a little more than that only the result of `type`. The target may bend it wrongly.
void add_raised(Program& program, bool is_golden, const std::string& type, float (*bend)(float)) {
  const Raised net;
  const char* scope = is_golden ? "Default/net" : kOwnWay;
  Values result;
  for (const float v : net.raised) result.push_back(applied(type, v));
  const auto data = Program::parameter("data-0", net.x, "(4,8)"), w = Program::parameter("w", net.w, "(8,8)");
  auto one = program.add(is_golden ? "linear" : "matmul", {data, w}, net.h, "(4,8)", scope);
  auto two = program.add(is_golden ? "variance" : "own_variance", {one}, net.variance, "(4,8)", scope);
  auto three = is_golden ? two : program.add("raised", {two}, net.raised, "(4,8)", scope);
  auto four = program.add(is_golden ? "golden_" + type : type, {three}, result, "(4,8)", scope);
  const Values bent = each(result, bend), y = linear(bent, net.then, kColumns);
  auto five = program.add(is_golden ? "tanh" : "bend", {four}, bent, "(4,8)", scope);
  auto then = Program::parameter("then", net.then, "(8,8)");
  auto six = program.add(is_golden ? "linear" : "mm", {five, then}, y, "(4,8)", scope);
  // The last sum reads it, too.
  const Values last = both(y, net.raised, sum);
  program.add(is_golden ? "golden_last" : "own_last", {six, three}, last, "(4,8)", scope);
}

TEST(RelationsByChance, WhatIsComputedOfAResultShowsThatItIsAnother) {
  for (const char* type : {"pow", "rsqrt", "sqrt", "reciprocal", "add", "sub", "rsub", "div", "mul"}) {
    Program golden, healthy, target;
    add_raised(golden, true, type, tanh_of);
    add_raised(healthy, false, type, tanh_of);
    add_raised(target, false, type, logistic);
    EXPECT_EQ(answer(related(healthy, golden)), "clean") << type;
    const std::string said = answer(related(target, golden));
    EXPECT_EQ(said.substr(0, 4), "bend") << type << ": " << said;
  }
}

// Rows of a table: of the golden run also those of padding, which the target leaves out.
void add_chosen(Program& program, bool is_golden, bool is_right) {
  const Values table = numbers(20 * kColumns, 51), w = numbers(kColumns * kColumns, 52),
               then = numbers(kColumns * kColumns, 53);
  const Values ids = is_golden ? Values{3, 9, 0, 17, 5, 12} : Values{3, 9, 17, 5, 12};
  Values rows;
  for (const float id : ids) {
    const auto first = table.begin() + static_cast<std::ptrdiff_t>(id) * static_cast<std::ptrdiff_t>(kColumns);
    rows.insert(rows.end(), first, first + static_cast<std::ptrdiff_t>(kColumns));
  }
  const char* scope = is_golden ? "Default/net" : kOwnWay;
  const std::string shape = is_golden ? "(2,3,8)" : "(5,8)";
  auto numbers_of_rows = Program::parameter("data-0", ids, is_golden ? "(2,3)" : "(5)");
  auto data = program.add(is_golden ? "embedding" : "index",
                          {Program::parameter("table", table, "(20,8)"), numbers_of_rows}, rows, shape, scope);
  CatalogTensor& chosen = program.last().tensors[1];
  chosen.dtype = DType::int64;
  chosen.file = {};
  const Values h = linear(rows, w, kColumns), a = both(h, rows, is_right ? sum : product);
  const char* product_type = is_golden ? "linear" : "matmul";
  auto one = program.add(product_type, {data, Program::parameter("w", w, "(8,8)")}, h, shape, scope);
  auto two = program.add(is_golden ? "golden_add" : "add", {data, one}, a, shape, scope);
  const Values y = linear(a, then, kColumns);
  auto three = program.add(product_type, {two, Program::parameter("then", then, "(8,8)")}, y, shape, scope);
  program.add(is_golden ? "square" : "own_square", {three}, each(y, square), shape, scope);
}

TEST(RelationsByChance, RowsThatAreLeftOutAreNotInAnotherOrder) {
  Program golden, healthy, target;
  add_chosen(golden, true, true);
  add_chosen(healthy, false, true);
  add_chosen(target, false, false);
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 3), "add") << said;
}

// One matrix of keys that both heads share.
void add_shared(Program& program, bool is_golden, float scale) {
  const std::size_t rows = 5;
  const Values x = numbers(rows * kColumns, 61), w = numbers(kColumns * kColumns, 62), h = linear(x, w, kColumns);
  const Values queries = numbers(2 * rows * kColumns, 63), keys = joined(h, h);
  Values scores;
  for (std::size_t head = 0; head < 2; ++head) {
    const auto first = queries.begin() + static_cast<std::ptrdiff_t>(head * rows * kColumns);
    const Values own(first, first + static_cast<std::ptrdiff_t>(rows * kColumns));
    scores = joined(scores, times(linear(own, h, kColumns), scale));
  }
  const char* scope = is_golden ? "Default/net" : kOwnWay;
  auto query = Program::parameter("data-1", queries, "(2,5,8)");
  auto key =
      program.add(is_golden ? "linear" : "matmul",
                  {Program::parameter("data-0", x, "(5,8)"), Program::parameter("w", w, "(8,8)")}, h, "(5,8)", scope);
  if (!is_golden) key = program.add("expand", {key}, keys, "(2,5,8)", scope);
  auto one = program.add(is_golden ? "scores" : "own_scores", {query, key}, scores, "(2,5,5)", scope);
  auto two = program.add(is_golden ? "sigmoid" : "own_sigmoid", {one}, each(scores, logistic), "(2,5,5)", scope);
  program.add(is_golden ? "square" : "own_square", {two}, each(each(scores, logistic), square), "(2,5,5)", scope);
}

TEST(RelationsByChance, KeysThatAllHeadsShareHaveNoOrder) {
  Program golden, healthy, target;
  add_shared(golden, true, 1);
  add_shared(healthy, false, 1);
  add_shared(target, false, 0.2F);
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 10), "own_scores") << said;
}

// y = tanh(w · x); the gradient of its sum with respect to w · x is 1 - y².
void add_gradient(Program& program, bool is_golden, bool squares) {
  const Values x = numbers(4 * kColumns, 71), w = numbers(kColumns * kColumns, 72), h = linear(x, w, kColumns);
  const Values y = each(h, tanh_of), slope = each(y, [](float v) { return 1 - v * v; });
  const Values grad = linear(transposed(slope, 4), transposed(x, 4), 4);
  const char* scope = is_golden ? "Default/net" : kOwnWay;
  const auto data = Program::parameter("data-0", x, "(4,8)"), weight = Program::parameter("w", w, "(8,8)");
  auto one = program.add(is_golden ? "linear" : "matmul", {data, weight}, h, "(4,8)", scope);
  auto two = program.add(is_golden ? "tanh" : "own_tanh", {one}, y, "(4,8)", scope);
  if (is_golden) {
    const char* backward = "Gradients/Default/net";
    auto back = program.add("tanh_backward", {two}, slope, "(4,8)", backward);
    program.last().phase = Phase::backward;
    auto of_w = program.add("golden_mm", {back, data}, grad, "(8,8)", backward);
    program.last().phase = Phase::backward;
    program.add("detach", {of_w}, grad, "(8,8)", backward);
    program.last().phase = Phase::backward;
    program.next_step();
    program.add("square", {Program::parameter("w", both(w, grad, sum), "(8,8)")}, each(both(w, grad, sum), square),
                "(8,8)", scope);
    return;
  }
  const Values own = squares ? slope : each(y, [](float v) { return 1 - v; });
  const Values own_grad = linear(transposed(own, 4), transposed(x, 4), 4);
  auto squared = squares ? program.add("own_square", {two}, each(y, square), "(4,8)", scope) : two;
  auto rest = program.add("rsub", {squared}, own, "(4,8)", scope);
  auto of_w = program.add("einsum", {rest, data}, own_grad, "(8,8)", scope);
  program.next_step();
  program.add("own_square", {Program::parameter("w", both(w, own_grad, sum), "(8,8)")},
              each(both(w, own_grad, sum), square), "(8,8)", scope);
}

TEST(RelationsByChance, GradientsThatAreWrittenOutAreBesideThoseOfTheBackwardPass) {
  Program golden, healthy, target;
  add_gradient(golden, true, true);
  add_gradient(healthy, false, true);
  add_gradient(target, false, false);
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 4), "rsub") << said;
}

// x + w · 0.5: with a number in the call, or of a product that comes before. The other run rounds a little otherwise.
void add_update(Program& program, bool has_number) {
  const Values x = numbers(4 * kColumns, 81), w = numbers(kColumns * kColumns, 82), h = linear(x, w, kColumns);
  const char* scope = has_number ? "Default/net" : kOwnWay;
  auto one =
      program.add(has_number ? "linear" : "matmul",
                  {Program::parameter("data-0", x, "(4,8)"), Program::parameter("w", w, "(8,8)")}, h, "(4,8)", scope);
  // The other run keeps the product, too.
  program.add(has_number ? "abs" : "own_abs", {one}, each(h, [](float v) { return std::abs(v); }), "(4,8)", scope);
  program.add(has_number ? "square" : "own_square", {one}, each(h, square), "(4,8)", scope);
  const Values half = times(h, 0.5F);
  Values last = both(x, half, sum);
  if (has_number) {
    for (float& value : last) value *= 1.000001F;
  } else {
    one = program.add("own_mul", {one}, half, "(4,8)", scope);
  }
  program.add("add_", {Program::parameter("data-0", x, "(4,8)"), one}, last, "(4,8)", scope);
  program.call_with(
      {.name = "alpha", .kind = AttributeKind::real, .integers = {}, .reals = {has_number ? 0.5 : 1.0}, .text = {}});
}

TEST(RelationsByChance, ANumberInACallIsNoOtherOneIfTheGoldenCallReadsAProductWithIt) {
  Program golden, target;
  add_update(golden, false);
  add_update(target, true);
  EXPECT_EQ(answer(related(target, golden)), "clean");
}

}  // namespace
}  // namespace sonde
