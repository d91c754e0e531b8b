// The object sonde_settings.
#include <gtest/gtest.h>

#include "verdict_case.h"

namespace sonde::test {
namespace {

std::string only_error(const std::string& edit) {
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
                   "s.when_full=\"drop\"", "s.reread=true", "s.raw_bfloat16=true", "s.saved_data=\"graph\""});
  ASSERT_TRUE(result.plan);
  EXPECT_TRUE(result.diagnostics.empty());
  const SondeSettings& settings = result.plan->sonde;
  EXPECT_EQ(settings.step, StepRule::manual);
  EXPECT_EQ(settings.budget_bytes, 1U << 20);
  EXPECT_EQ(settings.when_full, WhenFull::drop);
  EXPECT_TRUE(settings.reread);
  EXPECT_TRUE(settings.raw_bfloat16);
  EXPECT_EQ(result.plan->saved_data, SavedData::graph);
  EXPECT_FALSE(result.plan->wants_tensors());
  EXPECT_FALSE(result.plan->wants_statistics());
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

TEST(SondeSettings, RefuseUnknownKeysAndNameTheNearest) {
  EXPECT_EQ(only_error("s.buget_bytes=1048576"), "unknown key; the nearest known key is 'budget_bytes'");
  EXPECT_EQ(only_error("s.dump_mode=1").rfind("unknown key", 0), 0U);
}

TEST(SondeSettings, SayWhichLayoutThisVersionWrites) {
  for (const char* layout : {"mindspore-1.2", "mindspore-1.2-async", "mindspore-2.0", "mindspore-2.3", "mindspore-2.5",
                             "ge", "o2", "acl", "torchair"}) {
    const std::string message = only_error(std::string("s.layout=\"") + layout + "\"");
    EXPECT_NE(message.find("not written by this version"), std::string::npos) << layout;
    EXPECT_NE(message.find("\"mindspore-2.7\""), std::string::npos) << layout;
  }
  EXPECT_NE(only_error("s.layout=\"mindspore\"").find("allowed: \"mindspore-1.2\""), std::string::npos);
  EXPECT_NE(only_error("s.version=\"2.3\"").find("speaks \"2.7\""), std::string::npos);
  EXPECT_NE(only_error("s.version=\"9\"").find("allowed:"), std::string::npos);
}

TEST(SondeSettings, RefuseWrongValues) {
  EXPECT_NE(only_error("s.budget_bytes=1048575").find("at least 1048576"), std::string::npos);
  EXPECT_NE(only_error("s.budget_bytes=\"1GB\"").find("found \"1GB\""), std::string::npos);
  EXPECT_NE(only_error("s.budget_bytes=-1").find("found -1"), std::string::npos);
  EXPECT_NE(only_error("s.step=\"auto\"").find("\"automatic\""), std::string::npos);
  EXPECT_NE(only_error("s.when_full=1").find("\"wait\""), std::string::npos);
  EXPECT_NE(only_error("s.reread=1").find("true, false"), std::string::npos);
  EXPECT_NE(only_error("s.raw_bfloat16=\"true\"").find("true, false"), std::string::npos);
  EXPECT_NE(only_error("s.saved_data=\"tensor\"").find("\"graph\""), std::string::npos);
  EXPECT_NE(only_error("sonde_settings=[]").find("allowed: an object"), std::string::npos);
}

}  // namespace
}  // namespace sonde::test
