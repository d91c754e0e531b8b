// The C ABI as a host drives it: one op after another on plain memory, then the dump is read back.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "dump/journal/journal.h"
#include "record/capture/api.h"
#include "sonde/sonde.h"

// Every lock of this program is counted (CMakeLists.txt: --wrap).
namespace {
thread_local int t_locks = 0;
}
extern "C" int __real_pthread_mutex_lock(pthread_mutex_t* mutex);
extern "C" int __wrap_pthread_mutex_lock(pthread_mutex_t* mutex) {
  ++t_locks;
  return __real_pthread_mutex_lock(mutex);
}

namespace sonde {
namespace {

namespace fs = std::filesystem;

// A host with float tensors, each its own storage.
class Host : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    directory_ = fs::path(::testing::TempDir()) / ("sonde_" + std::to_string(::getpid()) + "_" + test->name());
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  void TearDown() override {
    api().stop(nullptr, 0);
    fs::remove_all(directory_);
  }

  static const struct sonde_api& api() { return *api_table(); }

  void start(const std::string& saved_data = "full", const std::string& extra = "",
             const std::string& iteration = "all", const std::string& settings = "{}") {
    const fs::path config = directory_ / "data_dump.json";
    std::ofstream(config) << R"({"common_dump_settings":{"dump_mode":0,"path":")" << dump().string()
                          << R"(","net_name":"Net","iteration":")" << iteration << R"(","saved_data":")" << saved_data
                          << R"(","input_output":0,"kernels":[],"support_device":[0])" << extra
                          << R"(},"e2e_dump_settings":{"enable":true,"trans_flag":true},"sonde_settings":)" << settings
                          << "}";
    std::array<char, 4096> message{};
    ASSERT_EQ(api().start(config.c_str(), message.data(), message.size()), 0) << message.data();
    sonde_run_info info{};
    info.size = sizeof info;
    info.host = "a test";
    info.command = "test";
    api().set_run_info(&info);
  }
  std::string stop() {
    std::array<char, 4096> summary{};
    api().stop(summary.data(), summary.size());
    return summary.data();
  }
  fs::path dump() const { return directory_ / "dump"; }
  JournalRun journal() const {
    Result<Journal> read = read_journal(dump() / "rank_0/.dump_metadata/sonde/journal");
    EXPECT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->runs.size(), 1u);
    return std::move(read->runs.at(0));
  }

  std::uint32_t site(const char* type, const char* scope, std::uint32_t line, std::uint32_t phase = SONDE_PHASE_FORWARD,
                     std::uint32_t forward = 0) {
    sonde_site s{};
    s.size = sizeof s;
    s.phase = phase;
    s.forward_site = forward;
    s.op_type = type;
    s.scope = scope;
    const sonde_source_line place{line, 0, 0, 0, "net.py", "forward"};
    s.trace = &place;
    s.trace_count = forward != 0 ? 0 : 1;
    return api().site(&s);
  }

  struct Tensor {
    std::vector<float> values;
    std::uint64_t storage;
    std::vector<std::int64_t> shape, strides;
    sonde_tensor view() const {
      sonde_tensor t{};
      t.size = sizeof t;
      t.dtype = SONDE_DTYPE_FLOAT32;
      t.data = values.data();
      t.storage_data = values.data();
      t.storage_bytes = values.size() * sizeof(float);
      t.shape = shape.data();
      t.strides = strides.data();
      t.ndim = static_cast<std::uint32_t>(shape.size());
      t.storage = storage;
      return t;
    }
  };
  Tensor tensor(std::vector<float> values) {
    const auto n = static_cast<std::int64_t>(values.size());
    return {std::move(values), next_storage_++, {n}, {1}};
  }

  // output = input * 2, as one op.
  Tensor doubled(std::uint32_t where, const Tensor& input, sonde_graph graph = SONDE_GRAPH_TRAINING) {
    sonde_op* op = nullptr;
    const unsigned wanted = api().op_begin(where, graph, 0, &op);
    Tensor output = tensor(input.values);
    for (float& value : output.values) value *= 2;
    if (wanted == 0) return output;
    const sonde_tensor in = input.view(), out = output.view();
    api().op_mutated(op, output.storage);
    api().op_input(op, 0, &in);
    api().op_output(op, 0, &out);
    api().op_end(op, 0);
    return output;
  }

  static std::vector<const JournalRecord*> ops(const JournalRun& run) {
    std::vector<const JournalRecord*> found;
    for (const auto& record : run.records) {
      if (record.kind == RecordKind::op) found.push_back(&record);
    }
    return found;
  }
  static std::string name(const JournalRun& run, std::uint32_t id) {
    for (const OpName& op : run.op_names) {
      if (op.id == id) return op.op_name;
    }
    return "?";
  }

 private:
  fs::path directory_;
  std::uint64_t next_storage_ = 1;
};

