// Which op is named, where a difference goes through ops whose parts say little.
#include "ask/unsharded/causes.h"

#include "unsharded/joined_steps.h"

namespace sonde {
namespace {

Values less(Values values, const Values& other) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] -= other[i];
  return values;
}

// A scaled tensor, of which each rank makes a part of a sum, and the result of the sum. The mean of the sum is right.
class SumOfScaled {
 public:
  explicit SumOfScaled(float factor) {
    const Values scaled = numbers(64, 1), sum = numbers(64, 2), result = numbers(64, 3), part = numbers(64, 4);
    add(steps_.golden(), scaled, sum, result);
    add(steps_.rank(0), times(scaled, factor), part, times(result, factor));
    add(steps_.rank(1), times(scaled, factor), less(sum, part), times(result, factor));
    steps_.forget_values();
  }

  ShardCauses causes() { return causes_of(steps_.joined()); }

 private:
  static void add(Program& program, const Values& scaled, const Values& sum, const Values& result) {
    const Program::Ref data = Program::parameter("", numbers(64, 5), "(8,8)");
    const Program::Ref first = program.add("mul", {data}, scaled, "(8,8)");
    program.add("relu", {program.add("linear", {first}, sum, "(8,8)")}, result, "(8,8)");
  }

  JoinedSteps steps_;
};

TEST(Causes, ADifferenceGoesThroughASumOfWhichStatisticsShowTheMeanAlone) {
  const ShardCauses found = SumOfScaled(1.5F).causes();
  ASSERT_FALSE(found.causes.empty());
  EXPECT_EQ(found.causes.front().golden, 0);
  EXPECT_TRUE(found.harmless.empty());
}

TEST(Causes, ARightSumHasNone) {
  const ShardCauses found = SumOfScaled(1).causes();
  EXPECT_TRUE(found.causes.empty());
  EXPECT_TRUE(found.harmless.empty());
}

// An update that no optimizer of the framework makes: the next step reads the result, and another op of this step does not.
ShardCauses causes_of_update(Phase first, bool is_read_later) {
  JoinedSteps steps;
  const Values gradient = numbers(64, 1), updated = numbers(64, 2);
  const auto add = [&](Program& program, float factor) {
    const Program::Ref made = program.add("mm", {}, gradient, "(64,)", "Default");
    program.last().phase = first;
    const Program::Ref wrong = program.add("add_", {made}, times(updated, factor), "(64,)", "Default");
    const Program::Ref seen = program.add("view", {wrong}, times(updated, factor), "(64,)", "Default");
    program.next_step();
    program.add("mul", {is_read_later ? seen : made}, gradient, "(64,)", "Default");
  };
  add(steps.rank(0), 1.5F);
  add(steps.rank(1), 1.5F);
  add(steps.golden(), 1);
  return causes_of(steps.joined());
}

TEST(Causes, WhatTheNextStepReadsIsAnEffectIfItIsMadeOfGradients) {
  const ShardCauses update = causes_of_update(Phase::backward, true);
  ASSERT_EQ(update.causes.size(), 1);
  EXPECT_EQ(update.causes.front().golden, 1);
  EXPECT_TRUE(causes_of_update(Phase::backward, false).causes.empty());
  EXPECT_TRUE(causes_of_update(Phase::forward, true).causes.empty());  // data that each rank prepares for itself
}

}  // namespace
}  // namespace sonde
