// Hosts that name their operators and count the steps of their graphs themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dump/journal/journal.h"
#include "record/capture/abi.h"
#include "record/capture/host_steps.h"
#include "record/capture/session.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST(HostSteps, EndWithALaterOneOfTheirGraphOrAllAtOnce) {
  HostSteps steps(StepSet::parse("1|3"));
  EXPECT_FALSE(steps.wants(0));
  EXPECT_TRUE(steps.wants(1));
  EXPECT_EQ(steps.at({0, 1}).size(), 1u);
  EXPECT_THAT(steps.at({0, 1}), IsEmpty());
  EXPECT_EQ(steps.at({4, 1}).size(), 1u) << "another graph's step";
  const auto next = steps.at({0, 3});
  ASSERT_EQ(next.size(), 2u);
  EXPECT_FALSE(next[0].began);
  EXPECT_EQ(next[0].step, (StepId{0, 1}));
  EXPECT_EQ(steps.end().size(), 2u);
  EXPECT_THAT(steps.end(), IsEmpty());
  steps.set_recording(true);
  EXPECT_TRUE(steps.wants(0)) << "from now on the switch decides";
  EXPECT_EQ(steps.first_seen(), 0u);
  EXPECT_EQ(steps.last_seen(), 1u);
}

constexpr const char* kConv = "Default/network-Net/conv-Conv2d/Conv2D-op0";
constexpr const char* kConvGrad = "Gradients/Default/network-Net/conv-Conv2d/Grad_Conv2D/Conv2DBackpropInput-op0";
constexpr const char* kRelu = "Default/network-Net/ReLU-op0";

class Named : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    directory_ = fs::path(::testing::TempDir()) / ("sonde_" + std::to_string(::getpid()) + "_" + test->name());
    fs::remove_all(directory_);
    plan_.path = directory_ / "dump";
    plan_.net_name = "Net";
    plan_.saved_data = SavedData::full;
    plan_.support_device = {0};
  }
  void TearDown() override {
    session_.reset();
    fs::remove_all(directory_);
  }

  void start() {
    session_ = std::make_unique<Session>(plan_);
    const Result<NamedHostSettings> settings = session_->named().settings();
    ASSERT_TRUE(settings);
    EXPECT_EQ(settings->path, plan_.path);
    session_->set_run_info({});
  }

  static NamedOp named(const char* name, const char* type, std::uint64_t iteration, std::uint32_t graph = 0) {
    return {{graph, iteration}, name, type};
  }
  HostTensor view(const std::vector<float>& values) {
    size_ = static_cast<std::int64_t>(values.size());
    sonde_tensor t{};
    t.dtype = SONDE_DTYPE_FLOAT32;
    t.data = values.data();
    t.shape = &size_;
    t.strides = &stride_;
    t.ndim = 1;
    return tensor_of(t);
  }
  // Calls the engine as the adapter does: first the question, then all tensors. Returns the engine's SONDE_WANT flags.
  std::uint32_t run(const NamedOp& op, const std::vector<float>& output) {
    if (!session_->named().wants(op)) return 0;
    Op handle;
    const std::uint32_t wanted = session_->named().begin(op, handle);
    const HostTensor tensor = view(output);
    if ((wanted & SONDE_WANT_CHECK) != 0) session_->ops().check_output(handle, tensor);
    session_->ops().output(handle, 0, tensor);
    handle.recorder->end(handle, false);
    return wanted;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    const fs::path net = plan_.path / "rank_0/Net";
    if (!fs::exists(net)) return names;
    for (const auto& entry : fs::recursive_directory_iterator(net)) {
      if (entry.is_directory()) continue;
      const std::string name = entry.path().filename().string();
      const std::string where = entry.path().parent_path().lexically_relative(net).string();
      names.push_back(where + "/" + name.substr(0, name.find(".0.0.")));
    }
    std::ranges::sort(names);
    return names;
  }

  Plan plan_;
  std::unique_ptr<Session> session_;
  fs::path directory_;
  std::int64_t size_ = 0, stride_ = 1;
};

