// Tensors of a device, which a host brings later: the order of records, what a mode decides by late values, refusals.
#include "record/capture/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dump/journal/journal.h"
#include "record/capture/abi.h"
#include "record/capture/session.h"
#include "writer/dump_fixture.h"

namespace sonde {
namespace {

using ::testing::ElementsAre;

// A host whose device is slow: it has begun these reads, and a test says when they end.
struct Begun {
  std::uint64_t ticket;
  std::uint32_t wants;
  std::vector<float> values;
  void* bytes;
};
std::mutex g_mutex;  // guards g_begun
std::vector<Begun> g_begun;
const char* g_refusal = nullptr;
std::atomic<int> g_taken{0}, g_most_taken{0};  // the writer gives back
std::function<void()> g_wait;                  // of drain()

std::uint32_t read(sonde_device_read* request) {
  request->why = g_refusal;
  if (g_refusal != nullptr) return 0;
  const auto* values = static_cast<const std::vector<float>*>(request->tensor->handle);
  const std::lock_guard lock(g_mutex);
  g_begun.push_back({request->ticket, request->wants, *values, request->bytes});
  return request->wants;
}
std::optional<Begun> first_begun() {
  const std::lock_guard lock(g_mutex);
  if (g_begun.empty()) return std::nullopt;
  Begun first = std::move(g_begun.front());
  g_begun.erase(g_begun.begin());
  return first;
}
void* take(std::uint64_t bytes, void** owner, const char**) {
  g_most_taken = std::max<int>(g_most_taken, ++g_taken);
  return *owner = new char[bytes];
}
void release(void* owner) {
  --g_taken;
  delete[] static_cast<char*>(owner);
}
void drain() {
  if (g_wait) g_wait();
}

class Devices : public ::testing::Test {
 protected:
  void SetUp() override {
    plan_.path = directory_.path() / "dump";
    plan_.net_name = "Net";
    plan_.saved_data = SavedData::full;
    plan_.support_device = {0};
    g_begun.clear();
    g_refusal = nullptr;
    g_wait = nullptr;
    g_most_taken = 0;
    set_devices({sizeof(sonde_devices), 0, read, take, release, drain});
  }
  void TearDown() override {
    set_devices({});
    session_.reset();
    EXPECT_EQ(g_taken, 0) << "all host memory was given back";
  }

  void start() {
    session_ = std::make_unique<Session>(plan_);
    session_->set_run_info({});
    session_->root_forward(true, true, false);
  }

  struct Tensor {
    std::vector<float> values;
    std::uint64_t storage;
    std::int64_t shape, stride = 1;
    bool on_device = true;
    HostTensor view() const {
      sonde_tensor t{};
      t.dtype = SONDE_DTYPE_FLOAT32;
      t.data = t.storage_data = on_device ? reinterpret_cast<const void*>(storage << 32) : values.data();
      t.storage_bytes = values.size() * sizeof(float);
      t.shape = &shape;
      t.strides = &stride;
      t.ndim = 1;
      t.storage = storage;
      t.device = on_device ? SONDE_DEVICE_OTHER : SONDE_DEVICE_CPU;
      t.handle = on_device ? &values : nullptr;
      return tensor_of(t);
    }
  };
  Tensor tensor(std::vector<float> values, bool on_device = true) {
    const auto n = static_cast<std::int64_t>(values.size());
    return {std::move(values), next_storage_++, n, 1, on_device};
  }

  void run(const char* type, const std::vector<Tensor*>& inputs, const Tensor& result) {
    Op op;
    session_->ops().begin(op, site(type), SONDE_GRAPH_TRAINING, 0);
    op.recorder->tensors().wrote(result.storage, op.record.sequence);
    if (plan_.overflow_only()) session_->ops().check_output(op, result.view());
    for (std::uint32_t i = 0; i < inputs.size(); ++i) op.recorder->input(op, i, inputs[i]->view());
    session_->ops().output(op, 0, result.view());
    op.recorder->end(op, false);
  }

  // An operator without results, which writes its argument.
  void write_in_place(const char* type, const Tensor& tensor) {
    Op op;
    session_->ops().begin(op, site(type), SONDE_GRAPH_TRAINING, 0);
    op.recorder->input_before(op, 0, tensor.view());
    op.recorder->tensors().wrote(tensor.storage, op.record.sequence);
    op.recorder->end(op, false);
  }

  void fail(const char* type, const Tensor& input) {
    Op op;
    session_->ops().begin(op, site(type), SONDE_GRAPH_TRAINING, 0);
    session_->ops().failed(op);
    op.recorder->input(op, 0, input.view());
    op.recorder->end(op, true);
  }

  std::uint32_t site(const char* type) {
    Site made;
    made.op_type = type;
    made.scope = "network-Net";
    return session_->site(made);
  }

