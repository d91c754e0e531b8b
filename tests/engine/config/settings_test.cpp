// The object sonde_settings.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>

#include "plan/config/selector.h"
#include "verdict_case.h"

namespace sonde::test {
namespace {

std::string error_of(const std::string& edit) {
  const PlanResult result = parse_edits({edit});
  EXPECT_FALSE(result.plan) << edit;
  EXPECT_EQ(result.diagnostics.size(), 1U) << edit;
  if (result.diagnostics.size() != 1) return "";
  EXPECT_TRUE(result.diagnostics[0].is_error);
  EXPECT_TRUE(result.diagnostics[0].key.starts_with("sonde_settings"));
  EXPECT_GT(result.diagnostics[0].line, 0U);
  return result.diagnostics[0].message;
}

TEST(SondeSettings, AreHeldInThePlan) {
  const PlanResult result =
      parse_edits({"s.layout=\"mindspore-2.7\"", "s.version=\"2.7\"", "s.step=\"manual\"", "s.budget_bytes=1048576",
                   "s.when_full=\"drop\"", "s.reread=true", "s.stop_after=true", "c.iteration=\"3\"",
                   "s.raw_bfloat16=true", "s.private=true", "s.saved_data=\"graph\""});
  ASSERT_TRUE(result.plan);
  EXPECT_TRUE(result.diagnostics.empty());
  const SondeSettings& settings = result.plan->sonde;
  EXPECT_EQ(settings.step, StepRule::manual);
  EXPECT_EQ(settings.budget_bytes, 1U << 20);
  EXPECT_EQ(settings.when_full, WhenFull::drop);
  EXPECT_TRUE(settings.reread);
  EXPECT_TRUE(settings.stop_after);
  EXPECT_TRUE(settings.raw_bfloat16);
  EXPECT_TRUE(settings.is_private);
  EXPECT_EQ(result.plan->saved_data, SavedData::graph);
  EXPECT_FALSE(result.plan->wants_tensors());
  EXPECT_FALSE(result.plan->wants_statistics());
}

TEST(SondeSettings, ChooseTheRequestsOfAnEngine) {
  EXPECT_TRUE(parse_edits({}).plan->sonde.requests.empty());
  EXPECT_EQ(parse_edits({"s.requests=[\"a\",\"b\"]"}).plan->sonde.requests, (std::vector<std::string>{"a", "b"}));
  for (const char* value : {"\"a\"", "[1]", "[\"\"]"}) {
    EXPECT_NE(error_of(std::string("s.requests=") + value).find("a list of texts, each the ID of a request"),
              std::string::npos)
        << value;
  }
}

TEST(SondeSettings, ReadInputsBeforeTheOperatorByDefault) {
  EXPECT_FALSE(parse_edits({}).plan->sonde.inputs_after);
  EXPECT_FALSE(parse_edits({"s.inputs=\"before\""}).plan->sonde.inputs_after);
  EXPECT_TRUE(parse_edits({"s.inputs=\"after\""}).plan->sonde.inputs_after);
  EXPECT_NE(error_of("s.inputs=\"during\"").find("after"), std::string::npos);
}

TEST(SondeSettings, TakeEveryStepRuleAndEveryWhenFull) {
  const std::pair<const char*, StepRule> steps[] = {{"automatic", StepRule::automatic},
                                                    {"optimizer", StepRule::optimizer},
                                                    {"forward", StepRule::forward},
                                                    {"manual", StepRule::manual}};
  for (const auto& [word, rule] : steps) {
    EXPECT_EQ(parse_edits({std::string("s.step=\"") + word + "\""}).plan->sonde.step, rule);
  }
  const std::pair<const char*, WhenFull> rules[] = {
      {"wait", WhenFull::wait}, {"statistics", WhenFull::statistics}, {"drop", WhenFull::drop}};
  for (const auto& [word, rule] : rules) {
    EXPECT_EQ(parse_edits({std::string("s.when_full=\"") + word + "\""}).plan->sonde.when_full, rule);
  }
}

TEST(SondeSettings, LetOneRankWriteWhatSeveralHave) {
  EXPECT_EQ(parse_edits({}).plan->sonde.replicas, Replicas::all);
  EXPECT_FALSE(parse_edits({}).plan->makes_md5());
  const PlanResult first = parse_edits({"s.replicas=\"first\""});
  ASSERT_TRUE(first.plan);
  EXPECT_EQ(first.plan->sonde.replicas, Replicas::first);
  EXPECT_TRUE(first.plan->makes_md5());
  EXPECT_FALSE(first.plan->wants(Category::md5));
  EXPECT_NE(error_of("s.replicas=true").find("\"first\""), std::string::npos);
}

TEST(SondeSettings, RefuseThatOneRankWritesWhereOthersMayNotFollow) {
  for (const char* edit : {"s.pack=true", "s.ring=2", "s.max_overhead=0.1", "c.op_debug_mode=3", "c.op_debug_mode=4",
                           "c.saved_data=\"statistic\"", "s.layout=\"mindspore-1.2\""}) {
    const PlanResult result = parse_edits({"s.replicas=\"first\"", edit});
    EXPECT_FALSE(result.plan) << edit;
    EXPECT_TRUE(std::ranges::any_of(result.diagnostics, [](const Diagnostic& one) {
      return one.key == "sonde_settings.replicas" && one.message.find("cannot be combined") != std::string::npos;
    })) << edit;
  }
}

TEST(SondeSettings, RefuseUnknownKeysAndNameTheNearest) {
  EXPECT_EQ(error_of("s.buget_bytes=1048576"), "unknown key; the nearest known key is 'budget_bytes'");
  EXPECT_EQ(error_of("s.dump_mode=1").rfind("unknown key", 0), 0U);
}

TEST(SondeSettings, ListTheLayoutsAndTheVersionsThereAre) {
  for (const LayoutInfo& layout : layouts()) {
    const PlanResult result = parse_edits({"s.layout=\"" + std::string(layout.name) + "\""});
    ASSERT_TRUE(result.plan) << layout.name;
    EXPECT_EQ(result.plan->sonde.layout, layout.kind);
    EXPECT_EQ(result.plan->sonde.version, layout.release);
  }
  EXPECT_NE(error_of("s.layout=\"mindspore\"").find("allowed: \"mindspore-1.2\""), std::string::npos);
  EXPECT_NE(error_of("s.version=\"9\"").find("allowed:"), std::string::npos);
}

TEST(SondeSettings, TakeTheLayoutFromTheVersionAndTheVersionFromTheLayout) {
  for (const std::string release : {"2.0", "2.3", "2.5", "2.7"}) {
    const std::string layout = "mindspore-" + release;
    const std::string by_layout = "s.layout=\"" + layout + "\"", by_version = "s.version=\"" + release + "\"";
    for (const std::vector<std::string>& edits :
         {std::vector{by_layout}, std::vector{by_version}, std::vector{by_layout, by_version}}) {
      const PlanResult result = parse_edits(edits);
      ASSERT_TRUE(result.plan) << release;
      EXPECT_TRUE(result.diagnostics.empty()) << release;
      EXPECT_EQ(info(result.plan->sonde.layout).name, layout);
      EXPECT_EQ(info(result.plan->sonde.version).name, release);
    }
  }
  const PlanResult unsaid = parse_edits({});
  EXPECT_EQ(unsaid.plan->sonde.layout, LayoutKind::mindspore_2_7);
  EXPECT_EQ(unsaid.plan->sonde.version, Release::v2_7);
}

TEST(SondeSettings, RefuseAVersionThatIsNotTheLayouts) {
  const PlanResult result = parse_edits({"s.layout=\"mindspore-2.3\"", "s.version=\"2.7\""});
  EXPECT_FALSE(result.plan);
  ASSERT_EQ(result.diagnostics.size(), 1U);
  EXPECT_EQ(result.diagnostics[0].key, "sonde_settings.version");
  EXPECT_EQ(result.diagnostics[0].message,
            "found \"2.7\", but layout \"mindspore-2.3\" is that of \"2.3\"; leave one of the two out");
}

TEST(SondeSettings, OfAnOldVersionPrescribeTheColumns) {
  const std::string statistic = "c.saved_data=\"statistic\"", category = "c.statistic_category=[\"l2norm\"]";
  const PlanResult oldest = parse_edits({statistic, category, "s.version=\"2.0\""});
  ASSERT_TRUE(oldest.plan);
  EXPECT_EQ(oldest.plan->statistic_category.size(), 10U);
  EXPECT_EQ(oldest.plan->statistic_category.back(), Category::zero_count);
  ASSERT_EQ(oldest.diagnostics.size(), 1U);
  EXPECT_FALSE(oldest.diagnostics[0].is_error);
  EXPECT_EQ(oldest.diagnostics[0].key, "common_dump_settings.statistic_category");
  EXPECT_NE(oldest.diagnostics[0].message.find("MindSpore 2.0"), std::string::npos);

  const PlanResult middle = parse_edits({statistic, "s.version=\"2.3\""});
  EXPECT_EQ(middle.plan->statistic_category.size(), 11U);
  EXPECT_EQ(middle.plan->statistic_category.back(), Category::md5);
  EXPECT_TRUE(middle.diagnostics.empty());

  for (const char* version : {"2.5", "2.7"}) {
    const PlanResult newer = parse_edits({statistic, category, std::string("s.version=\"") + version + "\""});
    EXPECT_EQ(newer.plan->statistic_category, std::vector{Category::l2norm}) << version;
    EXPECT_TRUE(newer.diagnostics.empty()) << version;
  }
}

TEST(SondeSettings, SettleWhatAnEmptyKernelsMeans) {
  for (const auto& [version, selects_all] : {std::pair{"2.0", false}, {"2.3", false}, {"2.5", true}, {"2.7", true}}) {
    const PlanResult result =
        parse_edits({"c.dump_mode=1", "c.kernels=[\"\"]", std::string("s.version=\"") + version + "\""});
    ASSERT_TRUE(result.plan) << version;
    Selector selector(*result.plan);
    EXPECT_EQ(selector.decide_op("Default/add-op0", "add").outputs, selects_all) << version;
    EXPECT_EQ(selector.decide_parameter("fc.weight"), selects_all) << version;
    EXPECT_EQ(result.diagnostics.empty(), selects_all) << version;
  }
}

TEST(SondeSettings, HoldTheRingAndTheOverhead) {
  const SondeSettings none = parse_edits({}).plan->sonde;
  EXPECT_EQ(none.ring, 0U);
  EXPECT_EQ(none.max_overhead, 0);
  EXPECT_EQ(parse_edits({"s.saved_data=\"summary\""}).plan->sonde.max_overhead, 0.005);
  EXPECT_EQ(parse_edits({"s.saved_data=\"summary\"", "s.max_overhead=0"}).plan->sonde.max_overhead, 0);
  const PlanResult result = parse_edits(
      {"s.ring=3", "s.ring_bytes=1048576", "s.ring_writes=2", "s.ring_signal=\"SIGUSR1\"", "s.max_overhead=0.05"});
  ASSERT_TRUE(result.plan);
  EXPECT_TRUE(result.diagnostics.empty());
  const SondeSettings& settings = result.plan->sonde;
  EXPECT_EQ(settings.ring, 3U);
  EXPECT_EQ(settings.ring_bytes, 1U << 20);
  EXPECT_EQ(settings.ring_writes, 2U);
  EXPECT_EQ(settings.ring_signal, SIGUSR1);
  EXPECT_EQ(settings.max_overhead, 0.05);
  const SondeSettings by_budget = parse_edits({"s.ring=3", "s.budget_bytes=2097152"}).plan->sonde;
  EXPECT_EQ(by_budget.ring_bytes, 2U << 20);
  EXPECT_EQ(by_budget.ring_signal, SIGUSR2);
}

TEST(SondeSettings, OfTheRingAreNotUsedWithoutIt) {
  const PlanResult result = parse_edits({"s.ring_bytes=1048576"});
  ASSERT_TRUE(result.plan);
  ASSERT_EQ(result.diagnostics.size(), 1U);
  EXPECT_NE(result.diagnostics[0].message.find("\"ring\" is not set"), std::string::npos);
}

TEST(SondeSettings, RefuseARingInAModeThatLooksForOneOperator) {
  const PlanResult result = parse_edits({"s.ring=3", "s.max_overhead=0.05", "c.op_debug_mode=3"});
  EXPECT_FALSE(result.plan);
  ASSERT_EQ(result.diagnostics.size(), 2U);
  EXPECT_NE(result.diagnostics[0].message.find("op_debug_mode 3"), std::string::npos);
}

TEST(SondeSettings, RefuseWrongValues) {
  EXPECT_NE(error_of("s.budget_bytes=1048575").find("at least 1048576"), std::string::npos);
  EXPECT_NE(error_of("s.budget_bytes=\"1GB\"").find("found \"1GB\""), std::string::npos);
  EXPECT_NE(error_of("s.budget_bytes=-1").find("found -1"), std::string::npos);
  EXPECT_NE(error_of("s.step=\"auto\"").find("\"automatic\""), std::string::npos);
  EXPECT_NE(error_of("s.when_full=1").find("\"wait\""), std::string::npos);
  EXPECT_NE(error_of("s.reread=1").find("true, false"), std::string::npos);
  EXPECT_NE(error_of("s.raw_bfloat16=\"true\"").find("true, false"), std::string::npos);
  EXPECT_NE(error_of("s.saved_data=\"tensor\"").find("\"graph\""), std::string::npos);
  EXPECT_NE(error_of("s.ring=-1").find("found -1"), std::string::npos);
  EXPECT_NE(error_of("s.ring=10001").find("to 10000"), std::string::npos);
  EXPECT_NE(error_of("s.ring=\"3\"").find("found \"3\""), std::string::npos);
  EXPECT_NE(error_of("s.max_overhead=0.0001").find("0.001 to 1.0"), std::string::npos);
  EXPECT_NE(error_of("s.max_overhead=2").find("0.001 to 1.0"), std::string::npos);
  EXPECT_NE(error_of("s.max_overhead=\"0.05\"").find("found \"0.05\""), std::string::npos);
  EXPECT_NE(error_of("sonde_settings=[]").find("allowed: an object"), std::string::npos);
}

}  // namespace
}  // namespace sonde::test
