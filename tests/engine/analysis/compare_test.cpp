// compare_dumps: small steps made by hand, with a fault in each.
#include "analysis/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "dump_files.h"

namespace sonde {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using Values = std::vector<float>;

// A step of a program, op by op, with the data flow that a recorded dump has.
class Program {
 public:
  Program() {
    catalog_.path = directory_.path();
    CatalogRank& rank = catalog_.ranks.emplace_back();
    rank.directory = directory_.path();
    rank.has_journal = true;
    rank.steps.emplace_back();
  }

  struct Ref {
    std::uint64_t op = kNoSequence;
    std::string name;
    Values values;
    std::string shape;
  };
  static Ref parameter(const std::string& name, const Values& values, const std::string& shape) {
    return {kNoSequence, name, values, shape};
  }

  Ref add(const std::string& type, const std::vector<Ref>& inputs, const Values& output, const std::string& shape,
          const std::string& scope = "Default/net") {
    std::vector<CatalogOp>& ops = catalog_.ranks[0].steps[0].ops;
    CatalogOp& op = ops.emplace_back();
    op.op_type = keep(type);
    op.sequence = ops.size();
    op.full_name = keep(scope + "/" + type + "-op" + std::to_string(numbers_[scope + type]++));
    for (const Ref& input : inputs) {
      CatalogTensor& tensor = add_tensor(op, true, input.values, input.shape);
      tensor.source = input.op;
      tensor.tensor_name = keep(input.name);
    }
    add_tensor(op, false, output, shape);
    return {op.sequence, "", output, shape};
  }

  // What the statistics of its tensors tell, in place of the tensors.
  void forget_values() {
    for (CatalogOp& op : catalog_.ranks[0].steps[0].ops) {
      for (CatalogTensor& tensor : op.tensors) {
        const Values& values = values_[std::string(tensor.file)];
        KnownStatistics statistics;
        double squares = 0, sum = 0;
        for (const float value : values) {
          squares += static_cast<double>(value) * static_cast<double>(value);
          sum += static_cast<double>(value);
        }
        statistics.max = *std::ranges::max_element(values);
        statistics.min = *std::ranges::min_element(values);
        statistics.avg = sum / static_cast<double>(values.size());
        statistics.l2norm = std::sqrt(squares);
        tensor.statistics = statistics;
        tensor.file = "";
      }
    }
  }

  const Catalog& catalog() const { return catalog_; }

 private:
  std::string_view keep(const std::string& text) { return catalog_.texts->keep(text); }

  CatalogTensor& add_tensor(CatalogOp& op, bool is_input, const Values& values, const std::string& shape) {
    CatalogTensor& tensor = op.tensors.emplace_back();
    tensor.is_input = is_input;
    for (const CatalogTensor& other : op.tensors) tensor.slot += &other != &tensor && other.is_input == is_input;
    tensor.dtype = DType::float32;
    tensor.has_shape = true;
    for (std::size_t at = 1; at < shape.size() && shape[at] != ')'; at = shape.find(',', at) + 1) {
      tensor.shape.push_back(std::stoll(shape.substr(at)));
      if (shape.find(',', at) == std::string::npos) break;
    }
    tensor.file = keep("t" + std::to_string(files_++) + ".npy");
    directory_.write(tensor.file, npy("<f4", shape, bytes_of(values)));
    values_[std::string(tensor.file)] = values;
    return tensor;
  }

  TemporaryDirectory directory_;
  Catalog catalog_;
  std::map<std::string, int> numbers_;
  std::map<std::string, Values> values_;
  int files_ = 0;
};

Values times(const Values& values, float factor) {
  Values product;
  for (const float value : values) product.push_back(value * factor);
  return product;
}

const Values kX = {1, 2, 3, 4, 5, 6}, kA = {1, 2, 3, 4}, kB = {5, 6, 7, 8};

// x -> mm a -> relu -> mm b; the numbers are not those of these ops, which nobody checks.
struct Chain {
  Values first = {1, -2, 3, -4, 5, -6}, gate = {1, 0, 3, 0, 5, 0}, last = {7, 8, 9, 10, 11, 12};
  Values a = kA, b = kB;
  bool has_extra = false;

