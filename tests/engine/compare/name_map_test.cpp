#include "ask/compare/name_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace sonde {
namespace {

using testing::HasSubstr;

Result<NameMap> mapping(const char* text) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "sonde_mapping.yaml";
  std::ofstream(file) << text;
  Result<NameMap> names = read_mapping(file.native());
  std::filesystem::remove(file);
  return names;
}

TEST(NameMap, TheYamlOfMsprobeIsRead) {
  const Result<NameMap> names = mapping(
      "# rows\n---\n"
      "Functional.conv2d.0.forward.input.0: Mint.conv2d.0.forward.input.0\n"
      "'Functional.conv2d.0.backward.output.1': \"Mint.conv2d.0.backward.output.1\"  # the gradient\n"
      "Default/network-Net/fc-Linear/linear-op0: Default/network-Net/dense-Dense/MatMul-op0\n");
  ASSERT_TRUE(names) << names.error().message;
  EXPECT_EQ(names->ops.size(), 3U);
  EXPECT_EQ(names->ops.at("Functional.conv2d.0.forward"), "Mint.conv2d.0.forward");
  EXPECT_EQ(names->ops.at("Functional.conv2d.0.backward"), "Mint.conv2d.0.backward");
  EXPECT_EQ(names->ops.at("Default/network-Net/fc-Linear/linear-op0"), "Default/network-Net/dense-Dense/MatMul-op0");
}

TEST(NameMap, TheMappingOfLayersOfMsprobeIsRead) {
  const Result<NameMap> names = mapping(
      "# MindSpore beside Megatron\n"
      "Cell:\n"
      "  network_with_loss: module\n"
      "'ParallelAttention':   # of both\n"
      "  qkv_proj: query_key_value\n"
      "  core.out_proj: \"dense(1)\"\n"
      "Embedding: {}\n");
  ASSERT_TRUE(names) << names.error().message;
  EXPECT_TRUE(names->ops.empty());
  ASSERT_EQ(names->layers.size(), 3U);
  EXPECT_EQ(names->layers.at("TopLayer").at("network_with_loss"), "module");
  EXPECT_EQ(names->layers.at("ParallelAttention").at("qkv_proj"), "query_key_value");
  EXPECT_EQ(names->layers.at("ParallelAttention").at("core.out_proj"), "dense");
}

TEST(NameMap, OtherYamlOfMsprobeIsRefusedWithWhatIsAccepted) {
  for (const char* text : {"- ms_api: mindspore.ops.relu\n  pt_api: torch.relu\n", "  layer_1: layer_2\n", "conv1\n"}) {
    const Result<NameMap> names = mapping(text);
    ASSERT_FALSE(names) << text;
    EXPECT_THAT(names.error().message, HasSubstr("line 1: found"));
    EXPECT_THAT(names.error().message, HasSubstr("target operator: golden operator"));
  }
}

TEST(NameMap, AWrongLineOfAMappingOfLayersIsNamed) {
  const auto error_of = [](const char* text) {
    const Result<NameMap> names = mapping(text);
    return names ? std::string("it was read") : names.error().message;
  };
  EXPECT_THAT(error_of("TopLayer:\n  conv1\n"),
              HasSubstr("line 2: found 'conv1', expected `target layer: golden layer` below a class of modules"));
  EXPECT_THAT(error_of("TopLayer:\n  block:\n    conv1: conv2\n"), HasSubstr("line 2: found 'block:'"));
  EXPECT_THAT(error_of("TopLayer:\n  a: b\nconv-op1: conv-op2\n"),
              HasSubstr("line 3: found 'conv-op1: conv-op2', expected a class of modules"));
  EXPECT_THAT(error_of("conv-op1: conv-op2\nTopLayer:\n"),
              HasSubstr("line 2: found 'TopLayer:', expected `target operator: golden operator`"));
}

}  // namespace
}  // namespace sonde
