#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "guests/msaccucmp/algorithms.h"
#include "guests/msaccucmp/alignment.h"
#include "guests/msaccucmp/directory.h"
#include "guests/msaccucmp/numpy_numbers.h"
#include "guests/msaccucmp/result_table.h"
#include "guests/msaccucmp/rules.h"
#include "guests/msaccucmp/slices.h"

namespace sonde::msaccucmp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using Floats = std::vector<float>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <typename T>
Array array_of(const std::vector<T>& values, DType dtype, std::vector<std::int64_t> shape = {}) {
  auto owner = std::make_shared<std::vector<T>>(values);
  if (shape.empty()) shape = {static_cast<std::int64_t>(values.size())};
  return {dtype, shape, reinterpret_cast<const std::byte*>(owner->data()), owner};
}

std::vector<std::string> texts(const Array& left, const Array& right, bool is_scalar = false) {
  std::int64_t left_dims[2], right_dims[2];
  const Operands operands{left.flat(left_dims), right.flat(right_dims), is_scalar, false, "left", "right"};
  std::vector<Algorithm> all;
  for (std::size_t i = 0; i < kAlgorithms; ++i) all.push_back(static_cast<Algorithm>(i));
  std::vector<std::string> remarks;
  return compute(all, operands, remarks);
}
std::vector<std::string> texts(const Floats& left, const Floats& right) {
  return texts(array_of(left, DType::float32), array_of(right, DType::float32));
}

TEST(Algorithms, EqualTensorsDifferInNothing) {
  EXPECT_THAT(texts({1, -2, 3}, {1, -2, 3}),
              ElementsAre("1.000000", "0.000000", "0.000000", "0.000000", "0.000000", "(0.667;2.055),(0.667;2.055)",
                          "0.000000", "0.000000", "0.000000", "0.000000"));
}

TEST(Algorithms, OrdinaryNumbers) {
  EXPECT_THAT(texts({1, 2, 4}, {2, 2, 2}),
              ElementsAre("0.881917", "2.000000", "1.500000", "0.645497", "0.536276", "(2.333;1.247),(2.000;0.000)",
                          "1.000000", "1.290994", "1.000000", "0.500000"));
}

TEST(Algorithms, ANanInTheGoldenTensorLeavesTheRelativeErrors) {
  const std::vector<std::string> found = texts({1, 2}, {kNan, 1});
  EXPECT_EQ(found[0], "nan");
  EXPECT_EQ(found[1], "nan");
  EXPECT_EQ(found[2], "1.000000");
  EXPECT_EQ(found[5], "(1.500;0.500),(nan;nan)");
  EXPECT_EQ(found[9], "0.500000");
}

TEST(Algorithms, InfinitiesSpread) {
  EXPECT_THAT(texts({kInfinity, 1}, {2, 1}),
              ElementsAre("nan", "inf", "inf", "inf", "nan", "(inf;nan),(1.500;0.500)", "inf", "inf", "inf", "inf"));
  EXPECT_EQ(texts({kInfinity, 1}, {kInfinity, 1})[1], "nan");
}

TEST(Algorithms, ZerosHaveNoCosine) {
  EXPECT_EQ(texts({0, 0}, {0, 0})[0], "1.0");
  EXPECT_EQ(texts({0, 0}, {1, 2})[0], "NaN");
  EXPECT_EQ(texts({1, 2}, {0, 0})[0], "NaN");
  EXPECT_EQ(texts({1, 2}, {0, 0})[3], "0.000000");
}

TEST(Algorithms, EmptyTensorsAndScalars) {
  EXPECT_THAT(texts(Floats{}, Floats{}), ElementsAre("1.0", "NaN", "0.000000", "0.000000", "NaN", "(nan;nan),(nan;nan)",
                                                     "nan", "nan", "NaN", "nan"));
  EXPECT_EQ(texts(array_of<float>({3}, DType::float32), array_of<float>({4}, DType::float32), true)[0], "1.000000");
}

TEST(Algorithms, OfBoolsOnlyTheCosineIsDefined) {
  const Array left = array_of<std::uint8_t>({1, 0, 1}, DType::bool8);
  const std::vector<std::string> found = texts(left, left);
  EXPECT_EQ(found[0], "1.000000");
  EXPECT_EQ(std::count(found.begin(), found.end(), "NaN"), 9);
}

TEST(Algorithms, ASmallSpreadAroundALargeMeanIsSeen) {
  const std::vector<std::string> found = texts({1e9F, 1e9F + 64}, {1e9F, 1e9F});
  EXPECT_EQ(found[5], "(1000000032.000;32.000),(1000000000.000;0.000)");
}

