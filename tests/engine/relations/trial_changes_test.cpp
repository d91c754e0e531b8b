// Weights of other layers, elements in another order, and what an operator could have given instead.
#include "ask/relations/trial_changes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ask/relations/layers_exchanged.h"
#include "relations/networks.h"

namespace sonde {
namespace {

constexpr std::size_t kEdge = 8;

// Two layers of three products. The first is two in the golden run, with half of the weight each.
void add_carried_layers(Program& program, bool is_golden, const std::vector<std::uint32_t>& layers) {
  auto x = Program::parameter("data-0", numbers(4 * kEdge, 221), "(4,8)");
  std::uint32_t place = 0;
  for (const std::uint32_t layer : layers) {
    std::uint32_t seed = 230 + 10 * layer;
    for (const char* name : {"a", "b", "c"}) {
      const std::string full = (is_golden ? "h." : "layers.") + std::to_string(place) + "." + name;
      const Values w = numbers(kEdge * kEdge, seed++);
      const std::string scope = (is_golden ? "Default/net/" : "Default/own/") + full;
      const Values result = linear(x.values, w, kEdge);
      Program::Ref y;
      if (is_golden && name == std::string("a")) {
        const auto middle = w.begin() + static_cast<std::ptrdiff_t>(w.size() / 2);
        const Values low(w.begin(), middle), high(middle, w.end());
        auto one = program.add("linear", {x, Program::parameter(full + ".low", low, "(4,8)")},
                               linear(x.values, low, kEdge), "(4,4)", scope);
        auto two = program.add("linear", {x, Program::parameter(full + ".high", high, "(4,8)")},
                               linear(x.values, high, kEdge), "(4,4)", scope);
        y = program.add("cat", {one, two}, result, "(4,8)", scope);
      } else {
        y = program.add(is_golden ? "linear" : "matmul", {x, Program::parameter(full, w, "(8,8)")}, result, "(4,8)",
                        scope);
      }
      x = program.add(is_golden ? "tanh" : "own_tanh", {y}, each(y.values, tanh_of), "(4,8)", scope);
    }
    ++place;
  }
}

// The finding about the weights of a target with these layers, beside golden layers 0 and 1; empty: none.
std::string exchange_of(const std::vector<std::uint32_t>& layers) {
  Program golden, target;
  add_carried_layers(golden, true, {0, 1});
  add_carried_layers(target, false, layers);
  OpFamilies families;
  Pool own(target.catalog(), {}, families), other(golden.catalog(), {}, families);
  own.read(Threads(1));
  other.read(Threads(1));
  const RelationJudgement judgement = judge_relations(own, other, Threads(1), nullptr);
  const std::optional<Culprit> culprit = exchanged_layers(own, other, judgement);
  return culprit ? std::string(own.name_of(*culprit->weight)) + " " + culprit->what : "";
}

TEST(RelationsOfLayers, WeightsThatWereCarriedOverToOtherLayersAreNamed) {
  EXPECT_EQ(exchange_of({0, 1}), "");
  const std::string said = exchange_of({1, 0});
  EXPECT_EQ(said.substr(0, 11), "layers.0.a ") << said;
  EXPECT_NE(said.find("h.1.a.high, which the golden run reads in another layer"), std::string::npos) << said;
}

// A pair of pools with the judgement that the changes of an operator need.
struct Sides {
  Sides(const Program& target, const Program& golden)
      : own(target.catalog(), {}, families), other(golden.catalog(), {}, families) {
    own.read(Threads(1));
    other.read(Threads(1));
    judgement.relations.resize(own.tensors.size());
    judgement.is_weight.resize(own.tensors.size());
  }

  std::vector<TrialChange> changes_of(std::uint32_t op) {
    Recomputed known(own), golden_known(other);
    return TrialChanges(own, other, judgement, known, golden_known).of(op);
  }