  // The reads from the first on end now.
  void arrive(std::size_t count = ~std::size_t{0}) {
    for (; count > 0; --count) {
      const std::optional<Begun> begun = first_begun();
      if (!begun) return;
      const Begun& read = *begun;
      sonde_device_result result{};
      result.has = read.wants;
      if (read.bytes != nullptr) std::memcpy(read.bytes, read.values.data(), read.values.size() * sizeof(float));
      for (const float value : read.values) result.positive_inf_count += std::isinf(value) ? 1 : 0;
      const std::shared_ptr<LateReading> late = take_expected(read.ticket);
      deliver(*late, result);
      session_->ops().device_read_done();
    }
  }

  Journal journal() const {
    Result<Journal> read = read_journal(plan_.path / "rank_0/.dump_metadata/sonde/journal");
    EXPECT_TRUE(read) << read.error().message;
    return std::move(*read);
  }

  // The steps that have operators.
  std::set<std::uint64_t> steps() const {
    std::set<std::uint64_t> numbers;
    const Journal read = journal();
    for (const auto& record : read.runs.at(0).records) {
      if (record.kind == RecordKind::op) numbers.insert(record.step.number);
    }
    return numbers;
  }

  // Waits for the writer.
  std::vector<std::string> written() const {
    std::vector<std::string> lines;
    const Journal read = journal();
    for (const auto& record : read.runs.at(0).records) {
      if (record.kind != RecordKind::op) continue;
      for (const TensorEntry& tensor : record.tensors) {
        std::string line = tensor.is_input ? "in " : "out ";
        line += tensor.has_statistics ? std::to_string(static_cast<int>(tensor.statistics.sum)) : "-";
        lines.push_back(line);
      }
    }
    return lines;
  }
  std::size_t files() const { return test::npy_files(plan_.path).size(); }