TEST(Names, OfNpuDumpsAndGoldenFiles) {
  EXPECT_EQ(npu_op_name("Add.add_1.2.3.1700000000000001"), "add_1");
  EXPECT_EQ(npu_op_name("Add.add_1.2.1700000000000001"), "add_1");
  EXPECT_EQ(npu_op_name("Add.add_1.x.3.1700000000000001"), "");
  EXPECT_EQ(npu_op_name("notes"), "");
  EXPECT_EQ(golden_key("a.b.0.1700000000000001.npy", ".npy"), "a.b.0");
  EXPECT_EQ(golden_key("a.b.0.1700000000000001.pb", ".pb"), "");
  EXPECT_EQ(golden_key("b.0.1700000000000001.pb", ".pb"), "b.0");
  EXPECT_EQ(op_type_of("/d/Add.add_1.2.3.*"), "Add");
  EXPECT_EQ(op_type_of("/d/123456"), "NaN");
}

TEST(Names, SlicesAreTakenOut) {
  EXPECT_EQ(op_key("conv_lxslice3", {}), "conv");
  EXPECT_EQ(op_key("conv_lxslice3_x", {}), "");
  EXPECT_EQ(op_key("a_sgt_graph_0_b_sgt_graph_12_conv", {}), "conv");
  EXPECT_EQ(op_key("a_lxslice3_b", {.with_rules = true}), "a_b");
  EXPECT_EQ(op_key("conv_lxslice3", {.keep_slices = true}), "conv_lxslice3");
}

// A rule file with these operators.
std::string rule_text(const std::string& ops) { return "{\"graph\":[{\"name\":\"m\",\"op\":[" + ops + "]}]}"; }

std::string op_text(const std::string& name, const std::string& origins, const std::string& more = "") {
  return "{\"name\":\"" + name +
         "\",\"type\":\"T\",\"input\":[\"x:0\",\":-1\",\"\"],\"attr\":[{\"key\":"
         "\"_datadump_original_op_names\",\"value\":{\"list\":{\"s\":[" +
         origins + "]}}}" + more + "]}";
}

TEST(Rules, OperatorsOfOneOriginAreOneGroup) {
  const auto rules = parse_rules(
      rule_text(op_text("a", "\"g\"") + "," + op_text("b", "\"h\",\"i\"") + "," + op_text("c", "\"g\"")), "r");
  ASSERT_TRUE(rules);
  ASSERT_EQ(rules->groups.size(), 2U);
  EXPECT_EQ(rules->relation(rules->groups[0]), Relation::one_to_many);
  EXPECT_EQ(rules->relation(rules->groups[1]), Relation::many_to_one);
  EXPECT_THAT(rules->names(rules->groups[0]), Pair("a,c", "g"));
  EXPECT_THAT(rules->ops[0].inputs, ElementsAre("x:0"));
  EXPECT_EQ(rules->ops[2].index, 0);
}

TEST(Rules, WithoutOriginsAnOperatorIsItsOwn) {
  const auto rules = parse_rules(rule_text(R"({"name":"a/b","type":"T"})"), "r");
  ASSERT_TRUE(rules);
  EXPECT_THAT(rules->ops[0].origins, ElementsAre("a/b"));
  ASSERT_EQ(rules->ops[0].outputs.size(), 1U);
  EXPECT_EQ(rules->ops[0].outputs[0].name, "a/b");
  EXPECT_FALSE(rules->ops[0].outputs[0].index);
}

TEST(Rules, AnEmptyListOfOriginsIsANewOperator) {
  const auto rules = parse_rules(
      rule_text(R"({"name":"a","type":"T","attr":[{"key":"_datadump_original_op_names","value":{"list":{}}}]})"), "r");
  ASSERT_TRUE(rules);
  EXPECT_EQ(rules->ops[0].origins_text(), "");
  EXPECT_THAT(rules->ops[0].outputs, IsEmpty());
}

TEST(Rules, SayWhereTheyAreWrong) {
  const auto broken = parse_rules("{\"graph\":\n3}", "rules.json");
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.failure().status, Code::cannot_parse_json);
  EXPECT_EQ(broken.failure().reason, "'rules.json', line 2: 'graph' is 3, not an array");
  EXPECT_FALSE(parse_rules("{", "r"));
}

