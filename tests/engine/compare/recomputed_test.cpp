// originals_of: the op of the forward pass that an op runs again.
#include <gtest/gtest.h>

#include <vector>

#include "ask/compare/recomputed_ops.h"

namespace sonde {
namespace {

CatalogOp op_at(std::string_view name, std::uint32_t line) {
  CatalogOp op;
  op.op_name = name;
  op.op_type = "mul";
  op.phase = name.find("recompute") == std::string_view::npos ? Phase::forward : Phase::recompute;
  op.source_file = "net.py";
  op.line = line;
  return op;
}

TEST(RecomputedOps, AreThoseOfTheirLinesInWhateverOrderACompilerRunsThem) {
  const std::vector<CatalogOp> ops = {op_at("Default/net/mul-op0", 3), op_at("Default/net/mul-op1", 4),
                                      op_at("Default/recompute/net/mul-op0", 4),
                                      op_at("Default/recompute/net/mul-op1", 3)};
  CompareSide side;
  for (const CatalogOp& op : ops) side.ops.emplace_back().op = &op;
  EXPECT_EQ(originals_of(side), (Group{kNoOp, kNoOp, 1, 0}));
}

TEST(RecomputedOps, AreTheFirstOnesWhereTheLineIsAnother) {
  const std::vector<CatalogOp> ops = {op_at("Default/net/mul-op0", 3), op_at("Default/recompute/net/mul-op0", 0)};
  CompareSide side;
  for (const CatalogOp& op : ops) side.ops.emplace_back().op = &op;
  EXPECT_EQ(originals_of(side), (Group{kNoOp, 0}));
}

}  // namespace
}  // namespace sonde