TEST_F(Named, OpsAreRecordedUnderTheHostsNamesAndSteps) {
  start();
  EXPECT_TRUE(session_->named().wants_step(7));
  run(named(kConv, "Conv2D", 7), {1, 2});
  run(named(kConvGrad, "Conv2DBackpropInput", 7), {3});
  run(named(kRelu, "ReLU", 2, 5), {4});
  const std::vector<float> values = {5, 6};
  const HostTensor weight = view(values);
  session_->named().parameter(named("conv.weight", "Parameter", 7), weight);
  session_->named().end_step();
  EXPECT_THAT(session_->stop(), HasSubstr("recorded 3 ops and 4 tensors of 2 steps"));
  EXPECT_THAT(files(), ElementsAre("0/7/Conv2D.Default_network-Net_conv-Conv2d_Conv2D-op0",
                                   "0/7/Conv2DBackpropInput.Gradients_Default_network-Net_conv-Conv2d_Grad_Conv2D_"
                                   "Conv2DBackpropInput-op0",
                                   "0/7/Parameter.conv_weight", "0/7/statistic.csv",
                                   "5/2/ReLU.Default_network-Net_ReLU-op0", "5/2/statistic.csv"));
  EXPECT_FALSE(fs::exists(plan_.path / "rank_0/graphs")) << "graphs and histories are the host's to write";
  EXPECT_FALSE(fs::exists(plan_.path / "rank_0/execution_order"));

  const Result<Journal> journal = read_journal(plan_.path / "rank_0/.dump_metadata/sonde/journal");
  ASSERT_TRUE(journal);
  std::vector<std::string> sites;
  for (const Site& site : journal->runs.at(0).sites) sites.push_back(site.scope + "|" + site.forward_op_type);
  EXPECT_THAT(sites,
              UnorderedElementsAre("network-Net/conv-Conv2d|", "network-Net/conv-Conv2d|Conv2D", "network-Net|"));
}

TEST_F(Named, WhatIsNotSelectedIsNotAskedFor) {
  plan_.dump_mode = DumpMode::kernels;
  plan_.kernels = {kRelu};
  start();
  EXPECT_EQ(run(named(kConv, "Conv2D", 0), {1}), 0u);
  EXPECT_NE(run(named(kRelu, "ReLU", 0), {2}), 0u);
  session_->named().end_step();
  EXPECT_THAT(session_->stop(), HasSubstr("recorded 1 ops"));
}

TEST_F(Named, KernelsMatchTheNameOfTheExecutionOrder) {
  fs::create_directories(plan_.path / "rank_0/execution_order");
  std::ofstream(plan_.path / "rank_0/execution_order/ms_execution_order_graph_0.csv")
      << "Execution Order\nGradients/Default/network-Net/conv-Conv2d/Grad_Conv2D/Conv2DBackpropInput-op1\n";
  plan_.dump_mode = DumpMode::kernels;
  plan_.kernels = {"Gradients/Default/network-Net/conv-Conv2d/Grad_Conv2D/Conv2DBackpropInput-op1"};
  start();
  EXPECT_NE(run(named(kConvGrad, "Conv2DBackpropInput", 0), {1}), 0u);
  EXPECT_THAT(session_->stop(), ::testing::Not(HasSubstr("matched nothing")));
}

// From the second step on operators run in any order.
TEST_F(Named, KernelsMatchAnyOfSeveralMadeAnewWithoutTheFirstStep) {
  const std::string type = "Gradients/Default/network-Net/conv-Conv2d/Grad_Conv2D/Conv2DBackpropInput";
  fs::create_directories(plan_.path / "rank_0/execution_order");
  std::ofstream(plan_.path / "rank_0/execution_order/ms_execution_order_graph_0.csv") << "Execution Order\n"
                                                                                      << type << "-op2\n"
                                                                                      << type << "-op3\n";
  plan_.dump_mode = DumpMode::kernels;
  plan_.kernels = {type + "-op3"};
  for (const unsigned iteration : {0u, 1u}) {
    start();
    const bool first = run(named((type + "-op1").c_str(), "Conv2DBackpropInput", iteration), {1}) != 0;
    const bool second = run(named((type + "-op0").c_str(), "Conv2DBackpropInput", iteration), {1}) != 0;
    EXPECT_EQ(first, iteration == 1);
    EXPECT_TRUE(second);
    session_->stop();
  }
}