  void write(Program& program) const {
    const auto x = Program::parameter("", kX, "(3,2)");
    auto h = program.add("mm", {x, Program::parameter("a.weight", a, "(2,2)")}, first, "(3,2)");
    if (has_extra) h = program.add("mul", {h}, times(first, 2), "(3,2)");
    const auto g = program.add("relu", {h}, has_extra ? times(gate, 2) : gate, "(3,2)");
    program.add("mm", {g, Program::parameter("b.weight", b, "(2,2)")}, has_extra ? times(last, 2) : last, "(3,2)");
  }
};

DumpComparison compared(const Program& target, const Program& golden, const CompareOptions& options = {}) {
  Result<DumpComparison> comparison = compare_dumps(target.catalog(), golden.catalog(), options);
  EXPECT_TRUE(comparison) << comparison.error().message;
  return std::move(*comparison);
}

DumpComparison compared(const Chain& target, const Chain& golden) {
  static std::deque<Program> programs;  // what a comparison points into
  Program& left = programs.emplace_back();
  Program& right = programs.emplace_back();
  target.write(left);
  golden.write(right);
  return compared(left, right);
}

TEST(Compare, ADumpIsTheSameAsItself) {
  Chain chain;
  chain.first[1] = -std::numeric_limits<float>::infinity();
  chain.gate[1] = std::numeric_limits<float>::quiet_NaN();
  const DumpComparison comparison = compared(chain, chain);
  EXPECT_THAT(comparison.findings, IsEmpty());
  for (const ComparedOp& op : comparison.steps[0].ops) EXPECT_EQ(op.verdict, OpVerdict::same);
}

TEST(Compare, TheOpThatAddsIsNamedAndThoseAfterItInherit) {
  Chain wrong;
  wrong.gate[2] = 3.5F;
  wrong.last = times(wrong.last, 1.2F);
  const DumpComparison comparison = compared(wrong, {});
  ASSERT_THAT(comparison.findings, SizeIs(1));
  EXPECT_EQ(comparison.findings[0].culprit->full_name, "Default/net/relu-op0");
  EXPECT_THAT(comparison.findings[0].what, HasSubstr("at (1,0): 3.5, golden 3"));
  EXPECT_EQ(comparison.steps[0].ops[0].verdict, OpVerdict::same);
  EXPECT_EQ(comparison.steps[0].ops[2].verdict, OpVerdict::inherited);
}

TEST(Compare, RoundingIsNoFinding) {
  Chain rounded;
  rounded.last = times(rounded.last, 1 + 0x1p-22F);
  const DumpComparison comparison = compared(rounded, {});
  EXPECT_THAT(comparison.findings, IsEmpty());
  EXPECT_EQ(comparison.steps[0].ops[2].verdict, OpVerdict::rounding);
}

TEST(Compare, ExchangedWeightsAreTold) {
  Chain swapped;
  std::swap(swapped.a, swapped.b);
  swapped.first = times(swapped.first, 3);
  swapped.gate = times(swapped.gate, 3);
  const DumpComparison comparison = compared(swapped, {});
  ASSERT_THAT(comparison.findings, SizeIs(2));
  EXPECT_EQ(comparison.findings[0].kind, FindingKind::parameter);
  EXPECT_EQ(comparison.findings[0].tensor->target->tensor_name, "a.weight");
  EXPECT_THAT(comparison.findings[0].what, HasSubstr("it holds the golden b.weight"));
}

TEST(Compare, ATransposedWeightIsTold) {
  Chain turned;
  turned.a = {1, 3, 2, 4};
  turned.first = times(turned.first, 2);
  const DumpComparison comparison = compared(turned, {});
  ASSERT_FALSE(comparison.findings.empty());
  EXPECT_EQ(comparison.findings[0].kind, FindingKind::parameter);
  EXPECT_THAT(comparison.findings[0].what, HasSubstr("the golden one transposed"));
}

TEST(Compare, AnInsertedOpIsNamedWhereItChangesWhatOthersRead) {
  Chain extra;
  extra.has_extra = true;
  const DumpComparison comparison = compared(extra, {});
  ASSERT_FALSE(comparison.findings.empty());
  EXPECT_EQ(comparison.findings[0].kind, FindingKind::inserted);
  EXPECT_EQ(comparison.findings[0].culprit->full_name, "Default/net/mul-op0");
}

TEST(Compare, AMissingOpIsNamedWhereItChangesWhatOthersRead) {
  Chain extra;
  extra.has_extra = true;
  const DumpComparison comparison = compared({}, extra);
  ASSERT_FALSE(comparison.findings.empty());
  EXPECT_EQ(comparison.findings[0].kind, FindingKind::missing);
  EXPECT_TRUE(comparison.findings[0].in_golden);
  EXPECT_EQ(comparison.findings[0].culprit->full_name, "Default/net/mul-op0");
}

TEST(Compare, AFusedOpIsComparedWithTheLastOfItsParts) {
  const Values sum = {1, -1, 2, -2}, gate = {1, 0, 2, 0};
  Program fused, parts;
  const auto x = Program::parameter("", kX, "(3,2)"), w = Program::parameter("w", kA, "(2,2)");
  const auto bias = Program::parameter("bias", {1, 1}, "(2)");
  fused.add("neg", {fused.add("linear", {x, w, bias}, gate, "(2,2)")}, times(gate, -1), "(2,2)");
  auto h = parts.add("MatMul", {x, w}, {0, -2, 1, -3}, "(2,2)");
  h = parts.add("BiasAdd", {h, bias}, sum, "(2,2)");
  h = parts.add("ReLU", {h}, gate, "(2,2)");
  parts.add("Neg", {h}, times(gate, -1), "(2,2)");
  const DumpComparison comparison = compared(fused, parts);
  EXPECT_THAT(comparison.findings, IsEmpty());
  EXPECT_THAT(comparison.steps[0].ops[0].golden, SizeIs(3));
  EXPECT_EQ(comparison.steps[0].ops[0].verdict, OpVerdict::same);
  EXPECT_EQ(comparison.steps[0].ops[1].verdict, OpVerdict::same);
}

TEST(Compare, AnotherOrderOfAxesIsNoDifference) {
  Program nchw, nhwc;
  nchw.add("relu", {}, {1, 2, 3, 4, 5, 6}, "(1,2,1,3)");
  nhwc.add("ReLU", {}, {1, 4, 2, 5, 3, 6}, "(1,1,3,2)");
  const DumpComparison comparison = compared(nchw, nhwc);
  EXPECT_THAT(comparison.findings, IsEmpty());
  EXPECT_EQ(comparison.steps[0].ops[0].outputs[0].note, "NCHW, the golden one NHWC");
}

TEST(Compare, StatisticsTellTheSameFirstOp) {
  Chain wrong;
  wrong.gate[2] = 3.5F;
  wrong.last = times(wrong.last, 1.2F);
  Program target, golden;
  wrong.write(target);
  Chain().write(golden);
  target.forget_values();
  golden.forget_values();
  const DumpComparison comparison = compared(target, golden);
  ASSERT_THAT(comparison.findings, SizeIs(1));
  EXPECT_EQ(comparison.findings[0].culprit->full_name, "Default/net/relu-op0");
  EXPECT_EQ(comparison.findings[0].tensor->difference->by, ComparedBy::statistics);
}

TEST(Compare, ToleranceMayBeGiven) {
  Chain wrong;
  wrong.last = times(wrong.last, 1.01F);
  Program target, golden;
  wrong.write(target);
  Chain().write(golden);
  CompareOptions options;
  EXPECT_THAT(compared(target, golden, options).findings, SizeIs(1));
  options.tolerance.rtol = 0.02;
  EXPECT_THAT(compared(target, golden, options).findings, IsEmpty());
}

TEST(Compare, AMappingWins) {
  Program target, golden;
  target.add("add", {}, {1, 2}, "(2)", "a");
  golden.add("mul", {}, {5, 6}, "(2)", "b");
  golden.add("sub", {}, {1, 2}, "(2)", "c");
  CompareOptions options;
  options.names["add-op0"] = "c/sub-op0";
  const DumpComparison comparison = compared(target, golden, options);
  EXPECT_THAT(comparison.findings, IsEmpty());
  EXPECT_EQ(comparison.steps[0].ops[0].how, MatchedBy::mapping);
}

TEST(Compare, NaNOnOneSideIsAFinding) {
  Chain wrong;
  wrong.gate[0] = std::numeric_limits<float>::quiet_NaN();
  const DumpComparison comparison = compared(wrong, {});
  ASSERT_FALSE(comparison.findings.empty());
  EXPECT_EQ(comparison.findings[0].kind, FindingKind::non_finite);
  EXPECT_EQ(comparison.findings[0].culprit->full_name, "Default/net/relu-op0");
}

}  // namespace
}  // namespace sonde
