#include "read/catalog/data_flow.h"

#include <gtest/gtest.h>

namespace sonde {
namespace {

CatalogTensor input_from(std::uint64_t sequence, std::uint32_t slot = 0) {
  CatalogTensor tensor;
  tensor.is_input = true;
  tensor.source = sequence;
  tensor.source_slot = slot;
  return tensor;
}

CatalogOp op_with(std::uint64_t sequence, std::vector<CatalogTensor> tensors = {}) {
  CatalogOp op;
  op.sequence = sequence;
  op.tensors = std::move(tensors);
  return op;
}

TEST(DataFlow, FindsTheOperatorAndTheOutputThatAnInputComesFrom) {
  CatalogStep step;
  CatalogTensor second;
  second.slot = 1;
  step.ops = {op_with(7, {CatalogTensor(), second}), op_with(9)};
  const DataFlow flow(CatalogRank(), step);
  const auto maker = flow.maker(input_from(7, 1));
  ASSERT_TRUE(maker);
  EXPECT_EQ(maker->op, &step.ops[0]);
  EXPECT_EQ(DataFlow::output(*maker), &step.ops[0].tensors[1]);
  EXPECT_EQ(flow.maker(input_from(9))->number, 1U);
  EXPECT_EQ(DataFlow::output(*flow.maker(input_from(9))), nullptr);
}

TEST(DataFlow, OutputsParametersAndOperatorsOfOtherDumpsHaveNoMaker) {
  CatalogStep step;
  step.ops = {op_with(7)};
  step.ops[0].is_parameter = true;
  const DataFlow flow(CatalogRank(), step);
  CatalogTensor output = input_from(7);
  output.is_input = false;
  EXPECT_FALSE(flow.maker(output));
  EXPECT_FALSE(flow.maker(input_from(7)));
  EXPECT_FALSE(flow.maker(input_from(kNoSequence)));
}

TEST(DataFlow, SaysHowAnEdgeIsKnown) {
  CatalogStep step;
  step.ops = {op_with(7)};
  CatalogRank rank;
  EXPECT_EQ(DataFlow(rank, step).maker(input_from(7))->evidence, FlowEvidence::recorded);
  rank.has_host_data_flow = true;
  EXPECT_EQ(DataFlow(rank, step).maker(input_from(7))->evidence, FlowEvidence::framework_graph);
  CatalogTensor likely = input_from(7);
  likely.source_is_likely = true;
  EXPECT_EQ(DataFlow(rank, step).maker(likely)->evidence, FlowEvidence::equal_values);
}

TEST(DataFlow, TwoInputsOfAnOperatorThatIsNotThereComeFromOnePlace) {
  EXPECT_TRUE(DataFlow::same_origin(input_from(3, 1), input_from(3, 1)));
  EXPECT_FALSE(DataFlow::same_origin(input_from(3, 1), input_from(3, 0)));
  EXPECT_FALSE(DataFlow::same_origin(input_from(kNoSequence), input_from(kNoSequence)));
}

}  // namespace
}  // namespace sonde