  OpFamilies families;
  Pool own, other;
  RelationJudgement judgement;
};

bool gives(const std::vector<TrialChange>& changes, const std::string& what, const Values& values) {
  return std::ranges::any_of(changes, [&](const TrialChange& change) {
    return change.what == what && std::ranges::equal(change.result.values, values, [](double a, float b) {
             return std::abs(a - static_cast<double>(b)) < 1e-5;
           });
  });
}

TEST(TrialChanges, WhatMovesElementsMayPutThemElsewhere) {
  Program target, golden;
  const Values x = numbers(3 * 3 * 2, 241);
  target.add("permute", {Program::parameter("data-0", x, "(3,3,2)")}, x, "(3,3,2)");
  golden.add("permute", {Program::parameter("data-0", x, "(3,3,2)")}, x, "(3,3,2)");
  Values exchanged(x.size()), turned(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t row = i / 6, column = i / 2 % 3, last = i % 2;
    exchanged[column * 6 + row * 2 + last] = x[i];
    turned[(2 - row) * 6 + column * 2 + last] = x[i];
  }
  const std::vector<TrialChange> changes = Sides(target, golden).changes_of(0);
  EXPECT_TRUE(gives(changes, "it gives axes 0 and 1 exchanged", exchanged));
  EXPECT_TRUE(gives(changes, "it gives axis 0 turned round", turned));
}

TEST(TrialChanges, AProductMayReadTheWeightOfAnotherGoldenProduct) {
  Program target, golden;
  const Values x = numbers(4 * kEdge, 242), w = numbers(kEdge * kEdge, 243), v = numbers(kEdge * kEdge, 244);
  const auto data = Program::parameter("data-0", x, "(4,8)");
  target.add("linear", {data, Program::parameter("own", w, "(8,8)")}, linear(x, w, kEdge), "(4,8)");
  golden.add("linear", {data, Program::parameter("w", w, "(8,8)")}, linear(x, w, kEdge), "(4,8)");
  golden.add("linear", {data, Program::parameter("v", v, "(8,8)")}, linear(x, v, kEdge), "(4,8)");
  Sides sides(target, golden);
  const std::uint32_t weight = sides.own.ops[0].inputs[1];
  sides.judgement.is_weight[weight] = 1;
  sides.judgement.relations[weight].kind = RelationKind::same;
  sides.judgement.relations[weight].parts = {{.golden = sides.other.ops[0].inputs[1]}};
  const std::vector<TrialChange> changes = sides.changes_of(0);
  EXPECT_TRUE(gives(changes, "it is golden v", linear(x, v, kEdge)));
  EXPECT_FALSE(gives(changes, "it is golden w", linear(x, w, kEdge)));
}

// Heads of a product: 2 of 4 features. The target takes every second feature.
void add_cut_heads(Program& program, bool is_golden, bool takes_every_second) {
  constexpr std::size_t kCutRows = 6;
  const Values x = numbers(kCutRows * kEdge, 245), w = numbers(kEdge * kEdge, 246), y = linear(x, w, kEdge);
  const char* scope = is_golden ? "Default/net" : "Default/own";
  Values heads(y.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t row = i / kEdge, feature = i % kEdge;
    const std::size_t head = takes_every_second ? feature % 2 : feature / 4;
    const std::size_t place = takes_every_second ? feature / 2 : feature % 4;
    heads[head * kCutRows * 4 + row * 4 + place] = y[i];
  }
  Values scores;
  for (std::size_t head = 0; head < 2; ++head) {
    const auto begin = heads.begin() + static_cast<std::ptrdiff_t>(head * kCutRows * 4);
    const Values own(begin, begin + kCutRows * 4);
    scores = joined(scores, linear(own, own, 4));
  }
  auto one =
      program.add(is_golden ? "linear" : "matmul",
                  {Program::parameter("data-0", x, "(6,8)"), Program::parameter("w", w, "(8,8)")}, y, "(6,8)", scope);
  auto cut = program.add("view", {one}, y, takes_every_second ? "(6,4,2)" : "(6,2,4)", scope);
  auto moved = program.add("permute", {cut}, heads, "(2,6,4)", scope);
  program.add(is_golden ? "bmm" : "einsum", {moved, moved}, scores, "(2,6,6)", scope);
}

TEST(RelationsOfOrders, TheOperatorThatTakesOtherHeadsIsNamed) {
  Program golden, healthy, target;
  add_cut_heads(golden, true, false);
  add_cut_heads(healthy, false, false);
  add_cut_heads(target, false, true);
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 19), "permute (uncertain)") << said;
}

}  // namespace
}  // namespace sonde