TEST_F(Host, OpsAreNumberedPerTypeAndScopeAndStartAnewEachStep) {
  start();
  const std::uint32_t a = site("mul", "network-Net/a-A", 3), b = site("mul", "network-Net/a-A", 4);
  const Tensor x = tensor({1, 2});
  for (int step = 0; step < 2; ++step) {
    api().root_forward(1, 1, 0);
    doubled(a, x);
    doubled(b, x);
  }
  stop();
  const JournalRun run = journal();
  std::vector<std::string> names;
  for (const auto* op : ops(run)) names.push_back(name(run, op->op));
  const std::string first = "Default/network-Net/a-A/mul-op0", second = "Default/network-Net/a-A/mul-op1";
  EXPECT_EQ(names, (std::vector<std::string>{first, second, first, second}));
}

TEST_F(Host, ASiteOfTheLastSessionIsNobodysForwardOp) {
  start();
  const std::uint32_t where = site("mul", "network-Net", 3, SONDE_PHASE_BACKWARD, 1000);
  api().root_forward(1, 1, 0);
  doubled(where, tensor({1, 2}));
  stop();
  const JournalRun run = journal();
  ASSERT_EQ(run.sites.size(), 1u);
  EXPECT_EQ(run.sites[0].forward_site, 0u);
}

TEST_F(Host, OpsOfVersion20HaveTheNumberOfTheirNodeInEveryStep) {
  start("full", "", "all", R"({"layout":"mindspore-2.0"})");
  const std::uint32_t a = site("mul", "network-Net/a-A", 3), b = site("mul", "network-Net/b-B", 4);
  const std::uint32_t first_only = site("add", "network-Net", 5);
  const Tensor x = tensor({1, 2});
  for (int step = 0; step < 2; ++step) {
    api().root_forward(1, 1, 0);
    if (step == 0) doubled(first_only, x);
    doubled(a, x);
    doubled(b, x);
    doubled(a, x);
  }
  stop();
  const JournalRun run = journal();
  std::vector<std::string> names;
  for (const auto* op : ops(run)) names.push_back(name(run, op->op));
  const std::string first = "Default/network-Net/a-A/mul-op1", second = "Default/network-Net/b-B/mul-op2",
                    third = "Default/network-Net/a-A/mul-op3";
  EXPECT_EQ(names,
            (std::vector<std::string>{"Default/network-Net/add-op0", first, second, third, first, second, third}));
}

TEST_F(Host, WhatNobodyWroteIsAConstantOfItsGraphBeforeVersion27) {
  start("full", "", "all", R"({"layout":"mindspore-2.5"})");
  const std::uint32_t where = site("mul", "network-Net", 3);
  const Tensor kept = tensor({1, 2});
  for (int step = 0; step < 3; ++step) {
    const Tensor batch = tensor({3, static_cast<float>(step)});
    for (const sonde_graph graph : {SONDE_GRAPH_TRAINING, SONDE_GRAPH_EVALUATION}) {
      api().root_forward(1, graph == 0, 0);
      doubled(where, batch, graph);
      doubled(where, kept, graph);
    }
  }
  stop();
  for (const char* graph : {"0", "1"}) {
    const fs::path constants = dump() / "rank_0/Net" / graph / "constants";
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(constants)) {
      const std::string name = entry.path().filename();
      if (name != "statistic.csv") files.push_back(name.substr(0, std::string("Parameter.data-0.").size()));
    }
    std::ranges::sort(files);
    EXPECT_EQ(files, (std::vector<std::string>{"Parameter.data-0.", "Parameter.data-1."})) << graph;
    std::ifstream table(constants / "statistic.csv");
    std::string header, row;
    std::size_t rows = 0;
    std::getline(table, header);
    while (std::getline(table, row)) rows += row.starts_with("Parameter,data-") ? 1U : 0U;
    EXPECT_TRUE(header.starts_with("Op Type,")) << header;
    EXPECT_EQ(rows, 2U);
  }
  const JournalRun run = journal();
  std::vector<std::string> read;  // the names under which the ops read their inputs
  for (const auto* op : ops(run)) {
    const std::uint32_t id = op->tensors.at(0).parameter;
    read.push_back(id == 0 ? "" : name(run, id));
  }
  const std::vector<std::string> later = {"", "data-1", "", "data-1"};
  std::vector<std::string> expected = {"data-0", "data-1", "data-0", "data-1"};
  for (int step = 1; step < 3; ++step) expected.insert(expected.end(), later.begin(), later.end());
  EXPECT_EQ(read, expected);
}

