// A golden tensor in the place of a wrong result makes golden what follows: that shows which operator is to blame.
#include <cmath>
#include <string>

#include "relations/networks.h"

namespace sonde {
namespace {

float cubed(float x) { return x * x * x; }
float waved(float x) { return std::sin(3 * x) / 2; }  // no function that is tried

struct Gated {
  float (*bend)(float) = cubed;
  bool is_turned = false;  // the golden gate is computed with its axes exchanged
};

// (h / 2) times a gate, and two products. The golden run halves and multiplies in one operator; the target halves first,
// which has no counterpart.
void add_gated(Program& program, bool is_golden, const Gated& how = {}) {
  const Values x = numbers(5 * 8, 301), w = numbers(6 * 8, 302), gate = numbers(6 * 8, 303), then = numbers(4 * 6, 304),
               last = numbers(4 * 4, 305);
  const Values h = linear(x, w, 8), k = linear(x, gate, 8), v = each(k, how.bend);
  const Values u = each(h, [](float value) { return value / 2; }), s = both(u, v, product), y = linear(s, then, 6);
  const char* scope = is_golden ? "Default/net" : "Default/own";
  const char* of_product = is_golden ? "linear" : "matmul";
  const auto data = Program::parameter("data-0", x, "(5,8)");
  auto one = program.add(of_product, {data, Program::parameter("w", w, "(6,8)")}, h, "(5,6)", scope);
  if (!is_golden) one = program.add("halved", {one}, u, "(5,6)", scope);
  auto two = program.add(of_product, {data, Program::parameter("gate", gate, "(6,8)")},
                         how.is_turned ? transposed(k, 5) : k, how.is_turned ? "(6,5)" : "(5,6)", scope);
  two = program.add(is_golden ? "bend" : "own_bend", {two}, how.is_turned ? transposed(v, 5) : v,
                    how.is_turned ? "(6,5)" : "(5,6)", scope);
  one = program.add(is_golden ? "fused" : "mul", {one, two}, s, "(5,6)", scope);
  const Values turned = is_golden ? then : transposed(then, 4), end = is_golden ? last : transposed(last, 4);
  one = program.add(of_product, {one, Program::parameter("then", turned, is_golden ? "(4,6)" : "(6,4)")}, y, "(5,4)",
                    scope);
  one = program.add(is_golden ? "golden_tanh" : "tanh", {one}, each(y, tanh_of), "(5,4)", scope);
  program.add(of_product, {one, Program::parameter("last", end, "(4,4)")}, linear(each(y, tanh_of), last, 4), "(5,4)",
              scope);
}

std::string said_of(const Gated& target, const Gated& golden) {
  Program own, other;
  add_gated(own, false, target);
  add_gated(other, true, golden);
  return answer(related(own, other));
}

TEST(GoldenInPlace, WhatIsBesideTheCauseIsNotBlamed) {
  EXPECT_EQ(said_of({}, {}), "clean");
  const std::string said = said_of({.bend = waved}, {});
  EXPECT_EQ(said.find("own_bend: reads what the golden run reads; with golden Default/net/bend-op0 in the place of its "
                      "result, that of matmul"),
            0U)
      << said;
}

// Its input corresponds with its axes exchanged, too: an operator before it may have exchanged them.
TEST(GoldenInPlace, WhatReadsAxesInAnotherOrderIsUncertain) {
  EXPECT_EQ(said_of({}, {.is_turned = true}), "clean");
  const std::string said = said_of({.bend = waved}, {.is_turned = true});
  EXPECT_EQ(said.find("own_bend (uncertain): "), 0U) << said;
  EXPECT_EQ(said.find("halved"), std::string::npos) << said;
}

}  // namespace
}  // namespace sonde
