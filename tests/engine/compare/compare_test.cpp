// compare_dumps: small steps made by hand, with a fault in each.
#include "ask/compare/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "program.h"
#include "relations/networks.h"

namespace sonde {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

const Values kX = {1, 2, 3, 4, 5, 6}, kA = {1, 2, 3, 4}, kB = {5, 6, 7, 8};

// x -> mm a -> relu -> mm b; the numbers are not the results of these ops, which is not checked.
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

// Of what writes itself into a program.
template <typename Written>
requires requires(const Written& written, Program& program) { written.write(program); }
DumpComparison compared(const Written& target, const Written& golden) {
  static std::deque<Program> programs;  // a comparison points into them
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
  for (const ComparedOp& op : comparison.steps[0].ops) EXPECT_EQ(op.verdict, OpVerdict::identical);
}

TEST(Compare, TheOpThatAddsIsNamedAndThoseAfterItInherit) {
  Chain wrong;
  wrong.gate[2] = 3.5F;
  wrong.last = times(wrong.last, 1.2F);
  const DumpComparison comparison = compared(wrong, {});
  ASSERT_THAT(comparison.findings, SizeIs(1));
  EXPECT_EQ(comparison.findings[0].culprit->op_name, "Default/net/relu-op0");
  EXPECT_THAT(comparison.findings[0].what, HasSubstr("at (1,0): 3.5, golden 3"));
  EXPECT_EQ(comparison.steps[0].ops[0].verdict, OpVerdict::identical);
  EXPECT_EQ(comparison.steps[0].ops[2].verdict, OpVerdict::propagated);
}

// Two ways to compute the same.
TEST(Compare, ADifferenceThatTheEndOfTheStepDoesNotShowIsNoFinding) {
  Chain other;
  other.first = times(other.first, 3);
  other.gate = times(other.gate, -2);
  EXPECT_THAT(compared(other, {}).findings, IsEmpty());
  other.a = times(other.a, 3);  // a weight that contains what the golden run computes elsewhere
  EXPECT_THAT(compared(other, {}).findings, IsEmpty());
  other.last[5] *= 1.01F;
  EXPECT_THAT(compared(other, {}).findings, Not(IsEmpty()));
}

TEST(Compare, RoundingIsNoFinding) {
  Chain rounded;
  rounded.last = times(rounded.last, 1 + 0x1p-22F);
  const DumpComparison comparison = compared(rounded, {});
  EXPECT_THAT(comparison.findings, IsEmpty());
  EXPECT_EQ(comparison.steps[0].ops[2].verdict, OpVerdict::within_tolerance);
}

TEST(Compare, ExchangedWeightsAreReported) {
  Chain swapped;
  std::swap(swapped.a, swapped.b);
  swapped.first = times(swapped.first, 3);
  swapped.gate = times(swapped.gate, 3);
  swapped.last = times(swapped.last, 5);
  const DumpComparison comparison = compared(swapped, {});
  ASSERT_THAT(comparison.findings, SizeIs(2));
  EXPECT_EQ(comparison.findings[0].kind, FindingKind::parameter);
  EXPECT_EQ(comparison.findings[0].tensor->target->parameter, "a.weight");
  EXPECT_THAT(comparison.findings[0].what, HasSubstr("it has the values of the golden b.weight"));
}

TEST(Compare, ATransposedWeightIsReported) {
  Chain turned;
  turned.a = {1, 3, 2, 4};
  turned.first = times(turned.first, 2);
  turned.gate = times(turned.gate, 2);
  turned.last = times(turned.last, 2);
  const DumpComparison comparison = compared(turned, {});
  ASSERT_FALSE(comparison.findings.empty());
  EXPECT_EQ(comparison.findings[0].kind, FindingKind::parameter);
  EXPECT_THAT(comparison.findings[0].what, HasSubstr("the golden one transposed"));
}

// The two units between the products are exchanged, in the weights of both.
Chain with_units_exchanged() {
  const auto exchanged = [](Values values) {
    for (std::size_t i = 0; i + 1 < values.size(); i += 2) std::swap(values[i], values[i + 1]);
    return values;
  };
  Chain chain;
  chain.a = exchanged(chain.a);
  chain.first = exchanged(chain.first);
  chain.gate = exchanged(chain.gate);
  chain.b = {kB[2], kB[3], kB[0], kB[1]};
  return chain;
}

TEST(Compare, UnitsInAnotherOrderAreNoFinding) {
  const DumpComparison comparison = compared(with_units_exchanged(), {});
  EXPECT_THAT(comparison.findings, IsEmpty());
  EXPECT_THAT(comparison.notes, Contains(HasSubstr("another layout")));
}

TEST(Compare, AnOpBetweenUnitsInAnotherOrderIsNamed) {
  Chain wrong = with_units_exchanged();
  wrong.gate = times(wrong.gate, 1.01F);
  wrong.last = times(wrong.last, 1.01F);
  const DumpComparison comparison = compared(wrong, {});
  ASSERT_FALSE(comparison.findings.empty());
  EXPECT_EQ(comparison.findings[0].culprit->op_name, "Default/net/relu-op0");
}

TEST(Compare, AnInsertedOpIsNamedWhereItChangesWhatOthersRead) {
  Chain extra;
  extra.has_extra = true;
  const DumpComparison comparison = compared(extra, {});
  ASSERT_FALSE(comparison.findings.empty());
  EXPECT_EQ(comparison.findings[0].kind, FindingKind::inserted);
  EXPECT_EQ(comparison.findings[0].culprit->op_name, "Default/net/mul-op0");
}

// One reader of the product shows nothing at its end, the other one does: gradients, and their norm, which is below the
// largest one.
void add_product_of_two_readers(Program& program, float factor) {
  const Values data = numbers(64, 1);
  const auto number = [](float value) { return Values(1, value); };
  Program::Ref read = program.add("linear", {Program::parameter("weight", data, "(64,)")}, data, "(64,)");
  if (factor != 1) read = program.add("mul", {read}, times(data, factor), "(64,)");
  Program::Ref norm = program.add("square", {read}, times(data, factor * factor), "(64,)");
  for (const std::string type : {"sum", "allreduce_"}) norm = program.add(type, {norm}, number(factor * factor), "()");
  norm = program.add("sqrt", {norm}, number(factor), "()");
  norm = program.add("add", {norm}, number(factor + 0.125F), "()");
  norm = program.add("reciprocal", {norm}, number(1 / (factor + 0.125F)), "()");
  norm = program.add("mul", {norm}, number(4 / (factor + 0.125F)), "()");
  norm = program.add("clamp", {norm}, number(1), "()");
  program.add("mul", {read, norm}, times(data, factor), "(64,)");
}

TEST(Compare, AnInsertedOpIsNamedAlthoughTheFirstOfItsReadersShowsNothingAtTheEnd) {
  Program target, golden;
  add_product_of_two_readers(target, 1.5F);
  add_product_of_two_readers(golden, 1);
  for (const bool is_missing : {false, true}) {
    const Result<DumpComparison> found = is_missing ? compare_dumps(golden.catalog(), target.catalog(), {})
                                                    : compare_dumps(target.catalog(), golden.catalog(), {});
    ASSERT_TRUE(found);
    ASSERT_FALSE(found->findings.empty());
    EXPECT_EQ(found->findings[0].culprit->op_name, "Default/net/mul-op0");
    EXPECT_FALSE(found->findings[0].uncertain);
  }
}

TEST(Compare, AMissingOpIsNamedWhereItChangesWhatOthersRead) {
  Chain extra;
  extra.has_extra = true;
  const DumpComparison comparison = compared({}, extra);
  ASSERT_FALSE(comparison.findings.empty());
  EXPECT_EQ(comparison.findings[0].kind, FindingKind::missing);
  EXPECT_TRUE(comparison.findings[0].in_golden);
  EXPECT_EQ(comparison.findings[0].culprit->op_name, "Default/net/mul-op0");
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
  EXPECT_EQ(comparison.steps[0].ops[0].verdict, OpVerdict::identical);
  EXPECT_EQ(comparison.steps[0].ops[1].verdict, OpVerdict::identical);
}

TEST(Compare, AnotherOrderOfAxesIsNoDifference) {
  Program nchw, nhwc;
  nchw.add("relu", {}, {1, 2, 3, 4, 5, 6}, "(1,2,1,3)");
  nhwc.add("ReLU", {}, {1, 4, 2, 5, 3, 6}, "(1,1,3,2)");
  const DumpComparison comparison = compared(nchw, nhwc);
  EXPECT_THAT(comparison.findings, IsEmpty());
  EXPECT_EQ(comparison.steps[0].ops[0].outputs[0].note, "NCHW, the golden one NHWC");
}

TEST(Compare, StatisticsGiveTheSameFirstOp) {
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
  EXPECT_EQ(comparison.findings[0].culprit->op_name, "Default/net/relu-op0");
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
  options.names.ops["add-op0"] = "c/sub-op0";
  const DumpComparison comparison = compared(target, golden, options);
  EXPECT_THAT(comparison.findings, IsEmpty());
  EXPECT_EQ(comparison.steps[0].ops[0].how, MatchedBy::mapping);
}

// Two layers that read the same: the golden program runs them in another order, below other names and in a list.
TEST(Compare, LayersThatAreCalledOtherwiseAreMatchedByTheMappingOfLayers) {
  Program target, golden;
  target.add("mul", {}, {1, 2}, "(2)", "Default/network-Net/enc-Block/left-Linear");
  target.add("mul", {}, {3, 4}, "(2)", "Default/network-Net/enc-Block/parts/right-Linear");
  target.add("mul", {}, {5, 6}, "(2)", "Gradients/Default/network-Net/enc-Block/left-Linear");
  target.last().phase = Phase::backward;
  golden.add("mul", {}, {5, 6}, "(2)", "Gradients/Default/network-Own/0-Block/a-Dense");
  golden.last().phase = Phase::backward;
  golden.add("mul", {}, {3, 4}, "(2)", "Default/network-Own/0-Block/b-Dense");
  golden.add("mul", {}, {1, 2}, "(2)", "Default/network-Own/0-Block/a-Dense");
  CompareOptions options;
  options.names.layers["Net"]["enc"] = "0";
  options.names.layers["Block"] = {{"left", "a"}, {"parts.right", "b"}, {"parts", "wrong"}, {"lef", "b"}};
  const DumpComparison comparison = compared(target, golden, options);
  EXPECT_THAT(comparison.findings, IsEmpty());
  std::vector<std::string> names;
  for (const ComparedOp& op : comparison.steps[0].ops) {
    ASSERT_FALSE(op.golden.empty());
    names.emplace_back(op.golden[0]->op_name);
    EXPECT_EQ(op.how, MatchedBy::mapping);
  }
  const std::vector<std::string> wanted = {"Default/network-Own/0-Block/a-Dense/mul-op0",
                                           "Default/network-Own/0-Block/b-Dense/mul-op0",
                                           "Gradients/Default/network-Own/0-Block/a-Dense/mul-op0"};
  EXPECT_EQ(names, wanted);
}

TEST(Compare, NaNOnOneSideIsAFinding) {
  Chain wrong;
  wrong.gate[0] = std::numeric_limits<float>::quiet_NaN();
  const DumpComparison comparison = compared(wrong, {});
  ASSERT_FALSE(comparison.findings.empty());
  EXPECT_EQ(comparison.findings[0].kind, FindingKind::non_finite);
  EXPECT_EQ(comparison.findings[0].culprit->op_name, "Default/net/relu-op0");
}

const Values kWeight = {1, -2, 0.5F, 4}, kGradient = {0.5F, 0.25F, -1, 2};

Attribute real(const std::string& name, double value) {
  Attribute attribute;
  attribute.name = name;
  attribute.kind = AttributeKind::real;
  attribute.reals = {value};
  return attribute;
}

Attribute whole(const std::string& name, std::int64_t value) {
  Attribute attribute;
  attribute.name = name;
  attribute.kind = AttributeKind::integer;
  attribute.integers = {value};
  return attribute;
}

Attribute list(const std::string& name, const std::vector<std::int64_t>& values) {
  Attribute attribute;
  attribute.name = name;
  attribute.kind = AttributeKind::integers;
  attribute.integers = values;
  return attribute;
}

Attribute word(const std::string& name, const std::string& value) {
  Attribute attribute;
  attribute.name = name;
  attribute.kind = value.empty() ? AttributeKind::none : AttributeKind::text;
  attribute.text = value;
  return attribute;
}

// The results differ by less than rounding; only the calls could explain it.
TEST(Compare, OnlyAnArgumentThatMeansSomethingElseExplainsADifferenceOfRounding) {
  const auto found = [](const Attribute& mine, const Attribute& theirs) {
    Program target, golden;
    const auto x = Program::parameter("x", {1, 2, 3, 4, 5, 6}, "(3,2)");
    target.add("softmax", {x}, {0.1F, 0.2F, 0.3F, 0.4F, 0.5F, 0.6F}, "(3,2)");
    target.call_with(mine);
    golden.add("softmax", {x}, {0.1F, 0.2F, 0.3F, 0.4F, 0.5F, 0.60000002F + 6e-8F}, "(3,2)");
    golden.call_with(theirs);
    return !compared(target, golden).findings.empty();
  };
  EXPECT_FALSE(found(whole("dim", -1), whole("dim", 1)));
  EXPECT_FALSE(found(list("dim", {-1}), whole("dim", 1)));
  EXPECT_FALSE(found(list("dim", {0, 1}), list("dim", {-1, 0})));
  EXPECT_FALSE(found(whole("p", 2), real("p", 2.0)));
  EXPECT_FALSE(found(word("dtype", "float32"), word("dtype", "")));
  EXPECT_FALSE(found(real("scale", 0.5), word("scale", "")));
  for (const char* form : {"enable_gqa", "keepdim", "memory_format", "cudnn_enabled", "batch_first"}) {
    EXPECT_FALSE(found(whole(form, 0), whole(form, 1))) << form;
  }
  EXPECT_FALSE(found(real("value", -0.09999999403953552), real("value", -0.1)));  // a learning rate kept as float32
  EXPECT_TRUE(found(real("value", -0.0999), real("value", -0.1)));
  EXPECT_TRUE(found(real("eps", 1e-6), real("eps", 1e-5)));
  EXPECT_TRUE(found(whole("correction", 0), whole("correction", 1)));
  EXPECT_TRUE(found(word("approximate", "tanh"), word("approximate", "none")));
}

TEST(Compare, AnOpWithoutRecordsIsNamedWhereOnlyItCanBeTheOrigin) {
  const auto write = [](Program& program, float scale, float noise) {
    const auto h = program.add("exp", {Program::parameter("x", {1, 2}, "(2)")}, {3 + noise, 7}, "(2)");
    const auto mapped = program.add("cumsum", {h}, {3, 10}, "(2)");
    for (CatalogTensor& tensor : program.last().tensors) {
      tensor.file = "";
      tensor.skipped = std::string_view("functorch wrapper");
    }
    program.add("neg", {{mapped.op, "", {3 * scale, 10}, "(2)"}}, {-3 * scale, -10}, "(2)");
  };
  Program target, golden, close;
  write(target, 2, 1e-6F);
  write(golden, 1, 0);
  write(close, 1 + 6e-6F, 1e-6F);
  const DumpComparison comparison = compared(target, golden);
  ASSERT_FALSE(comparison.findings.empty());
  EXPECT_EQ(comparison.findings[0].culprit->op_name, "Default/net/cumsum-op0");
  EXPECT_TRUE(comparison.findings[0].uncertain);
  EXPECT_THAT(compared(close, golden).findings, IsEmpty());
}

TEST(Compare, ABufferKeptInACoarserTypeIsNamedWithItsReaders) {
  for (const bool golden_is_coarser : {false, true}) {
    const auto write = [](Program& program, bool coarse) {
      const Values buffer = coarse ? Values{0.10009765625F, 0.0100021362F} : Values{0.1F, 0.01F};
      const auto freq = Program::parameter("freq", buffer, "(2)");
      const auto h = program.add("mul", {freq, Program::parameter("x", {1, 1}, "(2)")}, buffer, "(2)");
      if (coarse) program.last().tensors[0].dtype = DType::float16;
      program.add("add", {h, freq}, times(buffer, 2), "(2)");
      if (coarse) program.last().tensors[1].dtype = DType::float16;
    };
    Program target, golden;
    write(target, !golden_is_coarser);
    write(golden, golden_is_coarser);
    // Their files hold float32; only the statistics are compared.
    target.forget_values();
    golden.forget_values();
    const DumpComparison comparison = compared(target, golden);
    ASSERT_FALSE(comparison.findings.empty());
    EXPECT_EQ(comparison.findings[0].kind, FindingKind::type);
    EXPECT_THAT(comparison.findings[0].what, HasSubstr("read by mul-op0, add-op0"));
  }
}

// A chunk in two, and the difference of the halves, which `exchanged` reads in the reverse order.
void write_halves(Program& program, bool exchanged) {
  const auto first = program.add("chunk", {Program::parameter("", kX, "(3,2)")}, {1, 2, 3}, "(3)");
  const auto second = program.add_output({4, 5, 6}, "(3)");
  const auto h =
      program.add("exp", {exchanged ? second : first}, exchanged ? Values{55, 148, 403} : Values{3, 7, 20}, "(3)");
  program.add("neg", {h}, times(h.values, -1), "(3)");
}

TEST(Compare, AnotherOutputOfTheSameOpIsAnotherTensor) {
  for (const bool by_statistics : {false, true}) {
    Program target, golden;
    write_halves(target, true);
    write_halves(golden, false);
    if (by_statistics) target.forget_values();
    if (by_statistics) golden.forget_values();
    const DumpComparison comparison = compared(target, golden);
    ASSERT_FALSE(comparison.findings.empty());
    EXPECT_EQ(comparison.findings[0].kind, FindingKind::wiring);
    EXPECT_EQ(comparison.findings[0].culprit->op_name, "Default/net/exp-op0");
    EXPECT_THAT(comparison.findings[0].what, HasSubstr("comes from Default/net/chunk-op0:output.1"));
    EXPECT_THAT(comparison.findings[0].what, HasSubstr("from Default/net/chunk-op0:output.0"));
  }
}

// backward -> [zero_] -> add_ with such a small rate that the parameter hardly moves.
void write_update(Program& program, const Values& gradient, bool has_extra) {
  auto g = program.add("mm", {Program::parameter("", kX, "(3,2)")}, kGradient, "(2,2)");
  if (has_extra) g = program.add("mul_", {g}, gradient, "(2,2)");
  const auto w = Program::parameter("weight", kWeight, "(2,2)");
  Values updated = kWeight;
  for (std::size_t i = 0; i < updated.size(); ++i) updated[i] -= 2e-6F * gradient[i];
  program.add("add_", {w, {g.op, "", gradient, "(2,2)"}}, updated, "(2,2)", "Default/optimizer-SGD");
  program.last().phase = Phase::optimizer;
}

TEST(Compare, AGradientThatIsChangedBeforeASmallStepIsAFinding) {
  Program target, golden;
  write_update(target, times(kGradient, 3), true);
  write_update(golden, kGradient, false);
  const DumpComparison comparison = compared(target, golden);
  ASSERT_FALSE(comparison.findings.empty());
  EXPECT_EQ(comparison.findings[0].kind, FindingKind::inserted);
  EXPECT_EQ(comparison.findings[0].culprit->op_name, "Default/net/mul_-op0");
}

TEST(Compare, ATensorThatNoOpOfTheDumpChangedIsReportedAtItsReader) {
  Program target, golden;
  write_update(target, {0, 0, -1, 2}, false);
  write_update(golden, kGradient, false);
  const DumpComparison comparison = compared(target, golden);
  ASSERT_FALSE(comparison.findings.empty());
  EXPECT_EQ(comparison.findings[0].kind, FindingKind::changed);
  EXPECT_EQ(comparison.findings[0].culprit->op_name, "Default/optimizer-SGD/add_-op0");
  EXPECT_THAT(comparison.findings[0].what, HasSubstr("which changed since Default/net/mm-op0 wrote it"));
}

TEST(Compare, AParameterThatOneSideDoesNotUpdateIsAFinding) {
  Program target, golden;
  write_update(golden, kGradient, false);
  target.add("mm", {Program::parameter("", kX, "(3,2)")}, kGradient, "(2,2)");
  target.add("neg", {Program::parameter("weight", kWeight, "(2,2)")}, times(kWeight, -1), "(2,2)");
  for (Program* program : {&target, &golden}) {
    program->add("mul_", {Program::parameter("other", kX, "(3,2)")}, kX, "(3,2)", "Default/optimizer-SGD");
  }
  const DumpComparison comparison = compared(target, golden);
  ASSERT_FALSE(comparison.findings.empty());
  EXPECT_EQ(comparison.findings[0].kind, FindingKind::missing);
  EXPECT_TRUE(comparison.findings[0].in_golden);
  EXPECT_THAT(comparison.findings[0].what, HasSubstr("does not write weight"));
}

// A compiled graph writes the running mean with copy_, at its end.
TEST(Compare, StatisticsThatANormalisationWritesWithoutReturningThemAreNotLeftOut) {
  const std::pair<std::string, std::size_t> cases[] = {
      {"batch_norm", 3},        {"native_batch_norm", 3}, {"_batch_norm_impl_index", 3},  {"cudnn_batch_norm", 3},
      {"miopen_batch_norm", 3}, {"instance_norm", 3},     {"batch_norm_update_stats", 1}, {"group_norm", 3}};
  for (const auto& [type, slot] : cases) {
    Program target, golden;
    const auto mean = Program::parameter("running_mean", kWeight, "(2,2)");
    std::vector<Program::Ref> inputs(slot, Program::parameter("", kX, "(3,2)"));
    inputs.push_back(mean);
    golden.add(type, inputs, kX, "(3,2)");
    target.add("var_mean", {Program::parameter("", kX, "(3,2)")}, kX, "(3,2)");
    target.add("copy_", {mean, Program::parameter("", kGradient, "(2,2)")}, kGradient, "(2,2)");
    for (Program* program : {&target, &golden}) {
      program->add("mul_", {Program::parameter("other", kX, "(3,2)")}, kX, "(3,2)", "Default/optimizer-SGD");
    }
    const DumpComparison comparison = compared(target, golden);
    const bool left_out = std::ranges::any_of(comparison.findings, [](const auto& finding) {
      return finding.what.find("nothing writes running_mean") != std::string::npos;
    });
    EXPECT_EQ(left_out, type == "group_norm") << type;
  }
}

TEST(Compare, MemoryThatNobodyHasWrittenYetIsNotCompared) {
  const auto write = [](Program& program, const Values& garbage) {
    const auto room = program.add("empty", {}, garbage, "(2)");
    const auto view = program.add("view", {room}, garbage, "(2)");
    const auto x = Program::parameter("", {1, 2}, "(2)");
    const auto sum = program.add("mul", {x, x, view}, {1, 4}, "(2)");
    program.add("copy_", {room, sum}, {1, 4}, "(2)");
  };
  Program target, golden;
  write(target, {7, 1e30F});
  write(golden, {-3, 5});
  const DumpComparison comparison = compared(target, golden);
  EXPECT_THAT(comparison.findings, IsEmpty());
}

TEST(Compare, ATensorThatPythonFillsIsData) {
  const auto write = [](Program& program, float scale) {
    const auto room = program.add("empty", {}, {scale}, "()");
    const auto number = program.add("lift_fresh", {room}, {scale}, "()");
    const auto x = Program::parameter("", {1, 2}, "(2)");
    program.add("mul", {x, number}, {scale, 2 * scale}, "(2)");
  };
  Program target, golden;
  write(target, 0.5F);
  write(golden, 0.75F);
  const DumpComparison comparison = compared(target, golden);
  ASSERT_FALSE(comparison.findings.empty());
  EXPECT_EQ(comparison.findings[0].kind, FindingKind::data);
  EXPECT_EQ(comparison.findings[0].culprit->op_name, "Default/net/lift_fresh-op0");
}

TEST(Compare, ADetachThatOneSideHasIsNamedWhereGradientsDiffer) {
  const auto write = [](Program& program, bool detached) {
    auto h = program.add("exp", {Program::parameter("", {1, 2}, "(2)")}, {3, 7}, "(2)");
    if (detached) h = program.add("detach", {h}, {3, 7}, "(2)");
    h = program.add("sin", {h}, {0.1F, 0.7F}, "(2)");
    program.add("sin_backward", {h}, detached ? Values{2, 3} : Values{4, 5}, "(2)", "Gradients/Default/net");
    program.last().phase = Phase::backward;
  };
  Program target, golden;
  write(target, true);
  write(golden, false);
  const DumpComparison comparison = compared(target, golden);
  ASSERT_FALSE(comparison.findings.empty());
  EXPECT_EQ(comparison.findings[0].kind, FindingKind::inserted);
  EXPECT_EQ(comparison.findings[0].culprit->op_name, "Default/net/detach-op0");
}

TEST(Compare, ACallWithAnotherNumberIsReportedWhereOnlyLaterOpsDiffer) {
  const auto write = [](Program& program, double epsilon, float second) {
    const auto h = program.add("layer_norm", {Program::parameter("", {1, 2}, "(2)")}, {3, 7}, "(2)");
    program.call_with(real("eps", epsilon));
    program.add("exp", {h}, {4, second}, "(2)");
  };
  Program target, golden;
  write(target, 1e-6, 9.5F);
  write(golden, 1e-5, 9);
  const DumpComparison comparison = compared(target, golden);
  ASSERT_FALSE(comparison.findings.empty());
  EXPECT_EQ(comparison.findings[0].culprit->op_name, "Default/net/layer_norm-op0");
  EXPECT_THAT(comparison.findings[0].what, HasSubstr("eps=1e-06, golden 1e-05"));
}

TEST(Compare, TwoWaysToComputeTheSameAreNotBlamed) {
  // x w + b as one op, and with the weight transposed first; all later ops are the same.
  const auto write = [](Program& program, bool in_one) {
    const auto x = Program::parameter("", kX, "(3,2)"), w = Program::parameter("w", kA, "(2,2)");
    const auto b = Program::parameter("b", {1, 1}, "(2)");
    Program::Ref h;
    if (in_one) {
      h = program.add("linear", {x, w, b}, {6, 12, 12, 26, 18, 40}, "(3,2)");
    } else {
      const auto t = program.add("t", {w}, {1, 3, 2, 4}, "(2,2)");
      h = program.add("matmul", {x, t}, {5, 11, 11, 25, 17, 39}, "(3,2)");
      h = program.add("add", {h, b}, {6, 12, 12, 26, 18, 40}, "(3,2)");
    }
    program.add("neg", {h}, times(h.values, -1), "(3,2)");
  };
  Program target, golden;
  write(target, false);
  write(golden, true);
  EXPECT_THAT(compared(target, golden).findings, IsEmpty());
  EXPECT_THAT(compared(golden, target).findings, IsEmpty());
}

TEST(Compare, OptimizersOfAnotherKindAreComparedByWhatTheyLeave) {
  const auto write = [](Program& program, const std::string& type, float state) {
    const auto w = Program::parameter("weight", kWeight, "(2,2)"), s = Program::parameter("step", {state}, "()");
    program.add(type, {w, s}, times(kWeight, 0.5F), "(2,2)", "Default/optimizer-Adam");
    program.last().phase = Phase::optimizer;
  };
  Program target, golden;
  write(target, "_fused_adam_", 1);
  write(golden, "addcdiv_", 2);
  const auto x = Program::parameter("", kX, "(3,2)");
  for (Program* program : {&target, &golden}) program->add("neg", {x}, times(kX, -1), "(3,2)");
  const DumpComparison comparison = compared(target, golden);
  EXPECT_THAT(comparison.findings, IsEmpty());
  ASSERT_THAT(comparison.notes, SizeIs(1));
  EXPECT_THAT(comparison.notes[0], HasSubstr("optimizers"));
}

TEST(Compare, AFrameworkThatDoesNotSayWhoWritesInPlaceLeavesNoUpdateOut) {
  Program target, golden;
  write_update(target, kGradient, false);
  golden.add("MatMul", {Program::parameter("", kX, "(3,2)")}, kGradient, "(2,2)");
  golden.add("ApplyMomentum", {Program::parameter("weight", kWeight, "(2,2)")}, kWeight, "(2,2)");
  EXPECT_THAT(compared(target, golden).findings, IsEmpty());
}

TEST(Compare, BatchesOfOtherSizesAreLeftOutAndAreNoFinding) {
  Program target, golden;
  target.add("relu", {Program::parameter("data-0", {1, 2}, "(2)")}, {1, 2}, "(2)");
  golden.add("relu", {Program::parameter("data-0", {1, 2, 3}, "(3)")}, {1, 2, 3}, "(3)");
  const DumpComparison comparison = compared(target, golden);
  EXPECT_THAT(comparison.findings, IsEmpty());
  ASSERT_THAT(comparison.left_out, SizeIs(1));
  EXPECT_THAT(comparison.left_out[0], HasSubstr("(2), the golden op (3)"));
}

TEST(Compare, InfinitiesThatBothHaveMakeNoFindingOfStatistics) {
  Program target, golden;
  const float infinity = std::numeric_limits<float>::infinity();
  target.add("masked_fill", {Program::parameter("", {1, 2}, "(2)")}, {-infinity, 3}, "(2)");
  golden.add("masked_fill", {Program::parameter("", {1, 2}, "(2)")}, {-infinity, 2}, "(2)");
  target.forget_values();
  golden.forget_values();
  const std::vector<CompareFinding> findings = compared(target, golden).findings;
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings[0].what, Not(HasSubstr("inf")));
  EXPECT_THAT(findings[0].what, HasSubstr("3"));
}

