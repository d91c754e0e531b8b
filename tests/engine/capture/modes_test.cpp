// The base of the modes: memory known to be finite, the switch of the step clock, memory of devices, the watcher's
// reads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dump/journal/journal.h"
#include "ground/stats/device.h"
#include "record/capture/abi.h"
#include "record/capture/content_cache.h"
#include "record/capture/modes/watcher.h"
#include "record/capture/session.h"
#include "record/capture/step_clock.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ContentCache, KnowsFiniteMemoryUntilItIsWritten) {
  ContentCache cache;
  std::array<float, 8> memory{};
  cache.set_finite(1, memory.data(), 32, cache.epoch(1));
  EXPECT_TRUE(cache.known_finite(1, memory.data(), 32));
  EXPECT_TRUE(cache.known_finite(1, memory.data() + 2, 8)) << "a view of it";
  EXPECT_FALSE(cache.known_finite(1, memory.data() + 2, 32)) << "it ends behind";
  EXPECT_FALSE(cache.known_finite(2, memory.data(), 32));
  cache.wrote(1, 5);
  EXPECT_FALSE(cache.known_finite(1, memory.data(), 32));
  const std::uint64_t before = cache.epoch(1);
  cache.wrote(1, 6);
  cache.set_finite(1, memory.data(), 32, before);
  EXPECT_FALSE(cache.known_finite(1, memory.data(), 32)) << "written while it was looked at";
  EXPECT_FALSE(cache.known_finite(0, memory.data(), 32));
}

TEST(StepClock, TheSwitchAloneDecidesOnceItWasUsed) {
  StepClock clock(StepRule::automatic, StepSet::parse("0"), 0);
  clock.root_forward(true, true, false);
  EXPECT_TRUE(clock.recording(0));
  auto changes = clock.set_recording(false);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_FALSE(changes[0].began);
  EXPECT_FALSE(clock.recording(0));
  changes = clock.set_recording(true);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_TRUE(changes[0].began && changes[0].resumed) << "within the step it goes on, and does not begin again";
  clock.root_forward(true, true, false);
  EXPECT_EQ(clock.recording(0), (StepId{0, 1})) << "iteration \"0\" does not count any more";
  clock.set_recording(false);
  clock.root_forward(true, true, false);
  EXPECT_FALSE(clock.recording(0));
}

TEST(StepClock, CountsOnFromAGivenNumber) {
  StepClock clock(StepRule::automatic, StepSet::all(), 0);
  clock.root_forward(true, true, false);
  clock.set_step(100);
  EXPECT_EQ(clock.recording(0), (StepId{0, 0})) << "the open step keeps its number";
  clock.root_forward(true, true, false);
  EXPECT_EQ(clock.recording(0), (StepId{0, 100}));
  clock.root_forward(true, true, false);
  EXPECT_EQ(clock.recording(0), (StepId{0, 101}));
}

// A session on plain memory, given its plan.
class Modes : public ::testing::Test {
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
  void TearDown() override { fs::remove_all(directory_); }

  void start() {
    session_ = std::make_unique<Session>(plan_);
    session_->set_run_info({});
    session_->root_forward(true, true, false);
  }

  void start_watching(const char* op) {
    plan_.acl.in_use = plan_.acl.anywhere = true;
    plan_.acl.scene = Scene::watcher;
    plan_.input_output = Sides::outputs;
    DumpListEntry entry;
    entry.watcher_nodes = {op};
    plan_.acl.dump_list = {entry};
    start();
  }

  struct Tensor {
    std::vector<float> values;
    std::uint64_t storage;
    std::int64_t shape, stride = 1;
    std::uint32_t device = 0;
    HostTensor view() const {
      sonde_tensor t{};
      t.dtype = SONDE_DTYPE_FLOAT32;
      t.data = t.storage_data = values.data();
      t.storage_bytes = values.size() * sizeof(float);
      t.shape = &shape;
      t.strides = &stride;
      t.ndim = 1;
      t.storage = storage;
      t.device = device;
      return tensor_of(t);
    }
  };
  Tensor tensor(std::vector<float> values) {
    const auto n = static_cast<std::int64_t>(values.size());
    return {std::move(values), next_storage_++, n};
  }

  std::uint32_t site(const char* type) {
    Site s;
    s.op_type = type;
    s.scope = "network-Net";
    return session_->site(s);
  }
  std::uint32_t begin(const char* type, Op& op, sonde_graph graph = SONDE_GRAPH_TRAINING) {
    return session_->ops().begin(op, site(type), graph, 0);
  }
  void output(Op& op, const Tensor& tensor) {
    op.recorder->tensors().wrote(tensor.storage, op.record.sequence);
    session_->ops().output(op, 0, tensor.view());
  }
  JournalRun journal() const {
    Result<Journal> read = read_journal(plan_.path / "rank_0/.dump_metadata/sonde/journal");
    EXPECT_TRUE(read) << read.error().message;
    return std::move(read->runs.at(0));
  }
  static std::string name(const JournalRun& run, std::uint32_t id) {
    for (const OpName& known : run.op_names) {
      if (known.id == id) return known.op_name;
    }
    return "?";
  }