TEST_F(Host, AnOutputReadByTheNextOpIsOneContent) {
  start();
  api().root_forward(1, 1, 0);
  const Tensor y = doubled(site("mul", "network-Net", 1), tensor({1, 2, 3}));
  doubled(site("mul", "network-Net", 2), y);
  stop();
  const JournalRun run = journal();
  const auto found = ops(run);
  ASSERT_EQ(found.size(), 2u);
  const JournalTensor& written = found[0]->tensors.at(1);
  const JournalTensor& read = found[1]->tensors.at(0);
  EXPECT_NE(written.content, 0u);
  EXPECT_EQ(written.content, read.content);
  EXPECT_EQ(read.source, found[0]->sequence);
  EXPECT_EQ(read.statistics.sum, 12);
}

TEST_F(Host, ATensorThatIsReadTakesTheLockTwiceAndOneThatIsKnownOnce) {
  start("statistic");
  api().root_forward(1, 1, 0);
  const auto locks = [](auto call) {
    const int before = t_locks;
    call();
    return t_locks - before;
  };
  const Tensor y = doubled(site("mul", "network-Net", 1), tensor({1, 2, 3}));
  const sonde_tensor view = y.view();
  sonde_op* op = nullptr;
  ASSERT_NE(api().op_begin(site("add_", "network-Net", 2), SONDE_GRAPH_TRAINING, 0, &op), 0u);
  EXPECT_EQ(locks([&] { api().op_input_before(op, 0, &view); }), 1);
  EXPECT_EQ(locks([&] { api().op_mutated(op, y.storage); }), 1);
  EXPECT_EQ(locks([&] { api().op_output(op, 0, &view); }), 2);
  api().op_end(op, 0);
}

TEST_F(Host, BytesAndStatisticsOfARecordAreOfOneReading) {
  start();
  api().root_forward(1, 1, 0);
  Tensor x = tensor({1, 2, 3, 4});
  doubled(site("mul", "network-Net", 1), x);
  x.values = {5, 6, 7, 8};  // no host reports it
  Tensor square = x;
  square.shape = {2, 2};
  square.strides = {2, 1};
  sonde_op* op = nullptr;
  ASSERT_NE(api().op_begin(site("view", "network-Net", 2), SONDE_GRAPH_TRAINING, 0, &op), 0u);
  const sonde_tensor view = square.view();
  api().op_output(op, 0, &view);
  api().op_end(op, 0);
  stop();
  const JournalRun run = journal();
  EXPECT_EQ(ops(run).at(1)->tensors.at(0).statistics.sum, 26);
  std::size_t read = 0;
  for (const auto& entry : fs::directory_iterator(dump() / "rank_0/Net/0/0")) {
    if (!entry.path().filename().string().starts_with("view.")) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    file.seekg(-4 * static_cast<int>(sizeof(float)), std::ios::end);
    std::array<float, 4> values{};
    file.read(reinterpret_cast<char*>(values.data()), sizeof values);
    EXPECT_EQ(values, (std::array<float, 4>{5, 6, 7, 8}));
    ++read;
  }
  EXPECT_EQ(read, 1u);
}