TEST(Compare, OfStatisticsAnOpWhoseInputsSeemTheSameIsNamedWithDoubt) {
  const auto write = [](Program& program, const Values& in, const Values& out) {
    const auto h = program.add("index", {Program::parameter("", {1, 2, 3}, "(3)")}, in, "(3)");
    program.add("mm", {h, Program::parameter("w", {1, 10, 100}, "(3)")}, out, "(1)");
  };
  Program target, golden;
  write(target, {3, 1, 2}, {213});
  write(golden, {1, 2, 3}, {321});
  target.forget_values();
  golden.forget_values();
  const DumpComparison comparison = compared(target, golden);
  ASSERT_FALSE(comparison.findings.empty());
  EXPECT_TRUE(comparison.findings[0].uncertain);
  EXPECT_EQ(comparison.findings[0].culprit->op_name, "Default/net/index-op0");
  EXPECT_THAT(comparison.findings[0].what, HasSubstr("statistics do not show the order of elements"));
}

// A sum over the ranks between the optimizer and the next forward pass belongs to the step before.
struct Joined {
  std::vector<const char*> joins = {"allreduce_"};  // in place, of the sum of a step
  float factor = 2;                                 // of the joined sum
  std::int64_t other = 0;

  void write(Program& program) const {
    auto sum = program.add("sum", {Program::parameter("", {1, 2}, "(2)")}, {3}, "(1)");
    for (const char* join : joins) {
      sum = program.add(join, {sum}, times({3}, factor), "(1)");
      call_with_group(program);
    }
    program.next_step();
    program.add("div", {Program::parameter("", {12, 24}, "(2)"), sum}, times({4, 8}, 1 / factor), "(2)");
  }

