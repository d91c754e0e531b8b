// Each line of the step rules (docs/guide.md, "What a step is") as a program that reports its events to the clock.
#include "record/capture/step_clock.h"

#include <gtest/gtest.h>

#include <string>

namespace sonde {
namespace {

// Reports events and logs which chosen steps began (`+graph.iteration`) and ended (`-graph.iteration`), and when all of
// them were taken back (`~`).
class Program {
 public:
  explicit Program(const std::string& iteration = "all", StepRule rule = StepRule::automatic, std::uint64_t initial = 0,
                   bool by_request = false)
      : clock_(rule, iteration == "all" ? StepSet::all() : StepSet::parse(iteration), initial, by_request) {
    note(clock_.start());
  }

  Program& forward(bool has_parameters = true) { return note(clock_.root_forward(has_parameters, true, optimizer_)); }
  Program& evaluate_without_parameters() { return note(clock_.root_forward(false, false, optimizer_)); }
  Program& operators() {
    note(clock_.operator_seen());
    return note(clock_.operator_seen());
  }
  Program& modules_exist() { return note(clock_.modules_exist()); }
  Program& settle() {
    clock_.settle();
    return *this;
  }
  Program& evaluate() { return note(clock_.root_forward(true, false, optimizer_)); }
  // A forward without gradients, of a root that an optimizer trains, or of one that no optimizer trains.
  Program& own(std::uint64_t root = 1, bool evaluates = false) { return quiet(root, true, evaluates); }
  Program& other(std::uint64_t root = 2, bool evaluates = false) { return quiet(root, false, evaluates); }
  // A step of an engine that serves requests.
  Program& serve(bool asked_for) {
    clock_.next_is_asked_for(asked_for);
    return evaluate();
  }
  Program& step_over() { return note(clock_.step_over()); }
  Program& optimizer_steps() { return note(clock_.optimizer_end()); }
  Program& scaler_updates() { return note(clock_.scaler_update()); }
  Program& user_steps() { return note(clock_.manual_step()); }
  Program& gradient_history() { return note(clock_.autograd_started()); }
  Program& make_optimizer() {
    optimizer_ = true;
    return *this;
  }
  std::string end() {
    note(clock_.stop());
    return log_;
  }
  StepClock& clock() { return clock_; }
  const std::string& log() const { return log_; }