TEST_F(Host, NamesMayBeWithoutTheClassesOfModules) {
  start("full", "", "all", R"({"class_names_in_scope":false})");
  api().root_forward(1, 1, 0);
  const std::uint32_t forward = site("conv2d", "network-Net/layers/0-Conv2d", 12);
  doubled(forward, tensor({1}));
  doubled(site("convolution_backward", "", 0, SONDE_PHASE_BACKWARD, forward), tensor({1}));
  doubled(site("add_", "optimizer-SGD", 14, SONDE_PHASE_OPTIMIZER), tensor({1}));
  stop();
  const JournalRun run = journal();
  std::vector<std::string> names;
  for (const auto* op : ops(run)) names.push_back(name(run, op->op));
  EXPECT_EQ(names, (std::vector<std::string>{"Default/network/layers/0/conv2d-op0",
                                             "Gradients/Default/network/layers/0/Grad_conv2d/convolution_backward-op0",
                                             "Default/optimizer-SGD/add_-op0"}));
}

TEST_F(Host, TheGraphAloneReadsNoTensor) {
  start("full", "", "all", R"({"saved_data":"graph"})");
  api().root_forward(1, 1, 0);
  const Tensor weight = tensor({5, 6});
  const sonde_tensor named = weight.view();
  api().name_tensor("fc.weight", &named);
  const Tensor y = doubled(site("mul", "network-Net", 1), weight);
  doubled(site("mul", "network-Net", 2), y);
  EXPECT_NE(stop().find("recorded the graph of 2 ops of 1 step"), std::string::npos);
  const JournalRun run = journal();
  for (const auto& record : run.records) {
    for (const auto& slot : record.tensors) {
      EXPECT_FALSE(slot.has_statistics);
    }
  }
  EXPECT_EQ(ops(run).at(1)->tensors.at(0).source, ops(run).at(0)->sequence);
  EXPECT_EQ(name(run, ops(run).at(0)->tensors.at(0).parameter), "fc.weight");
}

TEST_F(Host, AProgramWithoutModulesIsStepZero) {
  start();
  doubled(site("mul", "", 1), tensor({1, 2}), SONDE_GRAPH_OUTSIDE_GRAD);
  doubled(site("mul", "", 2), tensor({1, 2}), SONDE_GRAPH_OUTSIDE_NO_GRAD);
  EXPECT_FALSE(fs::exists(dump()));  // it may still be the preamble of a model
  EXPECT_NE(stop().find("recorded 2 ops and 6 tensors of 1 step"), std::string::npos);  // data-0 and data-1 with them
  EXPECT_EQ(ops(journal()).size(), 2u);
}

TEST_F(Host, OfWhatRanBeforeTheFirstModelNothingRemains) {
  start("full", "", "all", R"({"layout":"mindspore-2.0"})");  // this layout numbers nodes throughout
  const std::uint32_t outside = site("mul", "", 1);
  const Tensor x = doubled(outside, tensor({1, 2}), SONDE_GRAPH_OUTSIDE_GRAD);
  sonde_run_info info{};
  info.size = sizeof info;
  info.rank = 3;
  info.host = "a test";
  info.command = "test";
  api().set_run_info(&info);
  api().root_forward(1, 1, 0);
  doubled(outside, x);
  EXPECT_NE(stop().find("rank_3"), std::string::npos);
  EXPECT_FALSE(fs::exists(dump() / "rank_0"));
  Result<Journal> read = read_journal(dump() / "rank_3/.dump_metadata/sonde/journal");
  ASSERT_TRUE(read);
  const JournalRun& run = read->runs.at(0);
  ASSERT_EQ(ops(run).size(), 1u);
  EXPECT_EQ(name(run, ops(run)[0]->op), "Default/mul-op0");
  EXPECT_EQ(ops(run)[0]->tensors.at(0).source, kNoSequence);
  EXPECT_EQ(name(run, ops(run)[0]->tensors.at(0).parameter), "data-0");
}

TEST_F(Host, AnOpThatEndsAfterTheFirstModelWasCalledBelongsToThePreamble) {
  start();
  sonde_op* op = nullptr;
  ASSERT_NE(api().op_begin(site("mul", "", 1), SONDE_GRAPH_TRAINING, 0, &op), 0u);  // of another thread
  api().root_forward(1, 1, 0);
  const Tensor x = tensor({1, 2});
  const sonde_tensor view = x.view();
  api().op_mutated(op, x.storage);
  api().op_output(op, 0, &view);
  api().op_end(op, 0);
  doubled(site("mul", "", 2), x);
  stop();
  const JournalRun run = journal();
  ASSERT_EQ(ops(run).size(), 1u);
  EXPECT_EQ(ops(run)[0]->tensors.at(0).source, kNoSequence);
}

