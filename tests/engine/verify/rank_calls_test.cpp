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
  std::int64_t peer = -1;    // of a send or receive, by its number in the group
  std::uint64_t number = 0;  // as the group counts it
  std::string caller = {};
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
      if (!call.caller.empty()) attributes.push_back({"called_by", AttributeKind::text, {}, {}, call.caller});
      CatalogOp& op = run.rank().steps.back().ops.back();
      op.call_number = call.number;
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

Call numbered(std::uint64_t number, Call call = kSum) {
  call.number = number;
  return call;
}

TEST(RankCalls, NumbersSayWhichCallsMeet) {
  const Call broadcast = {.type = "broadcast_"};
  EXPECT_THAT(messages({{numbered(3), numbered(4, broadcast), numbered(9)}, {numbered(4, broadcast), numbered(9)}}),
              IsEmpty())
      << "a recording may begin later, and leave out steps";
  const std::vector<std::string> found =
      messages({{numbered(5), numbered(6), numbered(7)}, {numbered(6, broadcast), numbered(7)}});
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0], HasSubstr("call 6 of group 7 (ranks 0, 1) is broadcast_, not allreduce_"));
  const std::vector<std::string> late = messages({{numbered(40), numbered(41, kWaits)}, {numbered(40)}});
  ASSERT_THAT(late, SizeIs(1));
  EXPECT_THAT(late[0], HasSubstr("rank 1 did not arrive at call 41"));
}

TEST(RankCalls, AGroupThatIsMadeAgainCountsAgain) {
  const std::vector<Call> calls = {numbered(1), numbered(2), numbered(1, kMax), numbered(2, kMax)};
  EXPECT_THAT(messages({calls, calls}), IsEmpty());
  EXPECT_THAT(messages({calls, {calls[0], calls[1], calls[2], numbered(2)}}), SizeIs(1));
}

TEST(RankCalls, NumbersAreEnoughWithoutTheRanksOfAGroup) {
  const Call unnamed = {.group = {}}, other = {.type = "broadcast_", .group = {}};
  EXPECT_THAT(messages({{numbered(1, unnamed)}, {numbered(1, unnamed)}, {}}), IsEmpty());
  EXPECT_THAT(messages({{numbered(1, unnamed)}, {numbered(1, other)}}), SizeIs(1));
}

TEST(RankCalls, ARankThatIsNotInTheDumpIsNamed) {
  Ranks run;
  run.add({{.group = {0, 1, 5}}});
  run.add({{.group = {0, 1, 5}}});
  const Verification report = run.verify();
  ASSERT_THAT(report.issues, SizeIs(1));
  EXPECT_FALSE(report.issues[0].is_finding);
  EXPECT_THAT(report.issues[0].message, HasSubstr("lacks 1 rank that takes part in collectives, 5:"));
}

TEST(RankCalls, TheCallerIsNamed) {
  const Call bucket = {.caller = "DDP bucket 0: fc.weight"};
  const std::vector<std::string> found = messages({{bucket}, {kMax}});
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0], HasSubstr("(DDP bucket 0: fc.weight)"));
  const Call unit = {.caller =
                         "FSDP unit layers.0: attention.weight, attention.bias, mlp.up.weight, mlp.up.bias, norm"};
  const std::vector<std::string> cut = messages({{unit}, {kMax}});
  ASSERT_THAT(cut, SizeIs(1));
  EXPECT_THAT(cut[0],
              HasSubstr("(FSDP unit layers.0: attention.weight, attention.bias, mlp.up.weight, mlp.up.bias, …)"));
}

}  // namespace
}  // namespace sonde