  Plan plan_;
  std::unique_ptr<Session> session_;
  fs::path directory_;
  std::uint64_t next_storage_ = 1;
};

// "cuda" here is host memory behind a separate function table, which counts the calls.
int g_read_on_device = 0;
Statistics summarize_and_count(const TensorView& view, std::byte* out) {
  ++g_read_on_device;
  return host_access().summarize_and_copy(view, out);
}

TEST_F(Modes, MemoryOfADeviceIsReadByWhatIsRegisteredForIt) {
  static const DeviceAccess device = [] {
    DeviceAccess access = host_access();
    access.name = "a test's";
    access.summarize_and_copy = summarize_and_count;
    return access;
  }();
  register_device(DeviceType::cuda, device);
  start();
  Op op;
  begin("mul", op);
  Tensor there = tensor({1, 2, 3}), nowhere = tensor({1});
  there.device = static_cast<std::uint32_t>(DeviceType::cuda);
  nowhere.device = static_cast<std::uint32_t>(DeviceType::other);
  op.recorder->input(op, 0, nowhere.view());
  output(op, there);
  op.recorder->end(op, false);
  session_->stop();
  EXPECT_EQ(g_read_on_device, 1);
  const JournalRun run = journal();
  for (const auto& record : run.records) {
    if (record.kind != RecordKind::op) continue;
    EXPECT_EQ(record.tensors.at(0).skipped, "on a device that this build cannot read");
    EXPECT_EQ(record.tensors.at(1).statistics.sum, 6);
  }
}

TEST_F(Modes, AWatchedOutputIsReadAgainAfterEveryOpAndItsChangerIsNamed) {
  start_watching("Default/network-Net/mul-op0");
  Op watched;
  EXPECT_TRUE((begin("mul", watched) & SONDE_WANT_WEAK_REF) != 0);
  Tensor kept = tensor({1, 2, 3});
  output(watched, kept);
  const std::uint32_t id = watched.record.op->id;
  watched.recorder->end(watched, false);
  for (const char* type : {"add", "sub", "div"}) {
    Op reader;
    EXPECT_TRUE((begin(type, reader) & SONDE_WANT_WATCHED) != 0);
    if (std::string(type) == "sub") kept.values[1] = 20;  // no host reports it
    EXPECT_TRUE(reader.recorder->watched(reader, id, 0, kept.view()));
    reader.recorder->end(reader, false);
  }
  session_->root_forward(true, true, false);  // the next step
  Op later;
  begin("add", later);
  EXPECT_FALSE(later.recorder->watched(later, id, 0, kept.view()));
  later.recorder->end(later, false);
  const std::string summary = session_->stop();
  EXPECT_THAT(summary, HasSubstr("output 0 of Default/network-Net/mul-op0 changed in step 0"));
  EXPECT_THAT(summary, HasSubstr("found after Default/network-Net/sub-op0"));
  const JournalRun run = journal();
  std::vector<std::pair<std::string, double>> found;
  for (const auto& record : run.records) {
    if (record.kind != RecordKind::parameter) continue;
    found.emplace_back(name(run, record.op), record.tensors.at(0).statistics.max);
  }
  const std::string to = "-op0_To_Default_network-Net_mul-op0", from = "Default_network-Net_";
  EXPECT_EQ(found, (std::vector<std::pair<std::string, double>>{
                       {from + "add" + to, 3}, {from + "sub" + to, 20}, {from + "div" + to, 20}}));
}

TEST_F(Modes, OfStepsInWhichNothingOverflowsOnlyTheFirstIsKept) {
  plan_.op_debug_mode = 3;
  start();
  for (int step = 0; step < 4; ++step) {
    if (step > 0) session_->root_forward(true, true, false);
    Op op;
    EXPECT_TRUE((begin("mul", op) & SONDE_WANT_CHECK) != 0);
    const Tensor out = tensor({1, step == 2 ? std::numeric_limits<float>::infinity() : 2});
    op.recorder->tensors().wrote(out.storage, op.record.sequence);
    session_->ops().check_output(op, out.view());
    session_->ops().output(op, 0, out.view());
    op.recorder->end(op, false);
  }
  EXPECT_THAT(session_->stop(), HasSubstr("1 op overflowed"));
  const JournalRun run = journal();
  std::vector<std::pair<std::uint64_t, bool>> ops;
  for (const auto& record : run.records) {
    if (record.kind == RecordKind::op) ops.emplace_back(record.step.number, record.tensors.at(0).wanted);
  }
  EXPECT_EQ(ops, (std::vector<std::pair<std::uint64_t, bool>>{{0, false}, {2, true}}));
}