TEST_F(Host, AfterManyOpsItIsAskedWhetherModelsExist) {
  for (const int models : {0, 1}) {
    start("statistic");
    const std::uint32_t where = site("mul", "", 1);
    unsigned wanted = 0;
    int before = 0;
    for (; (wanted & SONDE_WANT_MODULES) == 0 && before < 5000; ++before) {
      sonde_op* op = nullptr;
      wanted = api().op_begin(where, SONDE_GRAPH_TRAINING, 0, &op);
      ASSERT_NE(wanted, 0u);
      api().op_end(op, 0);
    }
    EXPECT_LT(before, 5000);
    api().modules_exist(models);
    doubled(where, tensor({1}));
    api().root_forward(1, 1, 0);
    doubled(where, tensor({1}));
    stop();
    EXPECT_EQ(ops(journal()).size(), models == 0 ? static_cast<std::size_t>(before) + 2 : 1u);
    fs::remove_all(dump());
  }
}

TEST_F(Host, StopAfterSaysThatTheLastChosenStepIsOver) {
  start("statistic", "", "0|1", R"({"stop_after":true})");
  const std::uint32_t where = site("mul", "network-Net", 1);
  for (int step = 0; step < 2; ++step) {
    EXPECT_EQ(api().root_forward(1, 1, 0), SONDE_CAPTURE_ON);
    doubled(where, tensor({1}));
  }
  EXPECT_EQ(api().root_forward(1, 1, 0), SONDE_CAPTURE_OVER);
  EXPECT_EQ(api().capture(), SONDE_CAPTURE_OVER);
  EXPECT_NE(stop().find("of 2 steps"), std::string::npos);
}

TEST_F(Host, AnInPlaceOpShowsItsInputBeforeAndItsOutputAfter) {
  start();
  api().root_forward(1, 1, 0);
  Tensor x = tensor({1, 2});
  doubled(site("mul", "network-Net", 1), x);  // x is known from now on
  sonde_op* op = nullptr;
  ASSERT_NE(api().op_begin(site("add_", "network-Net", 2), SONDE_GRAPH_TRAINING, 0, &op), 0u);
  sonde_tensor view = x.view();
  api().op_input_before(op, 0, &view);
  x.values = {10, 20};
  api().op_mutated(op, x.storage);
  api().op_output(op, 0, &view);
  api().op_end(op, 0);
  stop();
  const JournalRun run = journal();
  const auto found = ops(run);
  EXPECT_EQ(found.at(1)->tensors.at(0).statistics.max, 2);
  EXPECT_EQ(found.at(1)->tensors.at(1).statistics.max, 20);
}

TEST_F(Host, AParameterIsRecordedOnceAStepUnderItsName) {
  start();
  const Tensor weight = tensor({5, 6});
  const std::uint32_t where = site("mul", "network-Net", 1);
  for (int step = 0; step < 2; ++step) {
    api().root_forward(1, 1, 0);
    const sonde_tensor view = weight.view();
    api().name_tensor("fc.weight", &view);
    doubled(where, weight);
    doubled(where, weight);
  }
  stop();
  const JournalRun run = journal();
  int parameters = 0;
  for (const auto& record : run.records) {
    if (record.kind != RecordKind::parameter) continue;
    EXPECT_EQ(name(run, record.op), "fc.weight");
    ++parameters;
  }
  EXPECT_EQ(parameters, 2);
  EXPECT_EQ(name(run, ops(run).at(0)->tensors.at(0).parameter), "fc.weight");
}