 private:
  Program& quiet(std::uint64_t root, bool trained, bool evaluates) {
    return note(clock_.quiet_forward(
        {.root = root, .optimizer_alive = optimizer_, .trained = trained, .evaluates = evaluates}));
  }
  Program& note(const std::vector<StepChange>& changes) {
    for (const StepChange& change : changes) {
      if (change.forgotten) {
        log_ += "~ ";
        continue;
      }
      log_ += (change.began ? "+" : "-") + std::to_string(change.step.graph) + "." +
              std::to_string(change.step.number) + " ";
    }
    return *this;
  }
  StepClock clock_;
  bool optimizer_ = false;
  std::string log_;
};

TEST(StepClock, AStepClosesAtTheFirstForwardAfterTheOptimizer) {
  Program p;
  p.make_optimizer().forward().optimizer_steps();
  EXPECT_EQ(p.log(), "+0.0 ");  // the ops between optimizer and next forward still belong to it
  p.forward().optimizer_steps();
  EXPECT_EQ(p.end(), "+0.0 -0.0 +0.1 -0.1 ");
}

TEST(StepClock, GradientAccumulationStaysInOneStep) {
  Program p;
  p.make_optimizer().forward().forward().forward().optimizer_steps().forward();
  EXPECT_EQ(p.log(), "+0.0 -0.0 +0.1 ");
}

TEST(StepClock, TwoOptimizersSteppingInTurnMakeOneStepUntilTheNextForward) {
  Program p;
  p.make_optimizer().forward().optimizer_steps().optimizer_steps().forward();
  EXPECT_EQ(p.log(), "+0.0 -0.0 +0.1 ");
}

TEST(StepClock, AGanMakesTwoStepsPerBatch) {
  Program p;
  p.make_optimizer();
  p.forward().forward().optimizer_steps();  // discriminator on real and fake
  p.forward().forward().optimizer_steps();  // generator through the discriminator
  p.forward();
  EXPECT_EQ(p.log(), "+0.0 -0.0 +0.1 -0.1 +0.2 ");
}

TEST(StepClock, WithoutAnOptimizerEachForwardIsAStep) {
  Program p;
  p.forward().forward();
  EXPECT_EQ(p.end(), "+0.0 -0.0 +0.1 -0.1 ");
}

TEST(StepClock, AProgramWithoutModulesIsStepZero) {
  Program p;
  p.operators().operators();
  EXPECT_EQ(p.end(), "+0.0 -0.0 ");
}

TEST(StepClock, WithoutModulesAnOptimizerClosesTheStep) {
  Program p;
  p.make_optimizer().operators().optimizer_steps().operators().optimizer_steps();
  EXPECT_EQ(p.end(), "+0.0 -0.0 +0.1 -0.1 +0.2 -0.2 ");
}

TEST(StepClock, WhatRunsBeforeTheFirstModelIsForgottenAndTakesNoNumber) {
  Program p;
  p.operators().make_optimizer().operators().forward().operators().optimizer_steps().forward();
  EXPECT_EQ(p.end(), "+0.0 ~ +0.0 -0.0 +0.1 -0.1 ");
}

TEST(StepClock, AnOptimizerThatStepsBeforeTheFirstForwardTakesNoNumber) {
  Program p;  // the order that learning rate schedulers require
  p.operators().make_optimizer().optimizer_steps().forward().optimizer_steps().forward();
  EXPECT_EQ(p.log(), "+0.0 -0.0 +0.1 ~ +0.0 -0.0 +0.1 ");
}

TEST(StepClock, APreambleInTheNumbersOfAnIterationThatIsNotChosenIsSilent) {
  Program p("1");
  p.operators().make_optimizer().forward().optimizer_steps().forward();
  EXPECT_EQ(p.end(), "~ +0.1 -0.1 ");
}

TEST(StepClock, AnEvaluationFirstForgetsThePreambleToo) {
  Program p;
  p.operators().evaluate();
  EXPECT_EQ(p.end(), "+0.0 ~ +1.0 -1.0 ");
}

TEST(StepClock, CallsOfAModuleWithoutParametersAreSteps) {
  Program p;
  p.forward(false).forward(false);
  EXPECT_EQ(p.end(), "+0.0 -0.0 +0.1 -0.1 ");
}

TEST(StepClock, TheFirstCallOfAModuleWithoutParametersGoesOnWithTheStepOfTheOperators) {
  Program p;
  p.operators().forward(false).forward(false);
  EXPECT_EQ(p.end(), "+0.0 -0.0 +0.1 -0.1 ");
}

TEST(StepClock, CallsWithoutGradientsOfAModuleWithoutParametersAreEvaluation) {
  Program p;
  p.evaluate_without_parameters().evaluate_without_parameters();
  EXPECT_EQ(p.end(), "+1.0 -1.0 +1.1 -1.1 ");
}

TEST(StepClock, CallsOfModulesWithoutParametersBeforeTheFirstModelTakeNoNumbers) {
  Program p;
  p.forward(false).forward(false).forward(false).forward().forward(false);  // the data's transforms; then a loss
  EXPECT_EQ(p.end(), "+0.0 -0.0 +0.1 -0.1 +0.2 ~ +0.0 -0.0 ");
}

TEST(StepClock, AModuleWithoutParametersIsNoStepWhereModelsExistAndWaitToBeCalled) {
  Program p;
  p.forward(false).modules_exist().operators().forward(false).forward();
  EXPECT_EQ(p.end(), "+0.0 ~ +0.0 -0.0 ");
}

TEST(StepClock, ALossWithoutParametersIsNoStepBesideTrainedTensorsOfNoModule) {
  Program p;
  p.operators().make_optimizer().gradient_history().forward(false).optimizer_steps().forward(false);
  EXPECT_EQ(p.end(), "+0.0 ~ +0.0 -0.0 +0.1 -0.1 ");
}

TEST(StepClock, WhatIsSettledStaysAndTheFirstForwardGoesOnWithItsStep) {
  Program p;
  p.operators().settle().forward().forward();
  EXPECT_EQ(p.end(), "+0.0 -0.0 +0.1 -0.1 ");
}

TEST(StepClock, AfterSettledStepsOfAModuleWithoutParametersAModelCountsOn) {
  Program p;
  p.forward(false).forward(false).settle().forward();
  EXPECT_EQ(p.end(), "+0.0 -0.0 +0.1 -0.1 +0.2 -0.2 ");
}

TEST(StepClock, TheNumberOfTheNextStepIsThatOfTheFirstForwardAfterThePreamble) {
  Program p;
  p.operators();
  p.clock().set_step(500);
  p.make_optimizer().forward().optimizer_steps().forward();
  EXPECT_EQ(p.end(), "+0.0 ~ +0.500 -0.500 +0.501 -0.501 ");
  Program settled;
  settled.operators().settle();
  settled.clock().set_step(500);
  settled.make_optimizer().forward();
  EXPECT_EQ(settled.end(), "+0.0 -0.0 +0.500 -0.500 ");
}

TEST(StepClock, TheUsersFirstStepEndsTheStepOfTheOperators) {
  Program p;
  p.operators().user_steps().forward();
  EXPECT_EQ(p.end(), "+0.0 -0.0 +0.1 -0.1 ");
}

TEST(StepClock, RootsAreLookedForAsLongAsStepsAreProvisional) {
  Program p("5");
  p.forward(false).forward(false).forward(false);
  EXPECT_TRUE(p.clock().needs_operators());
  p.settle();
  EXPECT_FALSE(p.clock().needs_operators());
}

TEST(StepClock, EvaluationIsGraphOneWithItsOwnCountAndClosesAPendingStep) {
  Program p;
  p.make_optimizer().forward().optimizer_steps().evaluate().evaluate().forward();
  EXPECT_EQ(p.log(), "+0.0 -0.0 +1.0 -1.0 +1.1 -1.1 +0.1 ");
}

TEST(StepClock, AForwardWithoutGradientsInsideATrainingStepHasItsNumber) {
  Program p;
  p.make_optimizer().forward().other();  // a teacher, before the loss
  EXPECT_EQ(p.log(), "+0.0 +1.0 ");
  EXPECT_EQ(p.clock().graph_outside_modules(true), 0u);  // the loss belongs to the training step
  EXPECT_EQ(p.clock().graph_outside_modules(false), 1u);
  p.clock().backward_ran();
  EXPECT_EQ(p.clock().graph_outside_modules(false), 0u);  // gradients are clipped
  p.other().optimizer_steps().forward();                  // it is given two batches
  EXPECT_EQ(p.log(), "+0.0 +1.0 -1.0 -0.0 +0.1 ");
  p.own();  // so is the model itself, for pseudo-labels
  EXPECT_EQ(p.end(), "+0.0 +1.0 -1.0 -0.0 +0.1 +1.1 -1.1 -0.1 ");
}

TEST(StepClock, AccumulationWithAReferenceModelStaysInOneStep) {
  Program p;
  p.make_optimizer().forward().other().forward().other().optimizer_steps().forward();
  EXPECT_EQ(p.log(), "+0.0 +1.0 -1.0 -0.0 +0.1 ");
}

TEST(StepClock, AReferenceModelThatRunsBeforeTheFirstForwardBelongsToTheStepToCome) {
  Program p;
  p.make_optimizer();
  for (int step = 0; step < 3; ++step) p.other().other().forward().optimizer_steps();
  EXPECT_EQ(p.end(), "+1.0 +0.0 -1.0 -0.0 +1.1 +0.1 -1.1 -0.1 +1.2 +0.2 -1.2 -0.2 ");
}

TEST(StepClock, AReferenceModelThatRunsOftenerThanForTheStepBeforeIsEvaluated) {
  Program p;
  p.make_optimizer();
  p.other().forward().optimizer_steps();
  p.other();  // as before
  EXPECT_EQ(p.log(), "+1.0 +0.0 -1.0 -0.0 +1.1 ");
  p.other().other();
  EXPECT_EQ(p.log(), "+1.0 +0.0 -1.0 -0.0 +1.1 +2.0 -2.0 +2.1 ");
}

TEST(StepClock, AReferenceModelBeforeTheFirstStepMoreThanTwiceIsEvaluated) {
  Program p;
  p.make_optimizer().other().other().other().other().forward();
  EXPECT_EQ(p.log(), "+1.0 +2.0 -2.0 +2.1 -2.1 +0.0 ");
}

TEST(StepClock, ARootThatIsTrainedAndRunsBetweenStepsIsEvaluated) {
  Program p;
  p.make_optimizer();
  for (int step = 0; step < 2; ++step) p.forward().optimizer_steps().own().own();
  EXPECT_EQ(p.end(), "+0.0 -0.0 +1.0 -1.0 +1.1 -1.1 +0.1 -0.1 +1.2 -1.2 +1.3 -1.3 ");
}

TEST(StepClock, AModelThatIsOnlyEvaluatedDoesNotBelongToTraining) {
  Program p;
  p.make_optimizer();
  p.forward().optimizer_steps().forward().optimizer_steps();
  p.other().other().forward();  // an averaged model, after each epoch
  EXPECT_EQ(p.log(), "+0.0 -0.0 +0.1 -0.1 +1.0 -1.0 +1.1 -1.1 +0.2 ");
}

TEST(StepClock, WhereTheModelHasChangedItsModeItIsEvaluation) {
  Program p;
  p.make_optimizer();
  p.forward().own(1, true).own(1, true);  // within accumulation
  EXPECT_EQ(p.log(), "+0.0 +1.0 -1.0 +1.1 ");
  p.forward().optimizer_steps().other(2, true);
  EXPECT_EQ(p.log(), "+0.0 +1.0 -1.0 +1.1 -1.1 -0.0 +1.2 ");
}

TEST(StepClock, EvaluationAndReferenceModelsHaveAGraphEach) {
  Program p;
  p.make_optimizer();
  p.own(1, true).own(1, true);  // before training
  p.forward().other().optimizer_steps().forward().other();
  EXPECT_EQ(p.log(), "+1.0 -1.0 +1.1 -1.1 +0.0 +2.0 -2.0 -0.0 +0.1 +2.1 ");
  EXPECT_EQ(p.clock().evaluations().graph, 1u);
  EXPECT_EQ(p.clock().references().graph, 2u);
}

TEST(StepClock, WithoutAnOptimizerEveryForwardWithoutGradientsIsEvaluation) {
  Program p;
  p.forward().other().other().forward();
  EXPECT_EQ(p.log(), "+0.0 +1.0 -1.0 +1.1 -1.1 -0.0 +0.1 ");
}

TEST(StepClock, TheForwardRuleKnowsNoReferenceModels) {
  Program p("all", StepRule::forward);
  p.make_optimizer().forward().other().other();
  EXPECT_EQ(p.log(), "+0.0 +1.0 -1.0 +1.1 ");
}

TEST(StepClock, TheChosenStepsAreTheSameForReferenceModels) {
  Program p("2");
  p.make_optimizer();
  for (int step = 0; step < 4; ++step) p.forward().other().other().optimizer_steps();
  EXPECT_EQ(p.end(), "+0.2 +1.2 -1.2 -0.2 ");
}

TEST(StepClock, AnOverflowingScalerStepIsAStepToo) {
  Program p;
  p.make_optimizer().forward().scaler_updates().forward().optimizer_steps().scaler_updates().forward();
  EXPECT_EQ(p.log(), "+0.0 -0.0 +0.1 -0.1 +0.2 ");
}

TEST(StepClock, BareParametersBeginWithTheFirstGradientHistoryAndCloseWithTheOptimizer) {
  Program p;
  p.make_optimizer().gradient_history().optimizer_steps().scaler_updates().optimizer_steps();
  EXPECT_EQ(p.log(), "+0.0 -0.0 +0.1 -0.1 +0.2 ");
}

TEST(StepClock, ManualStepsIgnoreForwardsAndOptimizers) {
  Program p("all", StepRule::manual);
  p.make_optimizer().forward().optimizer_steps().forward().user_steps().evaluate();
  EXPECT_EQ(p.end(), "+0.0 -0.0 +0.1 -0.1 ");
}

TEST(StepClock, TheUsersStepOverridesTheRuleFromThenOn) {
  Program p;
  p.make_optimizer().forward().user_steps().optimizer_steps().forward().user_steps();
  EXPECT_EQ(p.log(), "+0.0 -0.0 +0.1 -0.1 +0.2 ");
}

TEST(StepClock, TheForwardRuleMakesEveryForwardAStepDespiteTheOptimizer) {
  Program p("all", StepRule::forward);
  p.make_optimizer().forward().forward().optimizer_steps().forward();
  EXPECT_EQ(p.log(), "+0.0 -0.0 +0.1 -0.1 +0.2 ");
}

TEST(StepClock, OnlyChosenStepsAreReported) {
  Program p("1|3-4");
  p.make_optimizer();
  for (int i = 0; i < 6; ++i) p.forward().optimizer_steps();
  EXPECT_EQ(p.end(), "+0.1 -0.1 +0.3 -0.3 +0.4 -0.4 ");
}

TEST(StepClock, InitialIterationIsAddedToEveryNumber) {
  Program p("all", StepRule::automatic, 100);
  p.make_optimizer().forward().optimizer_steps().forward();
  EXPECT_EQ(p.log(), "+0.100 -0.100 +0.101 ");
}

TEST(StepClock, OperatorsAreWatchedUntilTheRootsAreKnownAndThenOnlyInChosenSteps) {
  Program p("3");
  p.make_optimizer();
  EXPECT_TRUE(p.clock().needs_operators());
  p.forward().optimizer_steps();
  EXPECT_TRUE(p.clock().needs_operators());  // a second model may still appear
  p.forward();
  EXPECT_FALSE(p.clock().needs_operators());
  p.optimizer_steps().forward().optimizer_steps().forward();
  EXPECT_TRUE(p.clock().needs_operators());
  EXPECT_EQ(p.clock().recording(0), (StepId{0, 3}));
  p.optimizer_steps().forward();
  EXPECT_FALSE(p.clock().needs_operators());
}

TEST(StepClock, StepsOfAnEngineAreChosenByTheirRequests) {
  Program p("all", StepRule::automatic, 0, true);
  p.operators();  // before the first: a step that is forgotten takes no choice away
  p.serve(true).serve(false).serve(true).evaluate();
  EXPECT_EQ(p.end(), "~ +1.0 -1.0 +1.2 -1.2 ");
  Program both("0|2", StepRule::automatic, 0, true);
  both.serve(false).serve(true).serve(true).serve(true);
  EXPECT_EQ(both.end(), "+1.2 -1.2 ");
}

TEST(StepClock, WhatRunsAfterAnEnginesStepBelongsToNone) {
  Program p;
  p.serve(false).step_over();
  EXPECT_EQ(p.log(), "+1.0 -1.0 ");
  EXPECT_EQ(p.clock().recording(1), std::nullopt);
  p.operators().step_over().serve(false);
  EXPECT_EQ(p.end(), "+1.0 -1.0 +1.1 -1.1 ");
}

TEST(StepClock, TrainingThatStopsInMidStepClosesIt) {
  Program p;
  p.make_optimizer().forward();
  EXPECT_EQ(p.end(), "+0.0 -0.0 ");
}

TEST(StepClock, KnowsWhichStepsAllRanksAreIn) {
  Program program;
  program.make_optimizer();
  EXPECT_FALSE(program.clock().is_common(0));  // before the first forward
  program.forward();
  EXPECT_TRUE(program.clock().is_common(0));
  EXPECT_FALSE(program.clock().is_common(1));
  program.optimizer_steps();
  EXPECT_FALSE(program.clock().is_common(0));  // one of them may evaluate here
  program.forward();
  EXPECT_TRUE(program.clock().is_common(0));
  for (const StepRule rule : {StepRule::forward, StepRule::manual}) {
    Program other("all", rule);
    other.make_optimizer().forward();
    EXPECT_FALSE(other.clock().is_common(0));
  }
}

}  // namespace
}  // namespace sonde