TEST_F(Modes, AnOpOfAnotherStepThatRunsMeanwhileFindsNothingAndTheWatchGoesOn) {
  start_watching("Default/network-Net/mul-op0");
  Op watched;
  begin("mul", watched);
  Tensor kept = tensor({1, 2, 3});
  output(watched, kept);
  const std::uint32_t id = watched.record.op->id;
  watched.recorder->end(watched, false);

  session_->root_forward(true, false, false);  // an evaluation, while the training step is open
  Op evaluation;
  begin("add", evaluation, SONDE_GRAPH_EVALUATION);
  ASSERT_EQ(evaluation.record.step.graph, 1U);
  kept.values[0] = 10;
  EXPECT_TRUE(evaluation.recorder->watched(evaluation, id, 0, kept.view())) << "it is still to be asked about";
  evaluation.recorder->end(evaluation, false);
  EXPECT_THAT(session_->stop(), Not(HasSubstr("changed in step")));
  for (const auto& record : journal().records) EXPECT_NE(record.kind, RecordKind::parameter);
}

TEST_F(Modes, WhatLiesBetweenTheElementsOfAStridedViewIsLookedAtToo) {
  plan_.op_debug_mode = 3;
  start();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor whole = tensor({1, nan, 2, nan, 3, nan, 4});  // ends where the view of it ends
  Tensor every_second = whole;
  every_second.shape = 4;
  every_second.stride = 2;
  const auto look = [&](const char* type, const HostTensor& view) {
    Op op;
    begin(type, op);
    session_->ops().check_output(op, view);
    session_->ops().output(op, 0, view);
    op.recorder->end(op, false);
  };
  HostTensor spread = every_second.view();
  spread.view.data = spread.storage_data = whole.view().view.data;
  look("slice", spread);
  look("view", whole.view());
  EXPECT_THAT(session_->stop(), HasSubstr("1 op overflowed, the first was Default/network-Net/view-op0"));
}

// Two inputs of one op and a budget for one: the first is still in flight when the second is read.
TEST_F(Modes, AFullBudgetDropsATensorOrKeepsItsStatisticsAsThePlanSays) {
  for (const WhenFull when_full : {WhenFull::drop, WhenFull::statistics}) {
    plan_.path = directory_ / (when_full == WhenFull::drop ? "drop" : "statistics");
    plan_.sonde.budget_bytes = 256;
    plan_.sonde.when_full = when_full;
    start();
    const Tensor first = tensor(std::vector<float>(64, 1)), second = tensor(std::vector<float>(64, 2));
    Op op;
    begin("add", op);
    op.recorder->input(op, 0, first.view());
    op.recorder->input(op, 1, second.view());
    op.recorder->end(op, false);
    session_->stop();
    for (const auto& record : journal().records) {
      if (record.kind != RecordKind::op) continue;
      const JournalTensor& kept = record.tensors.at(0);
      const JournalTensor& refused = record.tensors.at(1);
      EXPECT_EQ(kept.skipped, "");
      EXPECT_FALSE(kept.file.empty());
      EXPECT_TRUE(refused.file.empty());
      EXPECT_THAT(refused.skipped, HasSubstr("the budget was full"));
      EXPECT_EQ(refused.has_statistics, when_full == WhenFull::statistics);
    }
  }
}

TEST(DumpLife, WantsItsCallsInOrder) {
  EXPECT_EQ(sonde_set_dump("acl.json"), SONDE_ERROR_DUMP_NOT_RUN);
  EXPECT_THAT(sonde_dump_message(), HasSubstr("EP0008: aclmdlInitDump must be executed before aclmdlSetDump"));
  EXPECT_EQ(sonde_finalize_dump(), SONDE_ERROR_DUMP_NOT_RUN);
  EXPECT_EQ(sonde_init_dump(), SONDE_SUCCESS);
  EXPECT_EQ(sonde_init_dump(), SONDE_ERROR_DUMP_ALREADY_RUN);
  EXPECT_THAT(sonde_dump_message(), HasSubstr("EP0008: This API cannot be called repeatedly"));
  EXPECT_EQ(sonde_set_dump(nullptr), SONDE_ERROR_INVALID_PARAM);
  EXPECT_EQ(sonde_set_dump("/nowhere/acl.json"), SONDE_ERROR_INVALID_DUMP_CONFIG);
  EXPECT_THAT(sonde_dump_message(), HasSubstr("/nowhere/acl.json"));
  EXPECT_EQ(sonde_finalize_dump(), SONDE_SUCCESS);
  EXPECT_EQ(sonde_init_dump(), SONDE_SUCCESS);
  EXPECT_EQ(sonde_finalize_dump(), SONDE_SUCCESS);
}

}  // namespace
}  // namespace sonde
