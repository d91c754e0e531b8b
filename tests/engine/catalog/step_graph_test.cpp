#include "read/catalog/step_graph.h"

#include <gmock/gmock.h>

namespace sonde {
namespace {

using ::testing::ElementsAre;

CatalogTensor output(std::uint32_t slot) {
  CatalogTensor tensor;
  tensor.slot = slot;
  return tensor;
}

CatalogTensor input(std::uint32_t slot, std::uint64_t source, std::uint32_t source_slot = 0) {
  CatalogTensor tensor = output(slot);
  tensor.is_input = true;
  tensor.source = source;
  tensor.source_slot = source_slot;
  return tensor;
}

CatalogOp op_of(std::uint64_t sequence, std::vector<CatalogTensor> tensors) {
  CatalogOp op;
  op.sequence = sequence;
  op.tensors = std::move(tensors);
  return op;
}

std::vector<std::string> texts_of(const StepGraph& graph) {
  std::vector<std::string> texts;
  for (const Edge& edge : graph.edges) {
    texts.push_back((edge.from_parameter ? graph.graph.parameters[edge.from].name
                                         : std::to_string(edge.from) + "." + std::to_string(edge.from_slot)) +
                    " > " + std::to_string(edge.to) + "." + std::to_string(edge.to_slot));
  }
  return texts;
}

TEST(StepGraph, LeadsFromOpsThatRanBeforeAndElseFromAParameter) {
  CatalogStep step;
  step.ops = {op_of(4, {output(0)}), op_of(7, {input(0, 7), input(1, 9), output(0), output(1)}),
              op_of(9, {input(0, 7, 1), input(1, 5), input(2, 7)})};
  step.ops[0].is_parameter = true;  // not an operator, and not a node
  const StepGraph graph = graph_of(CatalogRank(), step);
  EXPECT_THAT(graph.ops, ElementsAre(&step.ops[1], &step.ops[2]));
  // The first op cannot have read its own result, or that of a later one; no op of the step has the sequence 5.
  EXPECT_THAT(texts_of(graph),
              ElementsAre("carried-0 > 0.0", "carried-1 > 0.1", "0.1 > 1.0", "carried-2 > 1.1", "0.0 > 1.2"));
  EXPECT_THAT(graph.outgoing[0], ElementsAre(2U, 4U));
}

TEST(CatalogTensor, KnowsWhatItsNameNamesAndWhyItWasNotRead) {
  CatalogTensor tensor;
  EXPECT_EQ(tensor.parameter.kind, NameKind::none);
  EXPECT_EQ(tensor.skipped.reason, NotRead::nothing);
  const std::pair<std::string_view, NameKind> names[] = {{"fc.weight", NameKind::parameter},
                                                         {"data-3", NameKind::data},
                                                         {"carried-1", NameKind::carried},
                                                         {"", NameKind::none}};
  for (const auto& [name, kind] : names) {
    tensor.parameter = name;
    EXPECT_EQ(tensor.parameter.kind, kind) << name;
    EXPECT_EQ(tensor.parameter.is_parameter(), kind == NameKind::parameter) << name;
  }
  const std::pair<std::string_view, NotRead> reasons[] = {{kUninitialised, NotRead::uninitialised},
                                                          {kNotRead, NotRead::by_overhead},
                                                          {kStatisticsOnly, NotRead::other},
                                                          {"empty tensor", NotRead::other},
                                                          {"", NotRead::nothing}};
  for (const auto& [text, reason] : reasons) {
    tensor.skipped = text;
    EXPECT_EQ(tensor.skipped.reason, reason) << text;
  }
}

}  // namespace
}  // namespace sonde
