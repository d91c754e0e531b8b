#include "ask/compare/name_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

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
  EXPECT_EQ(names->size(), 3U);
  EXPECT_EQ(names->at("Functional.conv2d.0.forward"), "Mint.conv2d.0.forward");
  EXPECT_EQ(names->at("Functional.conv2d.0.backward"), "Mint.conv2d.0.backward");
  EXPECT_EQ(names->at("Default/network-Net/fc-Linear/linear-op0"), "Default/network-Net/dense-Dense/MatMul-op0");
}

TEST(NameMap, OtherYamlOfMsprobeIsRefusedWithWhatIsAccepted) {
  for (const char* text : {"- ms_api: mindspore.ops.relu\n  pt_api: torch.relu\n", "TopLayer:\n  layer_1: layer_2\n"}) {
    const Result<NameMap> names = mapping(text);
    ASSERT_FALSE(names) << text;
    EXPECT_THAT(names.error().message, HasSubstr("line 1: found"));
    EXPECT_THAT(names.error().message, HasSubstr("target operator: golden operator"));
  }
}

}  // namespace
}  // namespace sonde
