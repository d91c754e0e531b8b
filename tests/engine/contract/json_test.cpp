// Answers as JSON and back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ground/contract/privacy.h"
#include "ground/contract/read_json.h"

namespace sonde {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

FirstBad an_answer() {
  FirstBad answer;
  Finding finding;
  finding.kind = WrongKind::overflow;
  finding.severity = Severity::warning;
  finding.rank = 3;
  finding.step = 1ULL << 40U;
  finding.phase = Phase::recompute;
  finding.op_name = "Default/log-op0";
  finding.tags = {"uncertain"};
  finding.numbers = {{"true value", std::numeric_limits<double>::infinity()}, {"a", -2.5}};
  finding.tensor.side = Side::output;
  finding.tensor.slot = 2;
  finding.tensor.dtype = DType::bfloat16;
  finding.tensor.shape = Dims{2, 0};
  finding.tensor.statistics = KnownStatistics{};
  finding.tensor.statistics->max = -std::numeric_limits<double>::infinity();
  finding.tensor.statistics->nan_count = 7;
  finding.code.source_line = 12;
  finding.code.lines = {{11, "a"}, {12, "b"}};
  answer.findings = {finding, Finding()};
  answer.first = finding;
  answer.unfinished = {{RunState::stopped, 1, "run7", 0, 4, true, "no space", 3}};
  answer.looked_at.ops = 9;
  answer.problems = {{"a/b.npy", "is cut off"}};
  answer.warnings = {"w"};
  return answer;
}

TEST(ContractJson, AnAnswerThatIsReadBackIsTheSame) {
  const Json document = document_of(an_answer());
  const Result<Read<FirstBad>> read = read_json<FirstBad>(json_of_text(text_of_json(document)));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(document_of(read->answer), document);
  EXPECT_TRUE(read->unknown.empty());
  const FindingTensor& tensor = read->answer.findings.at(0).tensor;
  EXPECT_EQ(tensor.dtype, DType::bfloat16);
  EXPECT_EQ(tensor.shape, (Dims{2, 0}));
  EXPECT_EQ(tensor.statistics->nan_count, 7U);
  EXPECT_FALSE(tensor.statistics->count.has_value());
  EXPECT_FALSE(read->answer.findings.at(1).tensor.statistics.has_value());
  EXPECT_EQ(read->answer.unfinished.at(0).state, RunState::stopped);
}

TEST(ContractJson, WhatIsEmptyIsLeftOutOrNull) {
  const Json tensor = json_of(FindingTensor());
  EXPECT_FALSE(tensor.contains("tensor_file"));
  EXPECT_FALSE(tensor.contains("max"));
  EXPECT_TRUE(tensor["dtype"].is_null());
  EXPECT_TRUE(tensor["shape"].is_null());
  EXPECT_TRUE(json_of(FirstBad())["first"].is_null());
  EXPECT_FALSE(json_of(FirstBad()).contains("problems"));
}

TEST(ContractJson, MembersOfAPartAndFurtherMembersAreMembersOfTheObject) {
  ShownTensor shown;
  shown.tensor.op_name = "Default/log-op0";
  shown.trend = {{.rank = 1, .step = 2, .others = {{"max", 3.0}, {"min", std::nullopt}}}};
  const Json json = json_of(shown);
  EXPECT_EQ(json["op_name"], "Default/log-op0");
  EXPECT_EQ(json["trend"][0], Json({{"rank", 1}, {"step", 2}, {"max", 3.0}, {"min", nullptr}}));
  EXPECT_FALSE(json.contains("corner"));
  const Result<Read<ShownTensor>> read = read_json<ShownTensor>(json);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(read->unknown.empty());
  EXPECT_EQ(json_of(read->answer), json);
  shown.values.emplace();
  EXPECT_TRUE(json_of(shown)["corner"].empty());
  EXPECT_EQ(json_of(ShownFile())["corner_index"], "");
}

TEST(ContractJson, NumbersThatJsonDoesNotHaveAreTexts) {
  EXPECT_EQ(json_of(std::nan("")), "nan");
  EXPECT_EQ(json_of(-INFINITY), "-inf");
  EXPECT_EQ(json_of(0.5), 0.5);
}

TEST(ContractJson, MembersOfANewerSondeAreNamedAndTheRestIsRead) {
  Json document = document_of(an_answer());
  document["later"] = 1;
  document["findings"][1]["tensor"]["colour"] = "red";
  const Result<Read<FirstBad>> read = read_json<FirstBad>(document);
  ASSERT_TRUE(read);
  EXPECT_THAT(read->unknown, testing::UnorderedElementsAre("later", "findings[1].tensor.colour"));
  EXPECT_EQ(read->answer.findings.size(), 2U);
}

TEST(ContractJson, AMistakeIsNamedWithItsPlace) {
  const auto mistake = [](const std::function<void(Json&)>& spoil) {
    Json document = document_of(an_answer());
    spoil(document);
    const Result<Read<FirstBad>> read = read_json<FirstBad>(document);
    return read ? std::string("none") : read.error().message;
  };
  EXPECT_EQ(mistake([](Json& json) { json["findings"][0]["rank"] = "x"; }),
            "findings[0].rank: expected a whole number up to 4294967295, found \"x\"");
  EXPECT_THAT(mistake([](Json& json) { json["findings"][0]["rank"] = -1; }), HasSubstr("findings[0].rank: expected"));
  EXPECT_THAT(mistake([](Json& json) { json["findings"][0]["rank"] = 1ULL << 32U; }), HasSubstr("up to 4294967295"));
  EXPECT_THAT(mistake([](Json& json) { json["findings"] = 3; }), HasSubstr("findings: expected a list, found 3"));
  EXPECT_EQ(mistake([](Json& json) { json["first"].erase("why"); }), "first.why: is missing");
  EXPECT_THAT(mistake([](Json& json) { json["first"]["phase"] = "sideways"; }),
              HasSubstr("first.phase: expected a word"));
  EXPECT_THAT(mistake([](Json& json) { json["first"]["numbers"]["a"] = "much"; }),
              HasSubstr("first.numbers.a: expected a number, \"nan\", \"inf\" or \"-inf\", found \"much\""));
  EXPECT_THAT(mistake([](Json& json) { json["complete"] = nullptr; }), HasSubstr("complete: expected true or false"));
  EXPECT_THAT(mistake([](Json& json) { json.erase("problems"); }), HasSubstr("problems: is missing"));
  EXPECT_EQ(mistake([](Json& json) {
              json = {{"error", {{"message", "no such directory"}, {"status", 3}}}};
            }),
            "no such directory");
  EXPECT_THAT(mistake([](Json& json) { json = Json::array(); }), HasSubstr("expected an object, found []"));
}

TEST(ContractPrivacy, ATextIsHiddenUnlessTheContractNamesIt) {
  EXPECT_EQ(privacy_of("op_name"), Privacy::name);
  EXPECT_EQ(privacy_of("severity"), Privacy::word);
  EXPECT_EQ(privacy_of("rank"), Privacy::rank);
  EXPECT_EQ(privacy_of("evidence"), Privacy::emptied);
  EXPECT_EQ(privacy_of("worst_value"), Privacy::left_out);
  EXPECT_EQ(privacy_of("source_file"), Privacy::hidden);
  EXPECT_EQ(privacy_of("no such member"), Privacy::hidden);
}

}  // namespace
}  // namespace sonde