TEST(Rules, BetweenAPairThatQuantisesOperatorsAreLeftOut) {
  const auto rules = parse_rules(rule_text(R"(
    {"name":"q_quant_layer","type":"AscendQuant","id":1,"output_desc":[{"dtype":"DT_INT8","attr":[]}]},
    {"name":"conv","type":"Conv2D","id":2,"input":["q_quant_layer:0"],"output_desc":[{"dtype":"DT_INT32","attr":[]}]},
    {"name":"d_dequant_layer","type":"AscendDequant","id":3,"input":["conv:0"],
     "output_desc":[{"dtype":"DT_FLOAT16","attr":[]}]},
    {"name":"relu","type":"Relu","id":4,"input":["d_dequant_layer:0"],"output_desc":[{"attr":[]}]})"),
                                 "r");
  ASSERT_TRUE(rules);
  std::vector<bool> left_out;
  for (const RuleOp& op : rules->ops) left_out.push_back(op.is_left_out);
  EXPECT_THAT(left_out, ElementsAre(false, true, false, false));
}

TEST(Table, QuotesAndDisarmsCells) {
  std::string text;
  add_csv_line(text, {"-a", "-1.5", "a,b", "say \"x\"", "a;=b", "nan", ""});
  EXPECT_EQ(text, "'-a,-1.5,\"a,b\",\"say \"\"x\"\"\",'a;=b,nan,\r\n");
}

TEST(Table, CommandsNoTerminal) {
  std::string text;
  add_csv_line(text, {"a\x1b]0;x\x07,b", "\r\n=1", "\xe2\x80\xae\xc2\x9b", "\xff\x7f"});
  EXPECT_EQ(text, R"("a\x1b]0;x\x07,b",\r\n=1,\u202e\u009b,\xff\x7f)"
                  "\r\n");
}

TEST(Alignment, TakesOnlyRealPaddingAway) {
  // NC1HWC0 of one image of 2 x 1 with 3 channels in NHWC: 13 of 16 are padding.
  DumpTensor tensor;
  tensor.format = 3;
  tensor.shape = {1, 1, 2, 1, 16};
  tensor.original_shape = {1, 2, 1, 3};
  std::vector<float> values(32);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  tensor.array = array_of(values, DType::float32, tensor.shape);
  const auto aligned = align_stored(tensor, tensor, 1);
  ASSERT_TRUE(aligned);
  EXPECT_EQ(aligned->left.elements(), 6);
  tensor.original_shape = {};
  EXPECT_EQ(align_stored(tensor, tensor, 1)->left.elements(), 32);
}

TEST(Alignment, ByARuleTheGoldenLayoutDecides) {
  DumpTensor left, right;
  left.format = 1;  // NHWC
  left.shape = {1, 1, 2, 3};
  left.array = array_of<float>({0, 1, 2, 3, 4, 5}, DType::float32, left.shape);
  right.format = 40;
  right.shape = {1, 3, 1, 2};
  right.array = array_of<float>({0, 3, 1, 4, 2, 5}, DType::float32, right.shape);
  const auto aligned = align_by_rule(left, right, {"NCHW", {1, 3, 1, 2}}, AlignFor::comparison, 1);
  ASSERT_TRUE(aligned);
  EXPECT_THAT(aligned->shape, ElementsAre(1, 3, 1, 2));
  EXPECT_EQ(reinterpret_cast<const float*>(aligned->left.data)[1], 3);
  EXPECT_EQ(align_by_rule(left, right, {"NO", {}}, AlignFor::comparison, 1).failure().status, Code::unsupported_format);
}

TEST(ElementErrors, WrapAndRoundAsTheTypeDoes) {
  const Array one = array_of<std::uint8_t>({1}, DType::uint8), two = array_of<std::uint8_t>({2}, DType::uint8);
  const ElementErrors bytes(one, two);
  EXPECT_EQ(bytes.at(0).absolute, 255);
  EXPECT_EQ(bytes.at(0).relative, 127.5);
  // 60000 + 60000 is beyond float16.
  const Array plus = array_of<std::uint16_t>({0x7B53}, DType::float16);
  const Array minus = array_of<std::uint16_t>({0xFB53}, DType::float16);
  const ElementErrors halves(plus, minus);
  EXPECT_TRUE(std::isinf(halves.at(0).absolute));
}

TEST(Slicing, FreeTextIsNone) {
  EXPECT_FALSE(parse_slicing("a user's tag"));
  EXPECT_FALSE(parse_slicing("{}"));
  const auto slicing = parse_slicing(R"({"threadMode":1,"slice_instance_num":2,"outputCutList":[[2,1]],
    "output_tensor_slice":[[[{"lower":0,"higher":2},{"lower":0,"higher":5}]]]})");
  ASSERT_TRUE(slicing);
  EXPECT_TRUE(slicing->is_automatic);
  EXPECT_THAT(slicing->output_shapes[0][0], ElementsAre(2, 5));
}

}  // namespace
}  // namespace sonde::msaccucmp
