// The memory that the graphs of long runs need, and the facts that they must not lose.
#include <gtest/gtest.h>

#include <string>

#include "dump_fixture.h"

namespace sonde {
namespace {

using test::Host;

// The op's `alpha` is the id of its attributes.
void push_op(Host& run, StepId step, const std::string& name, std::uint32_t attributes) {
  Record record = run.record(run.op("Default/" + name + "-op0", name), step, run.structure({2}));
  record.attributes = attributes;
  run->push(std::move(record));
}

TEST(GraphFiles, OfAttributesTheLastThatAnOpCanStillHaveAreKept) {
  const test::TemporaryDirectory directory;
  constexpr std::uint32_t kCount = 2 * kMostAttributesKnown + 10;
  constexpr std::uint32_t kOldest = kCount - kMostAttributesKnown + 1;
  {
    Host run(test::plan_for(directory.path() / "dump"));
    run.begin({0, 0});
    for (std::uint32_t id = 1; id <= kCount; ++id) {
      run->define(Attributes{id, {{"alpha", AttributeKind::integer, {id}, {}, ""}}});
    }
    push_op(run, {0, 0}, "add", 1);
    run.end({0, 0});
    run.begin({0, 1});
    push_op(run, {0, 1}, "mul", kOldest);
    push_op(run, {0, 1}, "sub", 1);  // capture has forgotten it too: it would give it a new id
    run.end({0, 1});
    run->finish();
  }
  const auto graphs = directory.path() / "dump/rank_0/graphs";
  const std::string first = test::read_text(graphs / "ms_output_trace_code_graph_0.ir");
  const std::string second = test::read_text(graphs / "step_1/ms_output_trace_code_graph_0.ir");
  EXPECT_NE(first.find("alpha: I64(1)"), std::string::npos) << first;
  EXPECT_NE(second.find("alpha: I64(" + std::to_string(kOldest) + ")"), std::string::npos) << second;
  EXPECT_EQ(second.find("alpha: I64(1)"), std::string::npos) << second;
}

}  // namespace
}  // namespace sonde