// As FSDP gathers its parameters: memory that grows again, views of it, a copy into them, then the layer.
TEST_F(Host, AParameterIsRecordedByTheFirstThatReadsItAfterItIsGathered) {
  start();
  api().root_forward(1, 1, 0);
  const Tensor weight = tensor({5, 6});
  sonde_tensor gathered = weight.view();
  gathered.flags = SONDE_TENSOR_FOREIGN | SONDE_TENSOR_OBSERVED;
  api().name_tensor("fc.weight", &gathered);
  api().storage_allocated(&gathered, 0);
  const auto run_op = [&](const char* type, bool writes) {
    sonde_op* op = nullptr;
    ASSERT_NE(api().op_begin(site(type, "network-Net", 1), SONDE_GRAPH_TRAINING, 0, &op), 0u);
    if (writes) {
      api().op_mutated(op, weight.storage);
    } else {
      api().op_input(op, 0, &gathered);
    }
    api().op_end(op, 0);
  };
  run_op("view", false);
  run_op("copy_", true);
  run_op("linear", false);
  stop();
  const JournalRun run = journal();
  const std::vector<const JournalRecord*> found = ops(run);
  const JournalTensor& unwritten = found.at(0)->tensors.at(0);
  EXPECT_EQ(name(run, unwritten.parameter), "fc.weight");
  EXPECT_NE(unwritten.skipped, "");
  const auto parameter = std::ranges::find(run.records, RecordKind::parameter, &JournalRecord::kind);
  ASSERT_NE(parameter, run.records.end());
  EXPECT_GT(parameter->sequence, found.at(1)->sequence);
  EXPECT_EQ(parameter->tensors.at(0).statistics.max, 6);
}

TEST_F(Host, APartOfADistributedTensorSaysWhichOneItIs) {
  start();
  api().root_forward(1, 1, 0);
  const Tensor weight = tensor({5, 6}), other = tensor({7, 8});
  sonde_tensor named = weight.view();
  named.placement = "Shard(0) of (4) on tp=2, from (2)";
  api().name_tensor("fc.weight", &named);
  sonde_tensor whole = weight.view(), half = weight.view(), said = other.view();
  const std::int64_t one[] = {1};
  half.shape = one;
  const std::string text = "Replicate of (2) on tp=2";  // another place in memory for each call
  said.placement = text.c_str();
  sonde_op* op = nullptr;
  ASSERT_NE(api().op_begin(site("mul", "network-Net", 1), SONDE_GRAPH_TRAINING, 0, &op), 0u);
  std::uint32_t slot = 0;
  for (const sonde_tensor* input : {&whole, &half, &said}) api().op_input(op, slot++, input);
  api().op_output(op, 0, &said);
  api().op_end(op, 0);
  stop();
  const JournalRun run = journal();
  const auto placement = [&](const JournalTensor& tensor) {
    return tensor.placement == 0 ? "" : name(run, tensor.placement);
  };
  const std::vector<JournalTensor>& tensors = ops(run).at(0)->tensors;
  EXPECT_EQ(placement(tensors.at(0)), named.placement);
  EXPECT_EQ(placement(tensors.at(1)), "");
  EXPECT_EQ(placement(tensors.at(2)), text);
  EXPECT_EQ(tensors.at(3).placement, tensors.at(2).placement);
  const auto parameter = std::ranges::find(run.records, RecordKind::parameter, &JournalRecord::kind);
  ASSERT_NE(parameter, run.records.end());
  EXPECT_EQ(placement(parameter->tensors.at(0)), named.placement);
}

TEST_F(Host, OfSeveralNamesInOneMemoryTheOneOfExactlyThisMemoryCounts) {
  start();
  api().root_forward(1, 1, 0);
  const Tensor flat = tensor({1, 2, 3, 4});
  const std::int64_t two[] = {2};
  sonde_tensor all = flat.view(), first = all, second = all;
  first.shape = second.shape = two;
  second.data = flat.values.data() + 2;
  api().name_tensor("flat", &all);
  api().name_tensor("first", &first);
  api().name_tensor("second", &second);
  sonde_op* op = nullptr;
  ASSERT_NE(api().op_begin(site("mul", "network-Net", 1), SONDE_GRAPH_TRAINING, 0, &op), 0u);
  std::uint32_t slot = 0;
  for (const sonde_tensor* input : {&second, &all, &first}) api().op_input(op, slot++, input);
  api().op_end(op, 0);
  stop();
  const JournalRun run = journal();
  const std::vector<JournalTensor>& tensors = ops(run).at(0)->tensors;
  EXPECT_EQ(name(run, tensors.at(0).parameter), "second");
  EXPECT_EQ(name(run, tensors.at(1).parameter), "flat");
  EXPECT_EQ(name(run, tensors.at(2).parameter), "first");
}