  void call_with_group(Program& program) const {
    program.call_with({"group_ranks", AttributeKind::integers, {other, 1}, {}, ""});
  }
};

TEST(Compare, ACollectiveThatIsMissingBetweenStepsIsNamedAndNotItsReader) {
  const DumpComparison missing = compared(Joined{.joins = {}, .factor = 1}, Joined{});
  ASSERT_THAT(missing.findings, SizeIs(1));
  EXPECT_EQ(missing.findings[0].kind, FindingKind::missing);
  EXPECT_EQ(missing.findings[0].culprit->op_type, "allreduce_");
  EXPECT_EQ(missing.findings[0].step, 0U);
  EXPECT_THAT(missing.findings[0].what, HasSubstr("changes input.1 of Default/net/div-op0 in step 1"));
  const DumpComparison inserted = compared(Joined{}, Joined{.joins = {}, .factor = 1});
  ASSERT_THAT(inserted.findings, SizeIs(1));
  EXPECT_EQ(inserted.findings[0].kind, FindingKind::inserted);
  EXPECT_EQ(inserted.findings[0].culprit->op_type, "allreduce_");
}

TEST(Compare, ACollectiveOverOtherRanksBetweenStepsIsNamed) {
  const DumpComparison comparison = compared(Joined{.factor = 3, .other = 5}, Joined{});
  ASSERT_FALSE(comparison.findings.empty());
  EXPECT_EQ(comparison.findings[0].culprit->op_type, "allreduce_");
  EXPECT_EQ(comparison.findings[0].step, 0U);
  EXPECT_THAT(comparison.findings[0].what, HasSubstr("group_ranks=[5, 1], golden [0, 1]"));
}

