// Ranks that call the same collectives, and ranks that do not.
#include "ask/verify/rank_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "catalog/made_run.h"

namespace sonde {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

struct Call {
  std::string type = "allreduce_";
  std::string reduce = "SUM";
  bool complete = true;
  std::int64_t elements = 8;
  std::vector<std::int64_t> group = {0, 1};
  std::int64_t peer = -1;  // of a send or receive, by its number in the group
};

// A run of several ranks, made call by call.
class Ranks {
 public:
  void add(const std::vector<Call>& calls) {
    MadeRun& run = runs_.emplace_back();
    for (const Call& call : calls) {
      run.op(call.type, {run.outside("x")});
      std::vector<Attribute>& attributes = attributes_.emplace_back();
      attributes.push_back({"group_ranks", AttributeKind::integers, call.group, {}, ""});
      attributes.push_back({"process_group", AttributeKind::text, {}, {}, "7"});
      attributes.push_back({"reduce_op", AttributeKind::text, {}, {}, call.reduce});
      attributes.push_back({call.type == "send" ? "dst" : "src", AttributeKind::integer, {call.peer}, {}, ""});
      CatalogOp& op = run.rank().steps.back().ops.back();
      op.attributes = &attributes;
      for (CatalogTensor& tensor : op.tensors) tensor.set_shape({call.elements});
      if (!call.complete) run.last_output().statistics.reset();
    }
    run.rank().rank = static_cast<std::uint32_t>(runs_.size() - 1);
    catalog_.ranks.push_back(run.rank());
  }

  Verification verify() const {
    Verification report;
    verify_calls_of_ranks(catalog_, report);
    return report;
  }

 private:
  std::deque<MadeRun> runs_;
  std::deque<std::vector<Attribute>> attributes_;
  Catalog catalog_;
};

const Call kSum, kMax = {.reduce = "MAX"}, kLarger = {.elements = 9}, kWaits = {.complete = false};

std::vector<std::string> messages(const std::vector<std::vector<Call>>& ranks) {
  Ranks run;
  for (const std::vector<Call>& calls : ranks) run.add(calls);
  std::vector<std::string> found;
  for (const Issue& issue : run.verify().issues) {
    EXPECT_EQ(issue.kind, IssueKind::collective);
    EXPECT_TRUE(issue.is_finding);
    found.push_back(issue.message);
  }
  return found;
}

TEST(RankCalls, ThoseThatAgreeAreCounted) {
  Ranks run;
  const std::vector<Call> calls = {kSum, {.type = "broadcast_"}, kSum, {.type = "alltoall_base_", .elements = 3}};
  run.add(calls);
  run.add({kSum, {.type = "broadcast_"}, kSum, {.type = "alltoall_base_", .elements = 5}});
  const Verification report = run.verify();
  EXPECT_THAT(report.issues, IsEmpty());
  EXPECT_EQ(report.collectives, 8U);
}

TEST(RankCalls, TheFirstThatIsAnotherIsNamed) {
  const Call broadcast = {.type = "broadcast_"};
  for (const auto& [other, what] :
       std::vector<std::pair<Call, std::string>>{{broadcast, "broadcast_, not allreduce_"},
                                                 {kMax, "MAX, not SUM"},
                                                 {kLarger, "9 elements of float32, not 8"}}) {
    const std::vector<std::string> found = messages({{kSum, kSum, kSum}, {kSum, other, kSum}});
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_THAT(found[0], AllOf(HasSubstr("call 2 of group 7 (ranks 0, 1) is " + what), HasSubstr("on rank 0")));
  }
  EXPECT_THAT(messages({{kSum, broadcast, kSum}, {broadcast, kSum, kSum}}), SizeIs(1)) << "in another order";
}

TEST(RankCalls, TheRankThatDidNotArriveIsNamedWithItsLastOperator) {
  const std::vector<std::string> found = messages({{kSum, kWaits}, {kSum, kWaits}, {kSum}});
  EXPECT_THAT(found, IsEmpty()) << "rank 2 is not in the group";
  const Call all = {.group = {0, 1, 2}}, waits = {.complete = false, .group = {0, 1, 2}};
  const std::vector<std::string> late = messages({{all, waits}, {all, waits}, {all, {.type = "exp"}}});
  ASSERT_THAT(late, SizeIs(1));
  EXPECT_THAT(late[0], AllOf(HasSubstr("rank 2 did not arrive at call 2"), HasSubstr("where rank 0 waits"),
                             HasSubstr("its last operator is Default/exp-op1")));
  EXPECT_THAT(messages({{waits}, {{.type = "exp"}}, {waits}}), SizeIs(1)) << "it called none";
}

TEST(RankCalls, WhatIsCompleteHasMetAllHoweverShortARecordingIs) {
  EXPECT_THAT(messages({{kSum, kSum}, {kSum}}), IsEmpty());
  const Call broadcast = {.type = "broadcast_"};
  EXPECT_THAT(messages({{broadcast, kSum, kMax, kWaits}, {kSum, kMax, kWaits}}), IsEmpty()) << "it begins later";
}

TEST(RankCalls, AReceiveIsMetByASendOfItsSender) {
  const Call send = {.type = "send", .peer = 1}, receive = {.type = "recv_", .peer = 0};
  const Call waits = {.type = "recv_", .complete = false, .peer = 0};
  EXPECT_THAT(messages({{send, send}, {receive, receive}}), IsEmpty());
  EXPECT_THAT(messages({{send, send}, {receive}}), IsEmpty()) << "it may be received later";
  const std::vector<std::string> late = messages({{send}, {receive, waits}});
  ASSERT_THAT(late, SizeIs(1));
  EXPECT_THAT(late[0], HasSubstr("rank 0 did not arrive at call 2 of 0 to 1"));
  EXPECT_THAT(messages({{kSum}, {waits, kSum}}), SizeIs(1)) << "it sent nothing";
}

TEST(RankCalls, WithoutTheRanksOfAGroupNothingIsSaid) {
  Ranks run;
  const Call unnamed = {.group = {}};
  run.add({unnamed});
  run.add({{.type = "broadcast_", .group = {}}});
  const Verification report = run.verify();
  ASSERT_THAT(report.issues, SizeIs(2));
  EXPECT_EQ(report.issues[0].kind, IssueKind::unreadable);
  EXPECT_FALSE(report.issues[0].is_finding);
  EXPECT_EQ(report.collectives, 0U);
}

}  // namespace
}  // namespace sonde