TEST_F(Named, LayoutsWithoutScopesNumberOperatorsThroughout) {
  plan_.sonde.layout = LayoutKind::mindspore_2_0;
  plan_.sonde.version = Release::v2_0;
  plan_.saved_data = SavedData::tensor;
  plan_.dump_mode = DumpMode::kernels;
  plan_.kernels = {kConv, "Default/network-Net/second-Conv2d/Conv2D-op0"};
  plan_.e2e = plan_.enable = true;
  start();
  EXPECT_NE(run(named(kConv, "Conv2D", 0), {1}), 0u) << "selected by the host's name";
  EXPECT_NE(run(named("Default/network-Net/second-Conv2d/Conv2D-op0", "Conv2D", 0), {2}), 0u);
  session_->named().end_step();
  session_->stop();
  EXPECT_THAT(files(), ElementsAre("0/0/Conv2D.Conv2D-op0", "0/0/Conv2D.Conv2D-op1"));
}

TEST_F(Named, SetDumpCountsByTheInnermostScope) {
  plan_.dump_mode = DumpMode::flagged;
  start();
  session_->flag_scope("Default/network-Net", "", true);
  session_->flag_scope("Default/network-Net/conv-Conv2d", "", false);
  EXPECT_NE(run(named(kRelu, "ReLU", 0), {1}), 0u);
  EXPECT_EQ(run(named(kConv, "Conv2D", 0), {1}), 0u);
  EXPECT_EQ(run(named(kConvGrad, "Conv2DBackpropInput", 0), {1}), 0u);
  session_->flag_scope("Default/network-Net/conv-Conv2d", "Conv2D", true);
  EXPECT_NE(run(named(kConv, "Conv2D", 0), {1}), 0u) << "an operator of its own in it";
  EXPECT_NE(run(named(kConvGrad, "Conv2DBackpropInput", 0), {1}), 0u) << "and its backward";
}

TEST_F(Named, OnlyWhatOverflowsIsKept) {
  plan_.op_debug_mode = 3;
  plan_.overflow_number = 1;
  start();
  run(named(kConv, "Conv2D", 0), {1, 2});
  run(named(kRelu, "ReLU", 0), {std::numeric_limits<float>::infinity()});
  EXPECT_FALSE(session_->named().wants_step(1)) << "overflow_number is reached";
  session_->named().end_step();
  EXPECT_THAT(session_->stop(), HasSubstr("1 op overflowed, the first was Default/network-Net/ReLU-op0"));
  EXPECT_THAT(files(), ElementsAre("0/0/ReLU.Default_network-Net_ReLU-op0", "0/0/statistic.csv"));
}

TEST_F(Named, ItIsSaidWhyNothingWasRecorded) {
  plan_.iteration = StepSet::parse("9");
  start();
  EXPECT_FALSE(session_->named().wants_step(3));
  EXPECT_FALSE(session_->named().wants_step(4));
  EXPECT_THAT(session_->stop(), HasSubstr("no step matched iteration \"9\" (steps 3-4 ran)"));
  EXPECT_FALSE(fs::exists(plan_.path));
}

TEST_F(Named, OfTwoHostsTheFirstOwnsTheDump) {
  start();
  run(named(kRelu, "ReLU", 0), {1});
  EXPECT_EQ(session_->root_forward(true, true, false), SONDE_CAPTURE_OFF);
  session_->named().end_step();
  EXPECT_THAT(session_->stop(), HasSubstr("two frameworks ran in this process"));
}

TEST_F(Named, InputsAreReadAfterOnlyWhereThePlanSaysSoAndNothingThrows) {
  const auto after = [&] {
    Session session(plan_);
    const Result<NamedHostSettings> settings = session.named().settings();
    EXPECT_TRUE(settings);
    return settings->inputs_after;
  };
  EXPECT_FALSE(after());
  plan_.sonde.inputs_after = true;
  EXPECT_TRUE(after());
  plan_.op_debug_mode = 4;
  EXPECT_FALSE(after());
}

TEST_F(Named, AWatcherIsRefused) {
  plan_.acl.scene = Scene::watcher;
  Session session(plan_);
  const Result<NamedHostSettings> settings = session.named().settings();
  ASSERT_FALSE(settings);
  EXPECT_THAT(settings.error().message, HasSubstr("watcher"));
}

}  // namespace
}  // namespace sonde