TEST(Compare, WaitingForACollectiveIsNotWhatIsMissing) {
  const auto write = [](Program& program, bool joins) {
    auto x =
        program.add("mm", {Program::parameter("", kX, "(3,2)"), Program::parameter("w", kA, "(2,2)")}, kX, "(3,2)");
    if (joins) x = program.add("all_reduce", {x}, times(kX, 2), "(3,2)");
    if (joins) x = program.add("wait_tensor", {x}, times(kX, 2), "(3,2)");
    program.add("relu", {x}, times(kX, joins ? 2 : 1), "(3,2)");
  };
  Program target, golden;
  write(target, false);
  write(golden, true);
  const DumpComparison comparison = compared(target, golden);
  ASSERT_FALSE(comparison.findings.empty());
  EXPECT_EQ(comparison.findings[0].kind, FindingKind::missing);
  EXPECT_EQ(comparison.findings[0].culprit->op_type, "all_reduce");
}

// Two ranks: a product of the second, whose terms cancel, differs within its tolerance; the sum over both shows that.
struct Summed {
  float given = 0.9F, factor = 1;

  void write(Program& first, Program& second) const {
    for (Program* program : {&first, &second}) {
      const float own = program == &second ? given : 1;
      auto h =
          program->add("mm", {Program::parameter("", kX, "(3,2)"), Program::parameter("w", times(kA, 1000), "(2,2)")},
                       times(kX, own), "(3,2)");
      h = program->add("allreduce_", {h}, times(kX, (1 + given) * factor), "(3,2)");
      program->call_with({"group_ranks", AttributeKind::integers, {0, 1}, {}, ""});
      program->add("relu", {h}, times(kX, (1 + given) * factor), "(3,2)");
    }
  }
};

