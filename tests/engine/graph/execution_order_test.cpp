#include "dump/graph/execution_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace sonde {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// Real files of MindSpore: tests/engine/graph/mindspore/README.md.
ExecutionOrderNames order_of(const std::string& version, const std::string& net) {
  const std::filesystem::path files = SONDE_MINDSPORE_FILES;
  Result<ExecutionOrderNames> order = ExecutionOrderNames::read(files / version / net / "execution_order.csv");
  EXPECT_TRUE(order) << order.error().message;
  return std::move(*order);
}

TEST(ExecutionOrder, HasTheNamesInOrder) {
  const ExecutionOrderNames order = order_of("2.10", "lenet");
  EXPECT_THAT(order.names(), SizeIs(45));
  EXPECT_EQ(order.names().front(), "Default/network-WithLossCell/_backbone-LeNet5/conv1-Conv2d/Conv2D-op0");
  EXPECT_EQ(order.names().back(), "Default/optimizer-Momentum/ApplyMomentum-op7");
}

TEST(ExecutionOrder, KeepsTheNamesThatItHas) {
  ExecutionOrderNames order = order_of("2.7", "lenet");
  for (const std::string& name : order.names()) EXPECT_EQ(order.name_of(name), name);
}

TEST(ExecutionOrder, FindsOperatorsThatWereMadeAnew) {
  const std::string scope = "Gradients/Default/network-WithLossCell/_backbone-LeNet5/conv2-Conv2d/Grad_Conv2D/";
  for (const char* version : {"2.7", "2.10"}) {
    ExecutionOrderNames order = order_of(version, "lenet");
    EXPECT_EQ(order.name_of(scope + "Conv2DBackpropInput-op0"), scope + "Conv2DBackpropInput-op1");
    EXPECT_EQ(order.name_of(scope + "Conv2DBackpropFilter-op0"), scope + "Conv2DBackpropFilter-op1");
    EXPECT_EQ(order.name_of(scope + "Conv2DBackpropInput-op0"), scope + "Conv2DBackpropInput-op1") << "asked again";
  }
}

// Four convolutions with one gradient's scope. The names in the files as they ran; the releases renumber in different
// directions.
TEST(ExecutionOrder, GivesNamesInTheOrderOfTheRun) {
  const std::string scope = "Gradients/Default/network-WithLossCell/_backbone-Net/first-Conv2d/Grad_Conv2D/";
  const auto numbers = [&](const char* version, const std::string& type, const std::vector<int>& files) {
    ExecutionOrderNames order = order_of(version, "shared");
    std::vector<std::string> found;
    for (const int number : files) {
      const std::string name = scope + type + "-op" + std::to_string(number);
      found.emplace_back(order.name_of(name).substr(scope.size() + type.size()));
    }
    return found;
  };
  EXPECT_THAT(numbers("2.10", "Conv2DBackpropFilter", {3, 2, 1, 0}), ElementsAre("-op4", "-op5", "-op6", "-op7"));
  EXPECT_THAT(numbers("2.7", "Conv2DBackpropFilter", {3, 2, 1, 0}), ElementsAre("-op7", "-op6", "-op5", "-op4"));
  EXPECT_THAT(numbers("2.10", "Conv2DBackpropInput", {0, 1, 2}), ElementsAre("-op3", "-op4", "-op5"));
}

TEST(ExecutionOrder, HasAllNamesThatAnOperatorMayHaveForWhoDidNotSeeTheFirstRun) {
  const std::string type = "Gradients/Default/network-Net/conv-Conv2d/Grad_Conv2D/Conv2DBackpropFilter";
  ExecutionOrderNames order = order_of("2.10", "small");
  EXPECT_THAT(order.names_of(type + "-op0"), ElementsAre(type + "-op2", type + "-op3"));
  EXPECT_EQ(order.name_of(type + "-op1"), type + "-op2");
  EXPECT_THAT(order.names_of(type + "-op1"), ElementsAre(type + "-op2")) << "it was seen";
  EXPECT_THAT(order.names_of("Default/network-Net/ReLU-op0"), ElementsAre("Default/network-Net/ReLU-op0"));
  EXPECT_THAT(order.names_of("Default/Unknown-op0"), IsEmpty());
  EXPECT_THAT(ExecutionOrderNames("head\nDefault/A-op0\nDefault/A-op3\n").names_of("Default/A-op1"),
              ElementsAre("Default/A-op3"));
}

TEST(ExecutionOrder, NumbersThatOnlyOldOperatorsHaveAreGivenLast) {
  ExecutionOrderNames order("head\nDefault/A-op1\nDefault/A-op2\n");
  EXPECT_EQ(order.name_of("Default/A-op0"), "Default/A-op2") << "-op1 is its own";
  EXPECT_EQ(order.name_of("Default/A-op1"), "Default/A-op1");
  EXPECT_EQ(order.name_of("Default/A-op7"), "Default/A-op1");
  EXPECT_EQ(order.name_of("Default/A-op8"), "Default/A-op8") << "nothing is left";
}

TEST(ExecutionOrder, LeavesNamesItKnowsNothingOf) {
  ExecutionOrderNames order("head\r\nDefault/A-op0\r\n\r\nDefault/A-op\nnot a name");
  EXPECT_THAT(order.names(), ElementsAre("Default/A-op0", "Default/A-op", "not a name"));
  for (const char* name : {"Default/B-op0", "Other/A-op1", "Default/A-op", "A", "", "-op99999999999999999999"}) {
    EXPECT_EQ(order.name_of(name), name);
  }
}

TEST(ExecutionOrder, OfNoFileOrAnEmptyOneHasNoNames) {
  EXPECT_THAT(ExecutionOrderNames("").names(), IsEmpty());
  EXPECT_THAT(ExecutionOrderNames("head").names(), IsEmpty());
  const Result<ExecutionOrderNames> missing = ExecutionOrderNames::read("/nowhere/order.csv");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  EXPECT_EQ(missing.error().message, "cannot read '/nowhere/order.csv': No such file or directory");
}

}  // namespace
}  // namespace sonde