TEST_F(Host, AParameterIsRecordedAsItIsAlsoWhereItIsFirstReadConjugated) {
  start("tensor");
  api().root_forward(1, 1, 0);
  Tensor weight = tensor({1, 2});  // 1+2i
  weight.shape = {1};
  sonde_tensor view = weight.view();
  view.dtype = SONDE_DTYPE_COMPLEX64;
  api().name_tensor("fc.weight", &view);
  sonde_op* op = nullptr;
  ASSERT_NE(api().op_begin(site("mul", "network-Net", 1), SONDE_GRAPH_TRAINING, 0, &op), 0u);
  view.flags |= SONDE_TENSOR_CONJUGATE;
  api().op_input(op, 0, &view);
  api().op_end(op, 0);
  stop();
  const auto imaginary = [&](const std::string& beginning) {
    for (const auto& entry : fs::directory_iterator(dump() / "rank_0/Net/0/0")) {
      if (!entry.path().filename().string().starts_with(beginning)) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      file.seekg(-static_cast<int>(sizeof(float)), std::ios::end);
      float value = 0;
      file.read(reinterpret_cast<char*>(&value), sizeof value);
      return value;
    }
    return 0.0F;
  };
  EXPECT_EQ(imaginary("Parameter."), 2);
  EXPECT_EQ(imaginary("mul."), -2);
}

TEST_F(Host, WhatNobodyWroteIsDataAndNumbersOfTheUsersCodeAreNot) {
  start();
  api().root_forward(1, 1, 0);
  const Tensor batch = tensor({1}), target = tensor({2}), number = tensor({3});
  doubled(site("mul", "network-Net", 1), batch);
  doubled(site("mul", "network-Net", 1), batch);
  doubled(site("mul", "network-Net", 2), target);
  sonde_op* op = nullptr;
  api().op_begin(site("add", "network-Net", 3), SONDE_GRAPH_TRAINING, 0, &op);
  sonde_tensor view = number.view();
  view.flags |= SONDE_TENSOR_CONSTANT;
  api().op_input(op, 1, &view);
  api().op_end(op, 0);
  stop();
  const JournalRun run = journal();
  std::vector<std::string> names;
  for (const auto& record : run.records) {
    if (record.kind == RecordKind::parameter) names.push_back(name(run, record.op));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"data-0", "data-1"}));
}

TEST_F(Host, ABackwardOpCarriesTheNamesAndLineOfItsForward) {
  start();
  api().root_forward(1, 1, 0);
  const std::uint32_t forward = site("conv2d", "network-Net/conv1-Conv2d", 12);
  const std::uint32_t backward = site("convolution_backward", "", 0, SONDE_PHASE_BACKWARD, forward);
  doubled(backward, tensor({1}));
  stop();
  const JournalRun run = journal();
  EXPECT_EQ(name(run, ops(run).at(0)->op),
            "Gradients/Default/network-Net/conv1-Conv2d/Grad_conv2d/convolution_backward-op0");
  for (const Site& s : run.sites) {
    if (s.id == backward) {
      EXPECT_EQ(s.trace.at(0).line, 12u);
    }
  }
}

TEST_F(Host, NothingIsCreatedWhenNoStepMatchesAndTheLineSaysWhy) {
  start("full", "", "7");
  api().root_forward(1, 1, 0);
  doubled(site("mul", "network-Net", 1), tensor({1}));
  const std::string summary = stop();
  EXPECT_FALSE(fs::exists(dump()));
  EXPECT_NE(summary.find("no step matched iteration \"7\" (training steps 0-0 ran)"), std::string::npos) << summary;
}

TEST_F(Host, AProgramThatNeverCallsAModelGetsAHintAboutSteps) {
  start();
  EXPECT_NE(stop().find("sonde.step()"), std::string::npos);
}

TEST_F(Host, ADeviceThatIsNotListedIsLeftAloneAndReported) {
  start();
  sonde_run_info info{};
  info.size = sizeof info;
  info.device = 3;
  api().set_run_info(&info);
  EXPECT_EQ(api().root_forward(1, 1, 0), SONDE_CAPTURE_OFF);
  EXPECT_NE(stop().find("device 3 is not in support_device [0]"), std::string::npos);
}

TEST_F(Host, AForkedChildRecordsNothing) {
  start();
  api().root_forward(1, 1, 0);
  const pid_t child = ::fork();
  if (child == 0) {
    api().forked_child();
    sonde_op* op = nullptr;
    ::_exit(api().active() == 0 && api().op_begin(1, SONDE_GRAPH_TRAINING, 0, &op) == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(api().active(), 1);
}

}  // namespace
}  // namespace sonde