DumpComparison compared(const Summed& target, const Summed& golden) {
  static std::deque<Program> programs;
  static std::deque<Catalog> catalogs;
  for (const Summed* of : {&target, &golden}) {
    Program& first = programs.emplace_back();
    Program& second = programs.emplace_back();
    of->write(first, second);
    Catalog& both = catalogs.emplace_back();
    both.path = first.catalog().path;
    both.ranks = {first.catalog().ranks[0], second.catalog().ranks[0]};
    both.ranks[1].rank = 1;
  }
  return std::move(*compare_dumps(catalogs[catalogs.size() - 2], catalogs.back(), {}));
}

TEST(Compare, ACollectiveIsNotToBlameForWhatTheRanksGave) {
  const DumpComparison given = compared(Summed{.given = 0.9F * (1 + 1e-4F)}, {});
  EXPECT_THAT(given.findings, IsEmpty());
  EXPECT_EQ(given.steps[0].ops[1].verdict, OpVerdict::propagated);
  const DumpComparison wrong = compared(Summed{.given = 0.9F * (1 + 1e-4F), .factor = 1 + 1e-2F}, {});
  ASSERT_FALSE(wrong.findings.empty());
  EXPECT_EQ(wrong.findings[0].culprit->op_type, "allreduce_");
}

}  // namespace
}  // namespace sonde
