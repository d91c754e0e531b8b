// Convolutions, norms over channels and operators with numbers of their call are computed again from other inputs.
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "relations/computed_again.h"
#include "relations/networks.h"

namespace sonde {
namespace {

Attribute list_of(const std::string& name, std::vector<std::int64_t> integers) {
  return {.name = name, .kind = AttributeKind::integers, .integers = std::move(integers), .reals = {}, .text = {}};
}
Attribute real_of(const std::string& name, double value) {
  return {.name = name, .kind = AttributeKind::real, .integers = {}, .reals = {value}, .text = {}};
}

TEST(KnownLayers, ConvolutionsAreKnown) {
  // Rows of 4, two elements at a time: with a stride of 2, and one 0 at either end.
  const Values x{1, 2, 3, 4}, y{5, 7, 9, 2}, w{10, 1}, bias{100};
  const std::vector<Attribute> call{list_of("stride", {2}), list_of("padding", {1})};
  expect_known({"conv1d",
                {x, w, bias},
                {"(1,1,4)", "(1,1,2)", "(1)"},
                {101, 123, 140},
                "(1,1,3)",
                {y, w, bias},
                {105, 179, 120},
                call});
  // Windows of 2 x 2.
  const Values image{1, 2, 3, 4, 5, 6, 7, 8, 9}, other{9, 8, 7, 6, 5, 4, 3, 2, 1}, corners{1, 0, 0, 1};
  expect_known({"conv2d",
                {image, corners},
                {"(1,1,3,3)", "(1,1,2,2)"},
                {6, 8, 12, 14},
                "(1,1,2,2)",
                {other, corners},
                {14, 12, 8, 6}});
  // Two channels, each with a kernel of its own.
  expect_known({"conv1d",
                {{1, 2, 3, 4}, {10, 20}},
                {"(1,2,2)", "(2,1,1)"},
                {10, 20, 60, 80},
                "(1,2,2)",
                {{4, 3, 2, 1}, {10, 20}},
                {40, 30, 40, 20},
                {list_of("groups", {2})}});
  // Elements that are two apart.
  expect_known(
      {"conv1d", {x, w}, {"(1,1,4)", "(1,1,2)"}, {13, 24}, "(1,1,2)", {y, w}, {59, 72}, {list_of("dilation", {2})}});
  expect_known({"conv3d",
                {{1, 2, 3, 4}, {1, 10}},
                {"(1,1,1,2,2)", "(1,1,1,1,2)"},
                {21, 43},
                "(1,1,1,2,1)",
                {{5, 6, 7, 8}, {1, 10}},
                {65, 87}});
}

// Two rows of two channels of two.
Values normed_of(const Values& x, const std::vector<std::vector<std::size_t>>& groups) {
  Values y = x;
  for (const std::vector<std::size_t>& group : groups) {
    float mean = 0, squares = 1e-5F;
    for (const std::size_t i : group) mean += x[i] / static_cast<float>(group.size());
    for (const std::size_t i : group) squares += (x[i] - mean) * (x[i] - mean) / static_cast<float>(group.size());
    for (const std::size_t i : group) y[i] = (x[i] - mean) / std::sqrt(squares);
  }
  return y;
}

Values with_channels(Values x, const Values& weight, const Values& bias) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = x[i] * weight[i / 2 % 2] + bias[i / 2 % 2];
  return x;
}

TEST(KnownLayers, NormsOverChannelsAreKnown) {
  const Values x{1, 5, 2, 8, 3, 4, 7, 1}, y{2, 2, 9, 1, 7, 6, 3, 3}, weight{2, 3}, bias{1, -1};
  const std::vector<std::vector<std::size_t>> of_batch{{0, 1, 4, 5}, {2, 3, 6, 7}}, of_rows{{0, 1, 2, 3}, {4, 5, 6, 7}};
  expect_known({"batch_norm",
                {x, weight, bias},
                {"(2,2,2)", "(2)", "(2)"},
                with_channels(normed_of(x, of_batch), weight, bias),
                "(2,2,2)",
                {y, weight, bias},
                with_channels(normed_of(y, of_batch), weight, bias)});
  expect_known({"group_norm",
                {x, weight, bias},
                {"(2,2,2)", "(2)", "(2)"},
                with_channels(normed_of(x, of_rows), weight, bias),
                "(2,2,2)",
                {y, weight, bias},
                with_channels(normed_of(y, of_rows), weight, bias),
                {list_of("num_groups", {1})}});
  // In an evaluation, by the mean and variance that it keeps.
  const Values mean{1, 2}, variance{4, 9};
  const auto kept = [&](const Values& v) {
    Values all;
    for (std::size_t i = 0; i < v.size(); ++i)
      all.push_back((v[i] - mean[i / 2 % 2]) / std::sqrt(variance[i / 2 % 2] + 1e-5F));
    return with_channels(all, weight, bias);
  };
  expect_known({"batch_norm",
                {x, weight, bias, mean, variance},
                {"(2,2,2)", "(2)", "(2)", "(2)", "(2)"},
                kept(x),
                "(2,2,2)",
                {y, weight, bias, mean, variance},
                kept(y)});
}

TEST(KnownLayers, NumbersOfTheCallAreKnown) {
  const Values x{1, 5, 2, 8, 3, 4}, y{2, 2, 9, 1, 7, 6};
  const auto expect_each = [&](const std::string& type, const Attribute& number, float (*function)(float)) {
    expect_known({type, {x}, {"(2,3)"}, each(x, function), "(2,3)", {y}, each(y, function), {number}});
  };
  expect_each("pow", real_of("exponent", 3), [](float v) { return v * v * v; });
  expect_each("pow", real_of("self", 2), [](float v) { return std::exp2(v); });
  expect_each("clamp", real_of("min", 3), [](float v) { return std::max(v, 3.0F); });
  expect_each("clamp_min", real_of("min", 3), [](float v) { return std::max(v, 3.0F); });
  expect_each("clamp_max", real_of("max", 3), [](float v) { return std::min(v, 3.0F); });
  expect_each("relu6", real_of("inplace", 0), [](float v) { return std::min(v, 6.0F); });
  const Values signs{-1, 5, -2, 8, 3, -4}, others{2, -2, 9, -1, -7, 6};
  const auto leaky = [](float v) { return v < 0 ? v / 4 : v; };
  expect_known({"leaky_relu",
                {signs},
                {"(6)"},
                each(signs, leaky),
                "(6)",
                {others},
                each(others, leaky),
                {real_of("negative_slope", 0.25)}});
  expect_known({"dropout", {x}, {"(2,3)"}, x, "(2,3)", {y}, y});
}

TEST(KnownLayers, ComparisonsAreKnown) {
  const Values a{1, 5, 2, 8, 3, 0}, b{2, 5, 1, 9, 3, 4}, c{2, 2, 9, 1, 0, 4};
  const std::vector<std::pair<std::string, float (*)(float, float)>> functions{
      {"eq", [](float x, float y) { return x == y ? 1.0F : 0.0F; }},
      {"ne", [](float x, float y) { return x != y ? 1.0F : 0.0F; }},
      {"lt", [](float x, float y) { return x < y ? 1.0F : 0.0F; }},
      {"le", [](float x, float y) { return x <= y ? 1.0F : 0.0F; }},
      {"gt", [](float x, float y) { return x > y ? 1.0F : 0.0F; }},
      {"ge", [](float x, float y) { return x >= y ? 1.0F : 0.0F; }},
      {"maximum", [](float x, float y) { return std::max(x, y); }},
      {"minimum", [](float x, float y) { return std::min(x, y); }},
      {"__and__", [](float x, float y) { return x != 0 && y != 0 ? 1.0F : 0.0F; }},
      {"bitwise_and", [](float x, float y) { return x != 0 && y != 0 ? 1.0F : 0.0F; }},
      {"logical_and", [](float x, float y) { return x != 0 && y != 0 ? 1.0F : 0.0F; }},
  };
  for (const auto& [type, function] : functions)
    expect_known({type, {a, b}, {"(6)", "(6)"}, both(a, b, function), "(6)", {c, b}, both(c, b, function)});
  for (const char* type : {"bitwise_not", "logical_not"}) {
    const auto no = [](float v) { return v == 0 ? 1.0F : 0.0F; };
    expect_known({type, {a}, {"(6)"}, each(a, no), "(6)", {c}, each(c, no)});
  }
}

TEST(KnownLayers, TrianglesRunningSumsAndOuterProductsAreKnown) {
  const Values x{1, 5, 2, 8, 3, 4}, y{2, 2, 9, 1, 7, 6};
  expect_known(
      {"triu", {x}, {"(2,3)"}, {0, 5, 2, 0, 0, 4}, "(2,3)", {y}, {0, 2, 9, 0, 0, 6}, {list_of("diagonal", {1})}});
  expect_known({"tril", {x}, {"(2,3)"}, {1, 0, 0, 8, 3, 0}, "(2,3)", {y}, {2, 0, 0, 1, 7, 0}});
  expect_known({"cumsum", {x}, {"(2,3)"}, {1, 6, 8, 8, 11, 15}, "(2,3)", {y}, {2, 4, 13, 1, 8, 14}});
  expect_known({"cumsum", {x}, {"(2,3)"}, {1, 5, 2, 9, 8, 6}, "(2,3)", {y}, {2, 2, 9, 3, 9, 15}});
  expect_known({"outer", {{1, 2}, {3, 5}}, {"(2)", "(2)"}, {3, 5, 6, 10}, "(2,2)", {{4, 1}, {3, 5}}, {12, 20, 3, 5}});
}

}  // namespace
}  // namespace sonde
