// The C ABI from many threads at once: ops with tensors in common, steps, outputs that come later, sessions that start
// and stop meanwhile. Made for ThreadSanitizer (scripts/test --tsan); without it, for crashes and lost records.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "dump/journal/journal.h"
#include "record/capture/api.h"
#include "sonde/sonde.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kElements = 300;

const struct sonde_api& api() { return *api_table(); }

// Memory that is never written, although the host reports writes: a real race would be the host's.
struct Tensor {
  std::vector<float> values = std::vector<float>(kElements, 1.5F);
  std::int64_t shape = kElements, stride = 1;
  std::uint64_t storage;
  explicit Tensor(std::uint64_t id) : storage(id) {}

  sonde_tensor view() const {
    sonde_tensor t{};
    t.size = sizeof t;
    t.dtype = SONDE_DTYPE_FLOAT32;
    t.data = t.storage_data = values.data();
    t.shape = &shape;
    t.strides = &stride;
    t.ndim = 1;
    t.storage = storage;
    t.storage_bytes = values.size() * sizeof(float);
    return t;
  }
};

class Threads : public ::testing::Test {
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

  fs::path dump(int n) const { return directory_ / ("dump" + std::to_string(n)); }

  bool start(int n) {
    const fs::path config = directory_ / ("dump" + std::to_string(n) + ".json");
    std::ofstream(config)
        << R"({"common_dump_settings":{"dump_mode":0,"path":")" << dump(n).string()
        << R"(","net_name":"Net","iteration":"all","saved_data":"full","input_output":0,"kernels":[],)"
        << R"("support_device":[0]},"e2e_dump_settings":{"enable":true}})";
    std::array<char, 4096> message{};
    return api().start(config.c_str(), message.data(), message.size()) == 0;
  }

  Result<Journal> journal(int n) const { return read_journal(dump(n) / "rank_0/.dump_metadata/sonde/journal"); }

  fs::path directory_;
};

std::uint32_t site(const char* type, std::uint32_t line) {
  sonde_site s{};
  s.size = sizeof s;
  s.op_type = type;
  s.scope = "";
  const sonde_source_line place{line, 0, 0, 0, "train.py", "train"};
  s.trace = &place;
  s.trace_count = 1;
  return api().site(&s);
}

// One op that reads `in` and writes `out`; every third has its output later, from another thread.
bool run_op(std::uint32_t line, const Tensor& in, const Tensor& out, bool later) {
  sonde_op* op = nullptr;
  if (api().op_begin(site(line % 2 == 0 ? "add" : "mul", line), SONDE_GRAPH_TRAINING, 0, &op) == 0) return false;
  const sonde_tensor input = in.view(), output = out.view();
  api().op_mutated(op, out.storage);
  api().op_input(op, 0, &input);
  if (later) {
    sonde_op* rest = api().op_defer(op);
    std::thread([&, rest] {
      api().op_mutated(rest, out.storage);
      api().op_output(rest, 0, &output);
      api().op_complete(rest, 0);
    }).join();
    return true;
  }
  api().op_output(op, 0, &output);
  api().op_end(op, 0);
  return true;
}

TEST_F(Threads, EveryOpOfManyThreadsIsRecordedOnceWithBothItsTensors) {
  constexpr int kThreads = 4, kEach = 150;
  ASSERT_TRUE(start(0));
  api().root_forward(1, 1, 1);
  const Tensor shared(1);
  const sonde_tensor weight = shared.view();
  std::atomic<int> begun{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const Tensor own(static_cast<std::uint64_t>(t) + 10);
      for (int i = 0; i < kEach; ++i) {
        const auto line = static_cast<std::uint32_t>(i % 7 + 1);
        begun += run_op(line, i % 2 == 0 ? shared : own, i % 5 == 0 ? shared : own, i % 3 == 0) ? 1 : 0;
        if (i % 40 == 0) api().name_tensor("weight", &weight);
        if (t == 0 && i % 50 == 49) {
          api().optimizer_end();
          api().root_forward(1, 1, 1);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(begun.load(), kThreads * kEach);
  api().stop(nullptr, 0);
  const Result<Journal> read = journal(0);
  ASSERT_TRUE(read);
  int ops = 0;
  std::set<std::uint64_t> sequences;
  for (const JournalRecord& record : read->runs.at(0).records) {
    if (record.kind != RecordKind::op) continue;
    ++ops;
    EXPECT_TRUE(sequences.insert(record.sequence).second);
    EXPECT_EQ(record.tensors.size(), 2U);
    for (const JournalTensor& slot : record.tensors) EXPECT_NE(slot.content, 0U);
  }
  EXPECT_EQ(ops, kThreads * kEach);
}

TEST_F(Threads, SessionsThatStartAndStopWhileOthersRecordAreWhole) {
  constexpr int kThreads = 3, kSessions = 12;
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  const Tensor shared(1);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const Tensor own(static_cast<std::uint64_t>(t) + 10);
      for (std::uint32_t i = 0; !done.load(); ++i) {
        run_op(i % 5 + 1, shared, own, i % 9 == 0);
        if (i % 16 == 0) api().root_forward(1, 1, 1);
        if (i % 16 == 15) api().optimizer_end();
        if (i % 64 == 0) std::this_thread::yield();
      }
    });
  }
  std::atomic<int> started{0};
  const auto switches = [&](int from) {
    for (int n = from; n < kSessions; n += 2) {
      if (start(n)) ++started;
      for (int i = 0; i < 20; ++i) api().capture();
      std::array<char, 2048> summary{};
      api().stop(summary.data(), summary.size());
      static_cast<void>(api().active());
    }
  };
  std::thread other(switches, 1);
  switches(0);
  other.join();
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(started.load(), 0);
  EXPECT_EQ(api().active(), 0);
  for (int n = 0; n < kSessions; ++n) {
    if (!fs::exists(dump(n) / "rank_0")) continue;
    const Result<Journal> read = journal(n);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->torn_bytes, 0U);
    EXPECT_EQ(read->malformed_entries, 0U);
  }
}

}  // namespace
}  // namespace sonde