  test::TemporaryDirectory directory_;  // before session_: removed after it
  Plan plan_;
  std::unique_ptr<Session> session_;
  std::uint64_t next_storage_ = 1;
};

TEST_F(Devices, RecordsWaitInTheOrderOfTheRunUntilTheirTensorsArrive) {
  start();
  Tensor there = tensor({1, 2, 3}), here = tensor({4, 5}, false);
  run("mul", {}, there);
  run("add", {&there}, here);
  EXPECT_EQ(g_begun.size(), 1u) << "the input is the output of the first, and read once";
  arrive();
  session_->stop();
  EXPECT_THAT(written(), ElementsAre("out 6", "in 6", "out 9"));
  EXPECT_EQ(files(), 3u);
}

TEST_F(Devices, DataFromOutsideWaitsToo) {
  start();
  Tensor outside = tensor({1, 2}), here = tensor({4}, false);
  run("mul", {&outside}, here);
  session_->stop();
  EXPECT_EQ(files(), 1u) << "the output: data-0 and the input never arrived";
}

// Modules that appear later forget everything before them.
TEST_F(Devices, AnOverflowThatArrivesBelongsToTheDumpWhateverTheProgramIs) {
  plan_.op_debug_mode = 3;
  session_ = std::make_unique<Session>(plan_);
  session_->set_run_info({});
  Tensor a = tensor({INFINITY});
  run("exp", {}, a);
  arrive();
  session_->root_forward(true, true, false);
  EXPECT_THAT(session_->stop(), ::testing::HasSubstr("exp-op0"));
  EXPECT_EQ(files(), 1u);
}

TEST_F(Devices, AnOverflowIsFoundWhenItsValuesArrive) {
  plan_.op_debug_mode = 3;
  start();
  Tensor a = tensor({1, 2}), b = tensor({3, 4}), c = tensor({1, INFINITY});
  run("mul", {&a}, b);
  run("exp", {&b}, c);
  EXPECT_EQ(session_->plan().overflow_only(), true);
  arrive();
  const std::string closing = session_->stop();
  EXPECT_THAT(closing, ::testing::HasSubstr("exp-op0"));
  EXPECT_EQ(files(), 2u) << "the bytes of an input that was read for the operator before, which is not recorded";
}

TEST_F(Devices, NothingIsWrittenIfNoValueOverflows) {
  plan_.op_debug_mode = 3;
  start();
  Tensor a = tensor({1, 2}), b = tensor({3, 4});
  run("mul", {&a}, b);
  arrive();
  EXPECT_THAT(session_->stop(), ::testing::HasSubstr("none overflowed"));
}

TEST_F(Devices, StatisticsAreAskedForWhereNoBytesAreNeeded) {
  plan_.saved_data = SavedData::statistic;
  start();
  Tensor there = tensor({1, 2, 3});
  run("mul", {}, there);
  ASSERT_EQ(g_begun.size(), 1u);
  EXPECT_EQ(g_begun[0].wants, SONDE_READ_STATISTICS);
  arrive();
  session_->stop();
}

TEST_F(Devices, StatisticsOfTheHostComeFromTheBytesWithoutFiles) {
  plan_.saved_data = SavedData::statistic;
  plan_.device_statistics = false;
  start();
  Tensor there = tensor({1, 2, 3});
  run("mul", {}, there);
  ASSERT_EQ(g_begun.size(), 1u);
  EXPECT_EQ(g_begun[0].wants, SONDE_READ_BYTES);
  arrive();
  session_->stop();
  EXPECT_THAT(written(), ElementsAre("out 6"));
  EXPECT_EQ(files(), 0u);
}

TEST_F(Devices, WhatNeverArrivesIsSkippedAtTheEnd) {
  start();
  Tensor first = tensor({1, 2, 3}), second = tensor({4});
  run("mul", {}, first);
  run("add", {}, second);
  arrive(1);
  session_->stop();
  EXPECT_THAT(written(), ElementsAre("out 6", "out -"));
}

TEST_F(Devices, ARefusalOfTheHostIsTheReason) {
  g_refusal = "a graph of the device is being captured";
  start();
  Tensor there = tensor({1, 2, 3});
  run("mul", {}, there);
  session_->stop();
  EXPECT_THAT(written(), ElementsAre("out -"));
}

// --- who waits for the device ----------------------------------------------------------------------------------------

TEST_F(Devices, TheEndWaitsForTheDevice) {
  start();
  Tensor there = tensor({1, 2, 3});
  run("mul", {}, there);
  g_wait = [this] { arrive(); };
  session_->stop();
  EXPECT_THAT(written(), ElementsAre("out 6"));
  EXPECT_EQ(files(), 1u);
}

TEST_F(Devices, WhatComesAfterTheEndIsForNobody) {
  start();
  Tensor there = tensor({1, 2, 3});
  run("mul", {}, there);
  session_->stop();
  EXPECT_EQ(g_taken, 0) << "its memory was given back";
  EXPECT_EQ(take_expected(g_begun.at(0).ticket), nullptr);
}

TEST_F(Devices, ARingThatIsWrittenHasTheTensorsThatTheDeviceStillReads) {
  plan_.sonde.ring = 1;
  start();
  Tensor there = tensor({1, 2, 3});
  run("mul", {}, there);
  g_wait = [this] { arrive(); };
  EXPECT_EQ(session_->write_ring("asked"), 1u);
  EXPECT_EQ(files(), 1u);
  session_->stop();
}

TEST_F(Devices, AFullBudgetWaitsForTheTensorsThatTheDeviceStillReads) {
  plan_.sonde.budget_bytes = 4096;
  start();
  g_wait = [this] { arrive(); };
  for (float value = 1; value <= 4; ++value) run("mul", {}, tensor(std::vector<float>(1024, value)));
  session_->stop();
  EXPECT_EQ(files(), 4u);
  EXPECT_EQ(g_most_taken, 1) << "one tensor fills the budget";
}

TEST_F(Devices, AFullBudgetThatNobodyWaitsForIsTheReason) {
  plan_.sonde.budget_bytes = 4096;
  plan_.sonde.when_full = WhenFull::statistics;
  start();
  g_wait = [this] { arrive(); };
  for (float value = 1; value <= 2; ++value) run("mul", {}, tensor(std::vector<float>(1024, value)));
  session_->stop();
  EXPECT_EQ(files(), 1u);
  EXPECT_THAT(written(), ElementsAre("out 1024", "out 0")) << "the host of the test brings no sum";
}

// The step in which the operator throws has begun behind records that wait.
TEST_F(Devices, AnOperatorThatThrowsKeepsItsOwnStep) {
  plan_.op_debug_mode = 4;
  start();
  Tensor a = tensor({1, 2}), b = tensor({3, 4});
  write_in_place("mul_", a);
  session_->optimizer_end();
  session_->root_forward(true, true, true);
  g_wait = [this] { arrive(); };
  fail("add", b);
  g_wait = nullptr;
  EXPECT_EQ(files(), 1u) << "its input is there before the program can end";
  session_->stop();
  EXPECT_THAT(steps(), ElementsAre(1u));
}

// Many threads deliver while many others run operators.
TEST_F(Devices, AnyThreadMayBringResults) {
  start();
  constexpr std::size_t kThreads = 4, kEach = 50;
  std::vector<std::vector<Tensor>> tensors(kThreads);
  for (std::vector<Tensor>& own : tensors) {
    for (std::size_t i = 0; i < kEach; ++i) own.push_back(tensor({1, 2, 3}));
  }
  std::vector<std::thread> threads;
  for (const std::vector<Tensor>& own : tensors) {
    threads.emplace_back([this, &own] {
      for (const Tensor& result : own) {
        run("mul", {}, result);
        arrive(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  session_->stop();
  EXPECT_EQ(written(), std::vector<std::string>(kThreads * kEach, "out 6"));
}

}  // namespace
}  // namespace sonde
